package pki_test

import (
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

func issueAt(t testing.TB, ca *pki.CA, lifetime time.Duration, at time.Time) pki.Pair {
	t.Helper()
	return testkit.Value(ca.Issue(hosts, lifetime, at, rand.Reader))(t)
}

func TestRenewAt(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	serving := issueAt(t, ca, 90*day, now)
	tests := map[string]struct {
		ca       *pki.CA
		serving  pki.Pair
		hosts    []string
		at, want time.Time
	}{
		"third of the lifetime left":     {ca, serving, hosts, now, now.Add(60 * day)},
		"short lifetime":                 {ca, issueAt(t, ca, 30*time.Second, now), hosts, now, now.Add(20 * time.Second)},
		"expires with its CA":            {ca, issueAt(t, ca, 90*day, now.Add(300*day)), hosts, now.Add(300 * day), now.Add(365 * day)},
		"fewer hosts":                    {ca, serving, hosts[:1], now, now.Add(60 * day)},
		"with a chain":                   {ca, pki.WithChain(serving, []*x509.Certificate{other.Leaf}), hosts, now, now.Add(60 * day)},
		"expired":                        {ca, serving, hosts, now.Add(91 * day), now.Add(91 * day)},
		"another host":                   {ca, serving, []string{"api.example.org"}, now, now},
		"another CA":                     {other, serving, hosts, now, now},
		"key of a different certificate": {ca, pki.Pair{Certificate: serving.Certificate, Key: other.Key}, hosts, now, now},
		"not yet valid":                  {ca, issueAt(t, ca, 90*day, now.Add(day)), hosts, now, now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := pki.RenewAt(tc.ca, tc.serving, tc.hosts, tc.at); !got.Equal(tc.want) {
				t.Errorf("RenewAt: %s, want %s", got, tc.want)
			}
		})
	}
}
