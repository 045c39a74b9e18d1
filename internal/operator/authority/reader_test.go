package authority_test

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/realmkeeper/realmkeeper/internal/operator/authority"
	"github.com/realmkeeper/realmkeeper/internal/operator/certificate"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// staticCache is a cache with the objects of a reader.
type staticCache struct {
	cache.Cache // nil: not used

	objects client.Reader
}

func (c staticCache) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	return c.objects.Get(ctx, key, into, options...)
}

func TestReaderReturnsTheBundle(t *testing.T) {
	i := published(t)
	bundle := string(certificate.Encode(i.ca.Bundle()))
	changed := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := secretOf(t, i.ca)
		change(secret)
		return secret
	}
	valid := changed(func(*corev1.Secret) {})
	for name, test := range map[string]struct {
		cached, live *corev1.Secret
		want         string
	}{
		"no CA":                              {},
		"a CA":                               {cached: valid, live: valid, want: bundle},
		"a CA that a user created":           {live: valid, want: bundle},
		"a CA that cannot sign":              {cached: changed(func(s *corev1.Secret) { s.Data["tls.key"] = []byte("x") })},
		"a CA whose next one cannot be read": {cached: changed(func(s *corev1.Secret) { s.Data["next.crt"] = []byte("x") })},
	} {
		t.Run(name, func(t *testing.T) {
			reader := authority.NewReader(staticCache{objects: with(t, test.cached)}, with(t, test.live), "system")
			for range 2 { // The second time, the Secret has been decoded.
				got, err := reader.Bundle(t.Context())
				if err != nil || string(got) != test.want {
					t.Errorf("%q, error %v, want %q", got, err, test.want)
				}
			}
		})
	}
}

func TestReaderFollowsTheCA(t *testing.T) {
	i := generated(t)
	objects := with(t, secretOf(t, i.ca))
	reader := authority.NewReader(staticCache{objects: objects}, objects, "system")
	before, _ := reader.Bundle(t.Context())
	i.plan(t, start.Add(publishAfter))
	secret := secretOf(t, i.ca)
	testkit.Do(t, objects.Update(t.Context(), secret))
	after, err := reader.Bundle(t.Context())
	if want := certificate.Encode(i.ca.Bundle()); err != nil || !bytes.Equal(after, want) || bytes.Equal(after, before) {
		t.Errorf("the bundle is %q, error %v, want %q", after, err, want)
	}
}

// with returns a client with at most one Secret.
func with(t *testing.T, secret *corev1.Secret) client.Client {
	t.Helper()
	builder := fake.NewClientBuilder()
	if secret != nil {
		secret = secret.DeepCopy()
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: "system", Name: authority.SecretName}
		builder = builder.WithObjects(secret)
	}
	return builder.Build()
}
