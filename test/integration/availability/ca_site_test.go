package availability_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// speedUp turns an hour into a second.
const speedUp = 3600

// host is the name that all serving certificates have.
const host = "api." + install.Domain

// life contains the durations of a CA. The product's are longer by the factor speedUp.
type life struct{ lifetime, overlap time.Duration }

var (
	// medium is a life with a short overlap in which no serving certificate expires during a test.
	medium = life{lifetime: 10 * time.Minute, overlap: 3 * time.Second}
	// long is for tests in which nothing is renewed.
	long = life{lifetime: 2 * time.Hour, overlap: time.Minute}
)

// settings returns the settings of an installation.
func (l life) settings() install.Settings {
	return install.Settings{SpeedUp: speedUp, CALifetime: (l.lifetime * speedUp).String(), CAOverlap: (l.overlap * speedUp).String()}
}

// site is an installation with a realm.
type site struct {
	*install.Installation

	life
	team  string
	realm *v1beta1.Realm
	// trustBundle is true if the CA is also published as a ClusterTrustBundle.
	trustBundle bool
}

// settings returns the current settings of the installation.
func (s *site) settings() install.Settings {
	settings := s.life.settings()
	settings.ClusterTrustBundle = s.trustBundle
	return settings
}

// newSite returns an installation without running processes.
func newSite(t *testing.T, l life, trustBundle bool) *site {
	t.Helper()
	s := &site{life: l, trustBundle: trustBundle}
	cluster := env.Start(t)
	s.Installation, s.team = install.New(t, cluster, s.settings()), cluster.Namespace(t)
	s.realm = install.Realm(s.Namespace)
	s.Create(t, s.realm)
	return s
}

// start starts the operator, token servers, and waits until clients with the given names are usable.
func (s *site) start(t *testing.T, kubeconfig string, servers int, clients ...string) []*v1beta1.ApiClient {
	t.Helper()
	s.StartOperator(t, kubeconfig)
	for range servers {
		s.StartTokenServer(t)
	}
	s.MountServingCertificate(t)
	list := make([]*v1beta1.ApiClient, 0, len(clients))
	for _, name := range clients {
		list = append(list, install.ApiClient(s.team, name, s.realm.Name))
		s.Create(t, list[len(list)-1])
	}
	for _, c := range list {
		s.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	for _, server := range s.Servers() {
		install.Eventually(t, server.Name+" to have a valid certificate", func() error {
			_, err := handshake(t.Context(), server, poolOf(s.bundle(t)...))
			return err
		})
	}
	return list
}

// handshake connects to a token server as a client that trusts the given CAs.
func handshake(ctx context.Context, s *install.TokenServer, roots *x509.CertPool) (tls.ConnectionState, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState(), nil
}

// hosts returns the names that a CA must permit.
func (s *site) hosts() []string {
	service := config.TokenServiceName + "." + s.Namespace + ".svc"
	return []string{host, service, service + ".cluster.local", config.TokenServiceName}
}

// newCA returns a new CA with the names of the installation.
func (s *site) newCA(t *testing.T, lifetime time.Duration) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(s.hosts(), lifetime, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// renewNow starts the operator again with a configuration with which the CA must be renewed immediately.
func (s *site) renewNow(t *testing.T) {
	t.Helper()
	s.makeDue(t)
	s.KillAndRestartOperator(t)
}

// makeDue writes a configuration with which the next operator must renew the CA immediately.
func (s *site) makeDue(t *testing.T) {
	t.Helper()
	s.lifetime *= 4 // A serving certificate would outlive the CA.
	s.Configure(t, s.settings())
}

// caSecret returns the Secret with the CA.
func (s *site) caSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	install.Eventually(t, "the Secret of the CA", func() error {
		return s.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: authority.SecretName}, secret)
	})
	return secret
}

// current returns the certificate of the CA that signs.
func (s *site) current(t *testing.T) *x509.Certificate {
	t.Helper()
	return parse(t, s.caSecret(t).Data[corev1.TLSCertKey])[0]
}

