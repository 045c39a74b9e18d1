package authority_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A user replaces the CA. It signs immediately, and clients get it.
func TestCAReplacedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, long)
	clients := s.start(t, "", 1, "billing")
	own := s.newCA(t, s.lifetime)
	s.change(t, map[string][]byte{corev1.TLSCertKey: own.Certificate, corev1.TLSPrivateKeyKey: own.Key})
	s.awaitServed(t, own.Leaf)
	s.awaitBundle(t, []*x509.Certificate{own.Leaf}, clients...)
	s.wantTokens(t, clients)

	// An unusable CA is never overwritten. Everything keeps working, and the operator says what to do.
	s.change(t, map[string][]byte{corev1.TLSPrivateKeyKey: []byte("x")})
	s.wantLogged(t, "restore it, or delete it to generate a new CA")
	s.KillAndRestartOperator(t)
	s.wantTokens(t, clients)
	if got := s.caSecret(t); string(got.Data[corev1.TLSPrivateKeyKey]) != "x" || !bytes.Equal(got.Data[corev1.TLSCertKey], own.Certificate) {
		t.Errorf("the operator changed the unusable CA: %q", got.Data[corev1.TLSCertKey])
	}
	s.change(t, map[string][]byte{corev1.TLSPrivateKeyKey: own.Key})
	s.awaitBundle(t, []*x509.Certificate{own.Leaf}, clients...)
}

// After a user has deleted the CA, because its key is compromised, another one signs, and nothing
// contains the old one.
func TestCompromisedCA(t *testing.T) {
	t.Parallel()
	s := newSite(t, long)
	clients := s.start(t, "", 1, "billing")
	before := s.current(t)
	s.Delete(t, s.caSecret(t))
	_, now := s.awaitSwitch(t, before)
	s.awaitServed(t, now)
	s.awaitBundle(t, []*x509.Certificate{now}, clients...)
	s.wantTokens(t, clients)
	s.wantLogged(t, "Clients must load ca.crt again because another certificate authority signs")
}

// A user adds a CA of their own to the bundle. Clients trust it until it expires, also after a renewal,
// and after the operator has restored a bundle that was changed elsewhere.
func TestForeignCertificatesInBundle(t *testing.T) {
	t.Parallel()
	s := newSite(t, long)
	clients := s.start(t, "", 1, "billing")
	current := s.current(t)
	foreign, err := certificate.NewCA(nil, s.lifetime, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.change(t, map[string][]byte{"previous.crt": foreign.Certificate})
	s.awaitBundle(t, []*x509.Certificate{current, foreign.Leaf}, clients...)

	// Changes of the copies are undone.
	published := &corev1.ConfigMap{}
	published.Namespace, published.Name = s.Namespace, "realmkeeper-ca-bundle"
	install.Change(t, s.Installation, published, func(c *corev1.ConfigMap) { c.Data["ca.crt"] = "x" })
	install.Change(t, s.Installation, s.CredentialsSecret(t, clients[0]), func(c *corev1.Secret) { c.Data["ca.crt"] = foreign.Certificate })
	s.awaitBundle(t, []*x509.Certificate{current, foreign.Leaf}, clients...)

	// A part that can't be read is reported and kept, and the CA still signs.
	s.change(t, map[string][]byte{"previous.crt": []byte("not a certificate")})
	s.wantLogged(t, "previous.crt in Secret realmkeeper-ca (correct it, or remove it from the Secret)")
	s.wantTokens(t, clients)
	if got := s.caSecret(t).Data["previous.crt"]; string(got) != "not a certificate" {
		t.Errorf("the operator changed the unreadable part to %q", got)
	}
}

// After the instance domain has changed, the names of the token servers violate the name constraints of
// the CA. Another CA signs immediately, and clients can connect as soon as they have loaded it.
func TestChangedDomain(t *testing.T) {
	t.Parallel()
	s := newSite(t, long)
	clients := s.start(t, "", 1, "billing")
	before := s.current(t)
	const domain = "changed.localhost"
	settings := s.settings()
	settings.Domain = domain
	s.Configure(t, settings)
	s.KillAndRestartOperator(t)
	_, after := s.awaitSwitch(t, before)
	s.awaitBundle(t, []*x509.Certificate{before, after}, clients...)
	for _, name := range []string{"api." + domain, config.TokenServiceName + "." + s.Namespace + ".svc"} {
		install.Eventually(t, "a serving certificate for "+name, func() error {
			_, err := handshakeWith(t.Context(), s.Servers()[0], name, poolOf(after))
			return err
		})
	}
	if _, err := handshakeWith(t.Context(), s.Servers()[0], "api."+domain, poolOf(before)); err == nil {
		t.Error("the previous CA is accepted for a name that its constraints don't permit")
	}
}

// change changes keys in the Secret of the CA.
func (s *site) change(t *testing.T, data map[string][]byte) {
	t.Helper()
	install.Change(t, s.Installation, s.caSecret(t), func(secret *corev1.Secret) {
		maps.Copy(secret.Data, data)
	})
}

// wantLogged waits until the operator's log contains a text.
func (s *site) wantLogged(t *testing.T, text string) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("the operator's log to contain %q", text), func() error {
		if !bytes.Contains(s.OperatorLog(t), []byte(text)) {
			return fmt.Errorf("it does not")
		}
		return nil
	})
}
