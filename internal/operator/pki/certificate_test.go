package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

const day = 24 * time.Hour

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"api.example.com", "realmkeeper-token-server.realmkeeper-system.svc"}
)

func newCA(t testing.TB, hosts ...string) *pki.CA {
	t.Helper()
	return testkit.Value(pki.NewCA(hosts, 365*day, now, rand.Reader))(t)
}

func issue(t testing.TB, ca *pki.CA, hosts []string, lifetime time.Duration) *x509.Certificate {
	t.Helper()
	pair := testkit.Value(ca.Issue(hosts, lifetime, now, rand.Reader))(t)
	return testkit.Value(pair.Parse())(t)
}

func pool(certificates ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		if c != nil {
			p.AddCert(c)
		}
	}
	return p
}

func TestServingCertificateVerifies(t *testing.T) {
	ca := newCA(t, hosts...)
	serving := issue(t, ca, hosts, 90*day)
	tests := map[string]struct {
		host string
		at   time.Time
		want bool
	}{
		"expired":                          {hosts[0], now.Add(90*day + time.Second), false},
		"public host":                      {hosts[0], now, true},
		"host inside the cluster":          {hosts[1], now, true},
		"client with a slow clock":         {hosts[0], now.Add(-59 * time.Minute), true},
		"client with a clock far too slow": {hosts[0], now.Add(-2 * time.Hour), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := serving.Verify(x509.VerifyOptions{Roots: pool(ca.Leaf), DNSName: tc.host, CurrentTime: tc.at})
			if (err == nil) != tc.want {
				t.Errorf("Verify: %v, want success %t", err, tc.want)
			}
		})
	}
	if _, err := serving.Verify(x509.VerifyOptions{Roots: pool(newCA(t, hosts...).Leaf), DNSName: hosts[0], CurrentTime: now}); err == nil {
		t.Error("the certificate verifies with a different CA")
	}
}

// A stolen CA key can't sign for other names, for addresses, or for another CA below it.
func TestNameConstraints(t *testing.T) {
	limited, unlimited := newCA(t, hosts...), newCA(t)
	for _, host := range []string{"www.example.com", "example.com", "kubernetes.default.svc", "127.0.0.1"} {
		for name, ca := range map[string]*pki.CA{"limited": limited, "unlimited": unlimited} {
			leaf := issue(t, ca, []string{host}, day)
			_, err := leaf.Verify(x509.VerifyOptions{Roots: pool(ca.Leaf), CurrentTime: now})
			if (err == nil) != (ca == unlimited) {
				t.Errorf("%s: %s CA: Verify: %v", host, name, err)
			}
			if pki.Permits(ca.Leaf, []string{hosts[0], host}) != (ca == unlimited) {
				t.Errorf("%s: %s CA: Permits is wrong", host, name)
			}
		}
	}
	if !pki.Permits(limited.Leaf, append([]string{"x.api.example.com", "API.example.com"}, hosts...)) {
		t.Error("the hosts are not permitted")
	}
	if !limited.Leaf.PermittedDNSDomainsCritical {
		t.Error("the name constraints are not critical")
	}
}

func TestKeyUsage(t *testing.T) {
	ca := newCA(t, hosts...)
	serving := issue(t, ca, hosts, 90*day)
	if !pki.Signs(ca.Leaf) || pki.Signs(serving) || !pki.IsGenerated(ca.Leaf) || pki.IsGenerated(serving) {
		t.Error("the CA or the serving certificate is not recognized")
	}
	if serving.KeyUsage != x509.KeyUsageDigitalSignature || !cmp.Equal(serving.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("serving certificate: usage %b, %v", serving.KeyUsage, serving.ExtKeyUsage)
	}
	if got := ca.Leaf.NotAfter.Sub(now); got != 365*day {
		t.Errorf("CA is valid for %s, want 365 days", got)
	}
	if ca.Leaf.SerialNumber.Sign() <= 0 || ca.Leaf.SerialNumber.Cmp(serving.SerialNumber) == 0 || ca.Leaf.SerialNumber.BitLen() > 127 {
		t.Errorf("invalid serial numbers %s and %s", ca.Leaf.SerialNumber, serving.SerialNumber)
	}
	if got := issue(t, ca, hosts, 1000*day); !got.NotAfter.Equal(ca.Leaf.NotAfter) {
		t.Errorf("the certificate expires on %s, after its CA", got.NotAfter)
	}
	long := strings.Repeat("a", 60) + ".example.com"
	if got := issue(t, ca, []string{long}, day); len(got.Subject.CommonName) > 64 || got.VerifyHostname(long) != nil {
		t.Errorf("long host: common name %q, error %v", got.Subject.CommonName, got.VerifyHostname(long))
	}
}

func TestInvalidPair(t *testing.T) {
	good, other := newCA(t), newCA(t)
	leaf := testkit.Value(good.Issue(hosts, day, now, rand.Reader))(t)
	block, _ := pem.Decode(good.Certificate)
	block.Bytes = block.Bytes[:len(block.Bytes)-1]
	tests := map[string]pki.Pair{
		"empty":                          {},
		"key of a different certificate": {Certificate: good.Certificate, Key: other.Key},
		"truncated certificate":          {Certificate: pem.EncodeToMemory(block), Key: good.Key},
		"serving certificate":            leaf,
	}
	for name, pair := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := pki.ParseCA(pair)
			if !errors.Is(err, pki.ErrInvalidPair) {
				t.Errorf("ParseCA: %v, want %v", err, pki.ErrInvalidPair)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY-----") {
				t.Errorf("the error contains the private key: %v", err)
			}
		})
	}
	if _, err := pki.ParseCA(good.Pair); err != nil {
		t.Errorf("valid pair: %v", err)
	}
}

func TestParse(t *testing.T) {
	a, b := newCA(t).Leaf, newCA(t).Leaf
	both := pki.Encode([]*x509.Certificate{a, b})
	for name, test := range map[string]struct {
		data  []byte
		want  int
		valid bool
	}{
		"none":                {nil, 0, true},
		"text after":          {append(bytes.Clone(both), "comment"...), 2, false},
		"blank":               {[]byte("\n"), 0, true},
		"text before":         {append([]byte("comment\n"), both...), 2, true},
		"a key between":       {bytes.Join([][]byte{pki.Encode([]*x509.Certificate{a}), newCA(t).Key, pki.Encode([]*x509.Certificate{b})}, nil), 2, false},
		"invalid certificate": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), 0, false},
	} {
		got, err := pki.Parse(test.data)
		if len(got) != test.want || (err == nil) != test.valid || err != nil && !errors.Is(err, pki.ErrInvalidPair) {
			t.Errorf("%s: %d certificates, error %v", name, len(got), err)
		}
	}
}
