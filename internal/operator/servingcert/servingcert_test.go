package servingcert_test

import (
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

const day = 24 * time.Hour

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"api.example.com", "realmkeeper-token-server.realmkeeper-system.svc"}
)

func newCA(t testing.TB) *certificate.CA {
	t.Helper()
	ca := testkit.Value(certificate.NewCA(nil, 365*day, now, rand.Reader))(t)
	return ca
}

func issue(t testing.TB, ca *certificate.CA, lifetime time.Duration, at time.Time) certificate.Pair {
	t.Helper()
	serving := testkit.Value(ca.Issue(hosts, lifetime, at, rand.Reader))(t)
	return serving
}

func TestRenewAt(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	serving := issue(t, ca, 90*day, now)
	tests := map[string]struct {
		ca       *certificate.CA
		serving  certificate.Pair
		hosts    []string
		at, want time.Time
	}{
		"third of the lifetime left":     {ca, serving, hosts, now, now.Add(60 * day)},
		"short lifetime":                 {ca, issue(t, ca, 30*time.Second, now), hosts, now, now.Add(20 * time.Second)},
		"expires with its CA":            {ca, issue(t, ca, 90*day, now.Add(300*day)), hosts, now.Add(300 * day), now.Add(365 * day)},
		"same certificate later":         {ca, serving, hosts, now.Add(59 * day), now.Add(60 * day)},
		"overdue":                        {ca, serving, hosts, now.Add(61 * day), now.Add(60 * day)},
		"fewer hosts":                    {ca, serving, hosts[:1], now, now.Add(60 * day)},
		"with a chain":                   {ca, servingcert.WithChain(serving, []*x509.Certificate{other.Leaf}), hosts, now, now.Add(60 * day)},
		"expired":                        {ca, serving, hosts, now.Add(91 * day), now.Add(91 * day)},
		"another host":                   {ca, serving, []string{"api.example.org"}, now, now},
		"additional host":                {ca, serving, append([]string{"api.example.org"}, hosts...), now, now},
		"another CA":                     {other, serving, hosts, now, now},
		"empty pair":                     {ca, certificate.Pair{}, hosts, now, now},
		"key of a different certificate": {ca, certificate.Pair{Certificate: serving.Certificate, Key: other.Key}, hosts, now, now},
		"CA as serving certificate":      {ca, ca.Pair, hosts, now, now},
		"not yet valid":                  {ca, issue(t, ca, 90*day, now.Add(day)), hosts, now, now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := servingcert.RenewAt(tc.ca, tc.serving, tc.hosts, tc.at); !got.Equal(tc.want) {
				t.Errorf("RenewAt: %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSecretRoundTrip(t *testing.T) {
	ca := newCA(t)
	serving := servingcert.WithChain(issue(t, ca, day, now), []*x509.Certificate{ca.Leaf})
	applied := servingcert.Secret("system", serving, map[string]string{"a": "b"})
	if *applied.Type != corev1.SecretTypeTLS || *applied.Name != "realmkeeper-serving-cert" || *applied.Namespace != "system" || applied.Labels["a"] != "b" {
		t.Errorf("Secret %s/%s of type %s with %v", *applied.Namespace, *applied.Name, *applied.Type, applied.Labels)
	}
	testkit.Diff(t, "result", serving, servingcert.FromSecret(&corev1.Secret{Data: applied.Data}))
	if again := servingcert.WithChain(serving, []*x509.Certificate{ca.Leaf}); !cmp.Equal(again, serving) {
		t.Error("adding the chain twice changes it")
	}
}