// bundle returns the certificates in the ConfigMap. There are none before it exists.
func (s *site) bundle(t *testing.T) []*x509.Certificate {
	t.Helper()
	published := &corev1.ConfigMap{}
	err := s.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: tokenservice.BundleName}, published)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	list, _ := pki.Parse([]byte(published.Data["ca.crt"])) // a test can damage it
	return list
}

// awaitBundle waits until the ConfigMap and the credentials Secrets of the clients contain exactly the
// given certificates.
func (s *site) awaitBundle(t *testing.T, want []*x509.Certificate, clients ...*v1beta1.ApiClient) {
	t.Helper()
	install.Eventually(t, "the bundle of CAs", func() error {
		if got := s.bundle(t); !sameSet(got, want) {
			return fmt.Errorf("the ConfigMap contains %v, want %v", names(got), names(want))
		}
		for _, c := range clients {
			if got := parse(t, s.CredentialsSecret(t, c).Data["ca.crt"]); !sameSet(got, want) {
				return fmt.Errorf("the Secret of %s contains %v, want %v", c.Name, names(got), names(want))
			}
		}
		return nil
	})
}

// awaitNext waits until the current CA has a successor and returns both. It can miss the overlap on a busy
// machine; the successor is current then.
func (s *site) awaitNext(t *testing.T) (current, next *x509.Certificate) {
	t.Helper()
	install.Eventually(t, "the next CA", func() error {
		secret := s.caSecret(t)
		signs, published := parse(t, secret.Data[corev1.TLSCertKey])[0], parse(t, secret.Data["next.crt"])
		if current == nil {
			current = signs
		}
		switch {
		case len(published) > 0:
			current, next = signs, published[0]
		case !signs.Equal(current):
			next = signs
		default:
			return fmt.Errorf("%s has no successor", current.Subject)
		}
		return nil
	})
	return current, next
}

// awaitSwitch waits until another CA than the given one signs, and returns it.
func (s *site) awaitSwitch(t *testing.T, from *x509.Certificate) (to *x509.Certificate) {
	t.Helper()
	install.Eventually(t, "another CA to sign", func() error {
		if to = s.current(t); to.Equal(from) {
			return fmt.Errorf("%s still signs", from.Subject)
		}
		return nil
	})
	return to
}

// awaitServed waits until all token servers send a certificate that the CA signed.
func (s *site) awaitServed(t *testing.T, ca *x509.Certificate) {
	t.Helper()
	for _, server := range s.Servers() {
		install.Eventually(t, server.Name+" to send a certificate of "+ca.Subject.CommonName, func() error {
			state, err := handshake(t.Context(), server, poolOf(ca))
			if err != nil {
				return err
			}
			return state.PeerCertificates[0].CheckSignatureFrom(ca)
		})
	}
}

func parse(t *testing.T, bundle []byte) []*x509.Certificate {
	t.Helper()
	list, err := pki.Parse(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func poolOf(list ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool
}

func sameSet(a, b []*x509.Certificate) bool {
	notIn := func(list []*x509.Certificate) func(*x509.Certificate) bool {
		return func(c *x509.Certificate) bool { return !slices.ContainsFunc(list, c.Equal) }
	}
	return !slices.ContainsFunc(a, notIn(b)) && !slices.ContainsFunc(b, notIn(a))
}

func names(list []*x509.Certificate) (names []string) {
	for _, c := range list {
		names = append(names, c.Subject.CommonName)
	}
	return names
}

// wantTokens checks that workloads that load their mounted credentials now can get tokens.
func (s *site) wantTokens(t *testing.T, clients []*v1beta1.ApiClient) {
	t.Helper()
	for _, c := range clients {
		credentials := s.CredentialsSecret(t, c)
		for _, server := range s.Servers() {
			response, err := install.RequestToken(t, server, server.ClientTrusting(t, credentials.Data["ca.crt"]), credentials)
			if err != nil || response.AccessToken == "" {
				t.Errorf("%s gets no token from %s: %+v, %v", c.Name, server.Name, response, err)
			}
		}
	}
}
