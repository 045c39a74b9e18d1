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

// leaf returns the certificate of a pair. It fails the test if the key does not match.
func leaf(t testing.TB, p servingcert.Pair) *x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestServingCertificateVerifies(t *testing.T) {
	authority := newAuthority(t, now)
	serving := issue(t, authority, hosts, now)
	roots := x509.NewCertPool()
	roots.AddCert(leaf(t, authority))
	tests := map[string]struct {
		host string
		at   time.Time
		want bool
	}{
		"public host":                             {hosts[0], now, true},
		"host inside the cluster":                 {hosts[1], now, true},
		"client with a slow clock":                {hosts[0], now.Add(-59 * time.Minute), true},
		"client with a clock before the backdate": {hosts[0], now.Add(-2 * time.Hour), false},
		"last second":                             {hosts[0], now.Add(90*day - time.Second), true},
		"expired":                                 {hosts[0], now.Add(90*day + time.Second), false},
		"another host":                            {"api.example.org", now, false},
		"subdomain":                               {"x.api.example.com", now, false},
		"common name of the CA":                   {"Realmkeeper CA", now, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := leaf(t, serving).Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, CurrentTime: tc.at})
			if (err == nil) != tc.want {
				t.Errorf("Verify: %v, want success %t", err, tc.want)
			}
		})
	}
	otherCA := x509.NewCertPool()
	otherCA.AddCert(leaf(t, newAuthority(t, now)))
	if _, err := leaf(t, serving).Verify(x509.VerifyOptions{Roots: otherCA, DNSName: hosts[0], CurrentTime: now}); err == nil {
		t.Error("the certificate verifies with a different CA")
	}
}

// The CA can only sign certificates, and the serving certificate cannot sign any.
func TestKeyUsage(t *testing.T) {
	authority := newAuthority(t, now)
	ca, serving := leaf(t, authority), leaf(t, issue(t, authority, hosts, now))
	if !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign {
		t.Errorf("CA: IsCA %t, usage %b", ca.IsCA, ca.KeyUsage)
	}
	if serving.IsCA || serving.KeyUsage != x509.KeyUsageDigitalSignature || !cmp.Equal(serving.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("serving certificate: IsCA %t, usage %b, %v", serving.IsCA, serving.KeyUsage, serving.ExtKeyUsage)
	}
	if diff := cmp.Diff(hosts, serving.DNSNames); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if got := ca.NotAfter.Sub(now); got != 3650*day {
		t.Errorf("CA is valid for %s, want 3650 days", got)
	}
	if ca.SerialNumber.Sign() <= 0 || ca.SerialNumber.Cmp(serving.SerialNumber) == 0 || ca.SerialNumber.BitLen() > 127 {
		t.Errorf("invalid serial numbers %s and %s", ca.SerialNumber, serving.SerialNumber)
	}
	long := strings.Repeat("a", 60) + ".example.com"
	if got := leaf(t, issue(t, authority, []string{long}, now)); len(got.Subject.CommonName) > 64 || got.VerifyHostname(long) != nil {
		t.Errorf("long host: common name %q, error %v", got.Subject.CommonName, got.VerifyHostname(long))
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
		"third of the lifetime left":     {authority, serving, hosts, now, now.Add(60 * day)},
		"same certificate later":         {authority, serving, hosts, now.Add(59 * day), now.Add(60 * day)},
		"overdue":                        {authority, serving, hosts, now.Add(61 * day), now.Add(60 * day)},
		"fewer hosts":                    {authority, serving, hosts[:1], now, now.Add(60 * day)},
		"expired":                        {authority, serving, hosts, now.Add(91 * day), now.Add(91 * day)},
		"another host":                   {authority, serving, []string{"api.example.org"}, now, now},
		"additional host":                {authority, serving, append([]string{"api.example.org"}, hosts...), now, now},
		"another CA":                     {other, serving, hosts, now, now},
		"invalid CA":                     {servingcert.Pair{}, serving, hosts, now, now},
		"empty pair":                     {authority, servingcert.Pair{}, hosts, now, now},
		"key of a different certificate": {authority, servingcert.Pair{Certificate: serving.Certificate, Key: other.Key}, hosts, now, now},
		"CA as serving certificate":      {authority, authority, hosts, now, now},
		"not yet valid":                  {authority, issue(t, authority, hosts, now.Add(day)), hosts, now, now},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.authority.RenewAt(tc.serving, tc.hosts, tc.at); !got.Equal(tc.want) {
				t.Errorf("RenewAt: %s, want %s", got, tc.want)
			}
		})
	}
}

func TestInvalidPair(t *testing.T) {
	good, other := newAuthority(t, now), newAuthority(t, now)
	block, _ := pem.Decode(good.Certificate)
	block.Bytes = block.Bytes[:len(block.Bytes)-1]
	tests := map[string]servingcert.Pair{
		"empty":                          {},
		"no key":                         {Certificate: good.Certificate},
		"no certificate":                 {Key: good.Key},
		"key of a different certificate": {Certificate: good.Certificate, Key: other.Key},
		"certificate and key swapped":    {Certificate: good.Key, Key: good.Certificate},
		"not PEM":                        {Certificate: []byte("x"), Key: []byte("y")},
		"truncated certificate":          {Certificate: pem.EncodeToMemory(block), Key: good.Key},
	}
	for name, pair := range tests {
		t.Run(name, func(t *testing.T) {
			err := pair.Check()
			if !errors.Is(err, servingcert.ErrInvalidPair) {
				t.Errorf("Check: %v, want %v", err, servingcert.ErrInvalidPair)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY-----") {
				t.Errorf("the error contains the private key: %v", err)
			}
			if _, err := pair.Issue(hosts, now, rand.Reader); !errors.Is(err, servingcert.ErrInvalidPair) {
				t.Errorf("Issue: %v, want %v", err, servingcert.ErrInvalidPair)
			}
		})
	}
	if err := good.Check(); err != nil {
		t.Errorf("valid pair: %v", err)
	}
}

func TestRandomSourceErrorIsReturned(t *testing.T) {
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
