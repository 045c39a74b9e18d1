package availability_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A user replaces the CA, and later deletes it. The new one signs immediately, and clients get it.
func TestCAReplacedByHand(t *testing.T) {
	s := newSite(t, long, false)
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

	// After the user has deleted the CA, because its key is compromised, another one signs, and nothing
	// contains the old one.
	s.Delete(t, s.caSecret(t))
	now := s.awaitSwitch(t, own.Leaf)
	s.awaitServed(t, now)
	s.awaitBundle(t, []*x509.Certificate{now}, clients...)
	s.wantTokens(t, clients)
	s.wantLogged(t, "Clients must load ca.crt again because another certificate authority signs")
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
