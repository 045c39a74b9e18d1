package authority_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

const day = 24 * time.Hour

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	policy = authority.Policy{Hosts: []string{"api.example.com"}, Lifetime: 3650 * day, Overlap: 365 * day, ServingLifetime: 90 * day}
)

const (
	switchAfter  = (3650 - 90) * day
	publishAfter = switchAfter - 365*day
)

// usersCA returns a CA that the operator didn't generate.
func usersCA(t testing.TB, at time.Time, lifetime time.Duration, hosts ...string) *certificate.CA {
	t.Helper()
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		NotBefore: at, NotAfter: at.Add(lifetime), PermittedDNSDomains: hosts,
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Example CA"}, IsCA: true, BasicConstraintsValid: true,
	}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	encoded := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	ca := testkit.Value(certificate.ParseCA(certificate.Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}))(t)
	return ca
}

// instance is an instance with a CA, as its operator reads it.
type instance struct{ ca *authority.Authority }

// plan plans and writes the CA. Planning again must change nothing.
func (i *instance) plan(t testing.TB, at time.Time) authority.Plan {
	t.Helper()
	p := testkit.Value(authority.Make(at, i.ca, policy, rand.Reader))(t)
	i.ca = stored(t, p.Authority)
	again := testkit.Value(authority.Make(at, i.ca, policy, rand.Reader))(t)
	if diff := cmp.Diff(secretOf(t, p.Authority).Data, secretOf(t, again.Authority).Data); diff != "" {
		t.Fatalf("step %q: planning again, step %q, changes the CA (-once +twice):\n%s", p.Step, again.Step, diff)
	}
	if !p.Next.After(at) {
		t.Fatalf("at %s the next change is at %s", at, p.Next)
	}
	return p
}

// want plans and checks the step, and the time of the next one.
func (i *instance) want(t testing.TB, at time.Time, step authority.Step, next time.Time) authority.Plan {
	t.Helper()
	p := i.plan(t, at)
	if p.Step != step || !p.Next.Equal(next) {
		t.Fatalf("at %s: step %q and next at %s, want %q and %s", at, p.Step, p.Next, step, next)
	}
	return p
}

// secretOf returns the Secret with a CA.
func secretOf(t testing.TB, a *authority.Authority) *corev1.Secret {
	t.Helper()
	secret := testkit.Value(apply.Convert[corev1.Secret](a.Secret("system", nil)))(t)
	return secret
}

// stored returns a CA after it was written and read.
func stored(t testing.TB, a *authority.Authority) *authority.Authority {
	t.Helper()
	decoded := testkit.Value(authority.Decode(secretOf(t, a)))(t)
	return decoded
}

func generated(t testing.TB) *instance {
	t.Helper()
	i := &instance{}
	i.want(t, start, authority.Generated, start.Add(publishAfter))
	return i
}

func published(t testing.TB) *instance {
	t.Helper()
	i := generated(t)
	i.want(t, start.Add(publishAfter), authority.Published, start.Add(switchAfter))
	return i
}
