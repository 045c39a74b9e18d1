package tokenservice

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
)

func TestCertificatesAreIssuedOnceAndRenewedInTime(t *testing.T) {
	i := instance(t, "")
	first := decided(t, observed{}, i, now)
	if steps(first) != authority.Created || first.serving == nil {
		t.Fatal("no CA or no serving certificate at startup")
	}
	verifies(t, first, []byte(first.caBundle.Data["ca.crt"]), now, "api.example.com", "realmkeeper-token-server.system.svc")

	seen := settled(t, first)
	d := decided(t, seen, i, now.Add(time.Hour))
	if !sameSecrets(t, seen, settled(t, d)) || !d.next.Equal(first.next) {
		t.Errorf("the Secrets change one hour later, or the next change moves from %s to %s", first.next, d.next)
	}
	d = decided(t, seen, i, first.next)
	if got := settled(t, d); !sameData(t, seen.authority, got.authority) || sameData(t, seen.serving, got.serving) {
		t.Error("at the renewal time, want a new serving certificate and no new CA")
	}

	moved := instance(t, "")
	moved.InstanceDomain = "example.org"
	if d := decided(t, seen, moved, now); steps(d) != authority.Renamed {
		t.Errorf("step %q for a different instance domain", steps(d))
	} else {
		verifies(t, d, d.bundle, now, "api.example.org")
	}
}

// One whole renewal, carried out with a crash after each write.
func TestRenewal(t *testing.T) {
	i := instance(t, "")
	first := decided(t, observed{}, i, now)
	seen, old := settled(t, first), first.bundle

	publishAt := now.Add(261 * 24 * time.Hour)
	published := decided(t, seen, i, publishAt)
	if steps(published) != authority.Published || !published.isWaiting() {
		t.Fatalf("step %q, want the next CA published", steps(published))
	}
	seen.authority = settled(t, published).authority // The operator is killed before it writes the rest.
	published = decided(t, seen, i, publishAt.Add(time.Minute))
	if leafOf(t, published).Equal(leafOf(t, first)) {
		t.Error("the serving certificate is the same with another chain, so token servers don't load it")
	}
	seen = settled(t, published)
	if again := decided(t, seen, i, publishAt.Add(time.Hour)); !leafOf(t, again).Equal(leafOf(t, published)) {
		t.Error("the serving certificate is issued again although its chain is the same")
	}
	both := published.bundle
	verifies(t, published, old, publishAt, "api.example.com")
	verifies(t, published, without(t, both, old), publishAt, "api.example.com")

	moveAt := publishAt.Add(7 * 24 * time.Hour)
	seen.outdated = []*v1alpha1.ApiClient{{}}
	if d := decided(t, seen, i, moveAt); steps(d) != "" || !d.next.After(moveAt) {
		t.Errorf("step %q with an outdated credentials Secret, next at %s", steps(d), d.next)
	}
	if d := decided(t, seen, i, moveAt.Add(7*24*time.Hour)); steps(d) != authority.Forced {
		t.Errorf("step %q at the deadline, want %q", steps(d), authority.Forced)
	}
	seen.outdated = nil
	moved := decided(t, seen, i, moveAt)
	if steps(moved) != authority.Moved || !bytes.Equal(moved.bundle, both) {
		t.Errorf("step %q, bundle changes: %t", steps(moved), !bytes.Equal(moved.bundle, both))
	}
	seen.authority = settled(t, moved).authority
	verifies(t, published, both, moveAt, "api.example.com") // The old certificate is still served.
	moved = decided(t, seen, i, moveAt.Add(time.Minute))
	seen = settled(t, moved)
	for name, bundle := range map[string][]byte{"both": both, "old": old, "next": without(t, both, old)} {
		t.Log(name)
		verifies(t, moved, bundle, moveAt, "api.example.com")
	}

	end := now.Add(365*24*time.Hour + time.Second)
	if d := decided(t, seen, i, end); len(d.authority.Previous) > 0 || !bytes.Equal(d.bundle, without(t, both, old)) {
		t.Error("the bundle contains the old CA after its end")
	}
}

