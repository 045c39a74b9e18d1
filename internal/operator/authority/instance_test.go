package authority_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

const day = 24 * time.Hour

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	policy = authority.Policy{Hosts: []string{"api.example.com"}, Lifetime: 365 * day, Overlap: 7 * day, ServingLifetime: 90 * day}
)

const (
	publishAfter = (365 - 90 - 14) * day
	moveAfter    = publishAfter + 7*day
)

func newCA(t testing.TB, at time.Time, lifetime time.Duration, hosts ...string) *certificate.CA {
	t.Helper()
	ca, err := certificate.NewCA(hosts, lifetime, at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// steps returns the steps of a plan, separated by commas.
func steps(p authority.Plan) authority.Step {
	var list []string
	for _, s := range p.Steps {
		list = append(list, string(s))
	}
	return authority.Step(strings.Join(list, ","))
}

// usersCA returns a CA that the operator didn't generate.
func usersCA(t testing.TB, at time.Time, lifetime time.Duration, hosts ...string) *certificate.CA {
	t.Helper()
	return usersCAWith(t, &x509.Certificate{NotBefore: at, NotAfter: at.Add(lifetime), PermittedDNSDomains: hosts})
}

func usersCAWith(t testing.TB, template *x509.Certificate) *certificate.CA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: "Example CA"}
	template.IsCA, template.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certificate.ParseCA(certificate.Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// instance is an instance with a CA, the state that its operator reads.
type instance struct {
	ca    *authority.Authority
	facts authority.Facts
}

// plan plans and, as the operator does, writes the CA and the serving certificate.
func (i *instance) plan(t testing.TB, at time.Time) authority.Plan {
	t.Helper()
	p := i.onlyPlan(t, at)
	i.ca = stored(t, p.Authority)
	i.issue(t, at)
	return p
}

// onlyPlan plans twice, which must have the same result.
func (i *instance) onlyPlan(t testing.TB, at time.Time) authority.Plan {
	t.Helper()
	p, err := authority.Make(at, i.ca, i.facts, policy, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	facts := i.facts
	if len(p.Steps) > 0 && steps(p) != authority.Adopted {
		facts.Outdated = 1 // The Secrets don't contain a CA that was just published.
	}
	if i.ca != nil && !slices.Contains(p.Steps, authority.Expired) { // The serving certificate of an expired CA has no issuer.
		again, err := authority.Make(at, stored(t, p.Authority), facts, policy, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(content(t, p.Authority), content(t, again.Authority)); diff != "" {
			t.Fatalf("step %q: planning again, step %q, changes the CA (-once +twice):\n%s", steps(p), steps(again), diff)
		}
	}
	if !p.Next.After(at) {
		t.Fatalf("at %s the next change is at %s", at, p.Next)
	}
	return p
}

// issue writes the serving certificate.
func (i *instance) issue(t testing.TB, at time.Time) {
	t.Helper()
	if i.facts.Serving == nil || at.Before(i.facts.Serving.NotBefore) || !i.ca.Current.Signed(i.facts.Serving) || !at.Before(i.facts.Serving.NotAfter.Add(-policy.ServingLifetime/3)) {
		pair, err := i.ca.Current.Issue(policy.Hosts, policy.ServingLifetime, at, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if i.facts.Serving, err = pair.Parse(); err != nil {
			t.Fatal(err)
		}
	}
	i.facts.Published = i.ca.Bundle()
}

// accepted returns why a client that trusts the bundle doesn't accept the token servers; nil if it
// does.
func (i *instance) accepted(bundle []*x509.Certificate, at time.Time) error {
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range bundle {
		roots.AddCert(c)
	}
	for _, c := range i.ca.Chain() {
		others.AddCert(c)
	}
	_, err := i.facts.Serving.Verify(x509.VerifyOptions{DNSName: policy.Hosts[0], Roots: roots, Intermediates: others, CurrentTime: at})
	return err
}

// secretOf returns the Secret with a CA.
func secretOf(t testing.TB, a *authority.Authority) *corev1.Secret {
	t.Helper()
	secret, err := apply.Convert[corev1.Secret](a.Secret("system", nil))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// stored returns a CA after it was written and read.
func stored(t testing.TB, a *authority.Authority) *authority.Authority {
	t.Helper()
	decoded, err := authority.Decode(secretOf(t, a))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func content(t testing.TB, a *authority.Authority) map[string]string {
	t.Helper()
	data := map[string]string{}
	for key, value := range secretOf(t, a).Data {
		data[key] = string(value)
	}
	return data
}

func created(t testing.TB) *instance {
	t.Helper()
	i := &instance{}
	if p := i.plan(t, start); steps(p) != authority.Created || !p.Next.Equal(start.Add(publishAfter)) {
		t.Fatalf("step %q, next at %s", steps(p), p.Next)
	}
	return i
}

func published(t testing.TB) *instance {
	t.Helper()
	i := created(t)
	if p := i.plan(t, start.Add(publishAfter)); steps(p) != authority.Published || !p.Next.Equal(start.Add(moveAfter)) {
		t.Fatalf("step %q, next at %s", steps(p), p.Next)
	}
	return i
}
