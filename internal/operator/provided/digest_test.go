package provided_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is cached of a provided Secret neither contains its values nor depends on its size.
func TestStrip(t *testing.T) {
	f := start(t)
	one, many := newSecret("team", "one", 1, strings.Repeat("x", 1<<20)), newSecret("team", "many", 1, "")
	one.Annotations = map[string]string{"a": strings.Repeat("y", 1<<17)}
	one.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", 1<<10)}}
	one.Labels[strings.Repeat("l", 63)] = "other"
	one.Finalizers = []string{strings.Repeat("f", 1<<10)}
	for i := range 10_000 {
		many.Data[strconv.Itoa(i)] = []byte("some value")
	}
	for _, secret := range []*corev1.Secret{one, many} {
		stripped := f.Strip(secret)
		if size := stripped.Size(); size > 512 {
			t.Errorf("%s: %d bytes are cached of %d", secret.Name, size, secret.Size())
		}
		data, err := stripped.Marshal()
		if err != nil || bytes.Contains(data, []byte("xxx")) || bytes.Contains(data, []byte("some value")) {
			t.Errorf("%s: the cached Secret contains a value, or %v", secret.Name, err)
		}
		if stripped.UID != secret.UID || stripped.ResourceVersion != secret.ResourceVersion {
			t.Errorf("%s: the cached Secret is %+v", secret.Name, stripped)
		}
	}
	if other := start(t).Strip(one); bytes.Equal(other.Data["password"], f.Strip(one).Data["password"]) {
		t.Error("two processes use the same digests")
	}
}
