package operator

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/provided"
)

// Thousands of large Secrets that a tenant labels cost the operator less memory than one of them.
func TestCachedSecretsAreSmall(t *testing.T) {
	digests, err := provided.NewDigests(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	strip := stripSecrets(digests)
	const mebibyte = 1 << 20
	many := map[string][]byte{}
	for i := range 20_000 {
		many[fmt.Sprint("key-", i)] = []byte("rk_some value")
	}
	large := map[string]func(*corev1.Secret){
		"data":        func(s *corev1.Secret) { s.Data = map[string][]byte{"a": bytes.Repeat([]byte("x"), mebibyte)} },
		"many values": func(s *corev1.Secret) { s.Data = many },
		"annotations": func(s *corev1.Secret) { s.Annotations = map[string]string{"a": strings.Repeat("x", mebibyte/4)} },
		"labels": func(s *corev1.Secret) {
			for i := range 10_000 {
				s.Labels[fmt.Sprint("label-", i)] = strings.Repeat("x", 63)
			}
		},
		"field managers": func(s *corev1.Secret) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", mebibyte))}}
		},
		"finalizers": func(s *corev1.Secret) { s.Finalizers = slicesOf("example.com/finalizer", 10_000) },
		"owners": func(s *corev1.Secret) {
			for i := range 10_000 {
				s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Name: fmt.Sprint("owner-", i), Kind: "ConfigMap"})
			}
		},
	}
	for _, label := range []string{v1alpha1.ClientSecretProvided, v1alpha1.ClientSecretGenerated} {
		for name, grow := range large {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "a", UID: types.UID("u"), ResourceVersion: "1", Labels: map[string]string{v1alpha1.ClientSecretLabel: label},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ApiClient", Name: "a", UID: "u", Controller: new(true)}},
			}}
			grow(secret)
			cached, err := strip(secret)
			if err != nil {
				t.Fatal(err)
			}
			if size := cached.(*corev1.Secret).Size(); size > 512 {
				t.Errorf("%s, label %q: %d bytes are cached", name, label, size)
			}
		}
	}
}

// The planner needs the data and the field managers of a credentials Secret as the operator writes
// it. Without an owner, it isn't one.
func TestCredentialsSecretsAreCached(t *testing.T) {
	digests, err := provided.NewDigests(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "a", Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ApiClient", Name: "a", UID: "u", Controller: new(true)}},
			Annotations:     map[string]string{"note": "kept"},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldOwner}},
		},
		Data: map[string][]byte{"client_secret": []byte("value"), "ca.crt": bytes.Repeat([]byte("x"), 4<<10)},
	}
	cached, err := stripSecrets(digests)(secret.DeepCopy())
	if got := cached.(*corev1.Secret); err != nil || len(got.Data) != 2 || len(got.ManagedFields) != 1 || got.Annotations["note"] != "kept" {
		t.Errorf("error %v, cached %+v", err, cached)
	}
	secret.Labels[v1alpha1.ClientSecretLabel] = v1alpha1.ClientSecretProvided
	if cached, err = stripSecrets(digests)(secret.DeepCopy()); err != nil || bytes.Equal(cached.(*corev1.Secret).Data["client_secret"], secret.Data["client_secret"]) {
		t.Errorf("a provided Secret with an owner: error %v, cached %+v", err, cached)
	}
	secret.Labels[v1alpha1.ClientSecretLabel] = v1alpha1.ClientSecretGenerated
	secret.OwnerReferences = nil
	if cached, err = stripSecrets(digests)(secret); err != nil || cached.(*corev1.Secret).Data != nil {
		t.Errorf("without an owner: error %v, cached %+v", err, cached)
	}
}

func slicesOf(value string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(value, i)
	}
	return values
}
