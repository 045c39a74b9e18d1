package tokenservice

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki/authority"
)

func TestCertificatesAreIssuedOnceAndRenewedInTime(t *testing.T) {
	i := instance(t, "")
	first := decided(t, observed{}, i, now)
	if first.plan.Step != authority.Generated || first.serving == nil {
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
	if d := decided(t, seen, moved, now); d.plan.Step != authority.Renamed {
		t.Errorf("step %q for a different instance domain", d.plan.Step)
	} else {
		verifies(t, d, d.bundle, now, "api.example.org")
	}
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

// A certificate is issued by a CA that the API server already has, because the private key of another one would
// be lost if the operator stopped.
func TestCAIsWrittenFirst(t *testing.T) {
	var written []string
	lost := errors.New("the write is lost")
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			written = append(written, object.GetName())
			return lost
		},
	}).Build()
	r := &Reconciler{Instance: instance(t, ""), Client: c}
	if err := r.apply(t.Context(), observed{}, decided(t, observed{}, r.Instance, now)); !errors.Is(err, lost) {
		t.Errorf("error %v, want %v", err, lost)
	}
	testkit.Diff(t, "written", []string{authority.SecretName}, written)
}

// verifies checks that a client that trusts the bundle accepts what the token servers send.
func verifies(t *testing.T, d decision, bundle []byte, at time.Time, hosts ...string) {
	t.Helper()
	sent := testkit.Value(pki.Parse(d.serving.Certificate))(t)
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

func sameSecrets(t *testing.T, a, b observed) bool {
	t.Helper()
	return sameData(t, a.authority, b.authority) && sameData(t, a.serving, b.serving)
}

func sameData(t *testing.T, a, b *corev1.Secret) bool {
	t.Helper()
	encoded := func(s *corev1.Secret) string {
		data := testkit.Value(json.Marshal(s.Data))(t)
		return string(data)
	}
	return encoded(a) == encoded(b)
}
