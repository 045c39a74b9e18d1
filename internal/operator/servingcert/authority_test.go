package servingcert_test

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
)

// secretCache contains one Secret.
type secretCache struct {
	cache.Cache

	data map[string][]byte
}

func (c *secretCache) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.(*corev1.Secret).Data = c.data
	return nil
}

// The reader checks a CA only once, and notices every change.
func TestAuthorityReader(t *testing.T) {
	first, second := newAuthority(t, now), newAuthority(t, now)
	secrets := &secretCache{}
	reader := servingcert.NewAuthorityReader(secrets, nil, "system")
	for i, step := range []struct{ certificate, key, want []byte }{
		{first.Certificate, first.Key, first.Certificate},
		{first.Certificate, first.Key, first.Certificate},
		{first.Certificate, second.Key, nil},
		{second.Certificate, second.Key, second.Certificate},
		{nil, nil, nil},
		{first.Certificate, first.Key, first.Certificate},
	} {
		secrets.data = map[string][]byte{corev1.TLSCertKey: step.certificate, corev1.TLSPrivateKeyKey: step.key}
		got, err := reader.Certificate(t.Context())
		if err != nil || !bytes.Equal(got, step.want) {
			t.Errorf("step %d: Certificate() = %q, %v; want %q", i, got, err, step.want)
		}
	}
}
