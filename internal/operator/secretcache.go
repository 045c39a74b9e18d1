package operator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/realmkeeper/realmkeeper/internal/operator/provided"
)

// maxCachedSecret is the size in bytes up to which a credentials Secret is cached with its data and
// all metadata. A Secret as the operator writes it is smaller.
const maxCachedSecret = 8 << 10

// stripSecrets returns a transformation that removes from cached Secrets what the operator reads
// from the API server when it needs it. Tenants can put the label on any Secret, so the memory for
// one must not depend on its size.
func stripSecrets(digests *provided.Digests) cache.TransformFunc {
	return func(obj any) (any, error) {
		secret, ok := obj.(*corev1.Secret)
		switch {
		case !ok:
			return obj, nil
		case provided.Readable(secret):
			return digests.Strip(secret), nil
		case secret.Size() > maxCachedSecret || metav1.GetControllerOf(secret) == nil:
			return provided.Identity(secret), nil
		}
		return secret, nil
	}
}