// steps returns the steps of a plan, separated by commas.
func steps(d decision) authority.Step {
	var list []string
	for _, s := range d.plan.Steps {
		list = append(list, string(s))
	}
	return authority.Step(strings.Join(list, ","))
}

// leafOf returns the serving certificate of a decision.
func leafOf(t *testing.T, d decision) *x509.Certificate {
	t.Helper()
	leaf, err := d.serving.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// An unusable CA must not be replaced, because workloads trust it.
func TestInvalidAuthorityIsKept(t *testing.T) {
	seen := settled(t, decided(t, observed{}, instance(t, ""), now))
	seen.authority.Data[corev1.TLSPrivateKeyKey] = []byte("invalid")
	d, err := decide(seen, instance(t, ""), "image:1", now, rand.Reader)
	if !errors.Is(err, authority.ErrUnusable) || d.plan.Authority != nil || d.serving != nil || d.caBundle != nil || d.deployment == nil {
		t.Errorf("error %v, want %v, and a decision without certificates", err, authority.ErrUnusable)
	}
}

// The serving certificate is renewed although another part of the Secret is damaged.
func TestDamagedPartStopsOnlyTheRenewal(t *testing.T) {
	seen := settled(t, decided(t, observed{}, instance(t, ""), now))
	seen.authority.Data["previous.crt"] = []byte("invalid")
	d, err := decide(seen, instance(t, ""), "image:1", now.Add(61*24*time.Hour), rand.Reader)
	if !errors.Is(err, authority.ErrUnreadable) || d.plan.Authority != nil {
		t.Errorf("error %v, want %v and no new CA", err, authority.ErrUnreadable)
	}
	verifies(t, d, d.bundle, now.Add(100*24*time.Hour), "api.example.com")
}

// Writing a certificate that is not valid would trigger endless renewals.
func TestCertificateThatIsNotValidYetIsNotWritten(t *testing.T) {
	seen := settled(t, decided(t, observed{}, instance(t, ""), now))
	seen.serving = nil
	seen.authority.Data["previous.crt"] = []byte("invalid") // Otherwise, another CA would be generated.
	beforeTheCA := now.Add(-48 * time.Hour)
	d, err := decide(seen, instance(t, ""), "image:1", beforeTheCA, rand.Reader)
	if !errors.Is(err, authority.ErrUnusable) || d.serving != nil || d.deployment == nil {
		t.Errorf("error %v, certificate %v, Deployment %t, want only an error and a Deployment", err, d.serving, d.deployment != nil)
	}
}

// verifies checks that a client that trusts the bundle accepts what the token servers send.
func verifies(t *testing.T, d decision, bundle []byte, at time.Time, hosts ...string) {
	t.Helper()
	sent, err := certificate.Parse(d.serving.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, c := range sent[1:] {
		others.AddCert(c)
	}
	for _, host := range hosts {
		if _, err := sent[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: others, CurrentTime: at}); err != nil {
			t.Errorf("certificate is not valid for %s: %v", host, err)
		}
	}
}

// without returns a bundle without the certificates of another one.
func without(t *testing.T, bundle, other []byte) []byte {
	t.Helper()
	all, err := certificate.Parse(bundle)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := certificate.Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	var rest []*x509.Certificate
	for _, c := range all {
		if !c.Equal(removed[0]) {
			rest = append(rest, c)
		}
	}
	return certificate.Encode(rest)
}

func sameSecrets(t *testing.T, a, b observed) bool {
	t.Helper()
	return sameData(t, a.authority, b.authority) && sameData(t, a.serving, b.serving)
}

func sameData(t *testing.T, a, b *corev1.Secret) bool {
	t.Helper()
	encoded := func(s *corev1.Secret) string {
		data, err := json.Marshal(s.Data)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return encoded(a) == encoded(b)
}
