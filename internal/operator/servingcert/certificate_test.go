package servingcert_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

const day = 24 * time.Hour

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"api.example.com", "realmkeeper-token-server.realmkeeper-system.svc"}
)

func newAuthority(t testing.TB, at time.Time) servingcert.Pair {
	t.Helper()
	authority, err := servingcert.NewAuthority(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func issue(t testing.TB, authority servingcert.Pair, hosts []string, at time.Time) servingcert.Pair {
	t.Helper()
	serving, err := authority.Issue(hosts, at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return serving
}

// leaf is the certificate of a pair whose key fits it.
func leaf(t testing.TB, p servingcert.Pair) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestChainVerifies(t *testing.T) {
	authority := newAuthority(t, now)
	serving := issue(t, authority, hosts, now)
	roots := x509.NewCertPool()
	roots.AddCert(leaf(t, authority))
	tests := map[string]struct {
		host string
		at   time.Time
		want bool
	}{
		"the public host":                 {hosts[0], now, true},
		"the host inside the cluster":     {hosts[1], now, true},
		"a client whose clock is behind":  {hosts[0], now.Add(-59 * time.Minute), true},
		"a clock that is too far behind":  {hosts[0], now.Add(-2 * time.Hour), false},
		"the last day":                    {hosts[0], now.Add(90*day - time.Second), true},
		"expired":                         {hosts[0], now.Add(90*day + time.Second), false},
		"another host":                    {"api.example.org", now, false},
		"a host below":                    {"x.api.example.com", now, false},
		"the name that only the CA knows": {"Realmkeeper CA", now, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := leaf(t, serving).Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, CurrentTime: tc.at})
			if (err == nil) != tc.want {
				t.Errorf("verified: %v, want %t", err, tc.want)
			}
		})
	}
	stranger := x509.NewCertPool()
	stranger.AddCert(leaf(t, newAuthority(t, now)))
	if _, err := leaf(t, serving).Verify(x509.VerifyOptions{Roots: stranger, DNSName: hosts[0], CurrentTime: now}); err == nil {
		t.Error("another CA verifies it")
	}
}

// The CA signs certificates and nothing else, and the serving certificate signs none.
func TestUsages(t *testing.T) {
	authority := newAuthority(t, now)
	ca, serving := leaf(t, authority), leaf(t, issue(t, authority, hosts, now))
	if !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign {
		t.Errorf("the CA: IsCA %t, usage %b", ca.IsCA, ca.KeyUsage)
	}
	if serving.IsCA || serving.KeyUsage != x509.KeyUsageDigitalSignature || !cmp.Equal(serving.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("the serving certificate: IsCA %t, usage %b, %v", serving.IsCA, serving.KeyUsage, serving.ExtKeyUsage)
	}
	if diff := cmp.Diff(hosts, serving.DNSNames); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if got := ca.NotAfter.Sub(now); got != 3650*day {
		t.Errorf("the CA is valid for %s", got)
	}
	if ca.SerialNumber.Sign() <= 0 || ca.SerialNumber.Cmp(serving.SerialNumber) == 0 || ca.SerialNumber.BitLen() > 127 {
		t.Errorf("serial numbers %s and %s", ca.SerialNumber, serving.SerialNumber)
	}
	long := strings.Repeat("a", 60) + ".example.com"
	if got := leaf(t, issue(t, authority, []string{long}, now)); len(got.Subject.CommonName) > 64 || got.VerifyHostname(long) != nil {
		t.Errorf("a long host: common name %q, %v", got.Subject.CommonName, got.VerifyHostname(long))
	}
}

func TestRenewAt(t *testing.T) {
	authority, other := newAuthority(t, now), newAuthority(t, now)
	serving := issue(t, authority, hosts, now)
	tests := map[string]struct {
		authority, serving servingcert.Pair
		hosts              []string
		at, want           time.Time
	}{
		"when a third of its life is left": {authority, serving, hosts, now, now.Add(60 * day)},
		"the same later":                   {authority, serving, hosts, now.Add(59 * day), now.Add(60 * day)},
		"overdue":                          {authority, serving, hosts, now.Add(61 * day), now.Add(60 * day)},
		"fewer hosts":                      {authority, serving, hosts[:1], now, now.Add(60 * day)},
		"expired":                          {authority, serving, hosts, now.Add(91 * day), now.Add(91 * day)},
		"another host":                     {authority, serving, []string{"api.example.org"}, now, now},
		"one host more":                    {authority, serving, append([]string{"api.example.org"}, hosts...), now, now},
		"another CA":                       {other, serving, hosts, now, now},
		"a broken CA":                      {servingcert.Pair{}, serving, hosts, now, now},
		"no pair":                          {authority, servingcert.Pair{}, hosts, now, now},
		"another's key":                    {authority, servingcert.Pair{Certificate: serving.Certificate, Key: other.Key}, hosts, now, now},
		"the CA for itself":                {authority, authority, hosts, now, now},
		"not yet valid":                    {authority, issue(t, authority, hosts, now.Add(day)), hosts, now, now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.authority.RenewAt(tc.serving, tc.hosts, tc.at); !got.Equal(tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestUnusablePairs(t *testing.T) {
	good, other := newAuthority(t, now), newAuthority(t, now)
	block, _ := pem.Decode(good.Certificate)
	block.Bytes = block.Bytes[:len(block.Bytes)-1]
	tests := map[string]servingcert.Pair{
		"empty":                 {},
		"no key":                {Certificate: good.Certificate},
		"no certificate":        {Key: good.Key},
		"another's key":         {Certificate: good.Certificate, Key: other.Key},
		"exchanged":             {Certificate: good.Key, Key: good.Certificate},
		"not PEM":               {Certificate: []byte("x"), Key: []byte("y")},
		"a certificate cut off": {Certificate: pem.EncodeToMemory(block), Key: good.Key},
	}
	for name, pair := range tests {
		t.Run(name, func(t *testing.T) {
			err := pair.Check()
			if !errors.Is(err, servingcert.ErrInvalidPair) {
				t.Errorf("Check: %v, want %v", err, servingcert.ErrInvalidPair)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY-----") {
				t.Errorf("the error tells the key: %v", err)
			}
			if _, err := pair.Issue(hosts, now, rand.Reader); !errors.Is(err, servingcert.ErrInvalidPair) {
				t.Errorf("Issue: %v, want %v", err, servingcert.ErrInvalidPair)
			}
		})
	}
	if err := good.Check(); err != nil {
		t.Errorf("a good pair: %v", err)
	}
}

func TestPairsFailWithTheirSource(t *testing.T) {
	broken := errors.New("no entropy")
	if _, err := servingcert.NewAuthority(now, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("NewAuthority: %v, want %v", err, broken)
	}
	if _, err := newAuthority(t, now).Issue(hosts, now, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("Issue: %v, want %v", err, broken)
	}
}

func TestSecretRoundTrip(t *testing.T) {
	pair := newAuthority(t, now)
	applied := pair.Secret("system", servingcert.AuthoritySecret, map[string]string{"a": "b"})
	if *applied.Type != corev1.SecretTypeTLS || *applied.Name != "realmkeeper-ca" || *applied.Namespace != "system" || applied.Labels["a"] != "b" {
		t.Errorf("Secret %s/%s of type %s with %v", *applied.Namespace, *applied.Name, *applied.Type, applied.Labels)
	}
	if diff := cmp.Diff(pair, servingcert.FromSecret(&corev1.Secret{Data: applied.Data})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
