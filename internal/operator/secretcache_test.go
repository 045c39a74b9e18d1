package operator

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// Thousands of large Secrets that a tenant labels cost the operator less memory than one of them.
func TestCachedSecretsAreSmall(t *testing.T) {
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
	for _, label := range []string{v1beta1.ClientSecretProvided, v1beta1.ClientSecretGenerated} {
		for name, grow := range large {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "a", UID: types.UID("u"), ResourceVersion: "1", Labels: map[string]string{v1beta1.ClientSecretLabel: label},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ApiClient", Name: "a", UID: "u", Controller: new(true)}},
			}}
			grow(secret)
			if size := strip(t, secret).Size(); size > 512 {
				t.Errorf("%s, label %q: %d bytes are cached", name, label, size)
			}
		}
	}
}

// The planner needs the client secrets in a credentials Secret, and a summary of the fields that
// the operator owns. A Secret without an owner isn't a credentials Secret.
func TestCredentialsSecretsAreCached(t *testing.T) {
	value := testkit.Value(clientsecret.Generate(rand.Reader))(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "a", Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ApiClient", Name: "a", UID: "u", Controller: new(true)}},
			Annotations:     map[string]string{"note": "removed"},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "other", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:` + strings.Repeat("x", 1<<10) + `":{}}}`)}},
		},
		Data: map[string][]byte{"client_secret": []byte(value), "ca.crt": bytes.Repeat([]byte("x"), 4<<10)},
	}
	cached := apply.Unpack(strip(t, secret))
	if len(cached.Data) != 1 || string(cached.Data["client_secret"]) != value || !metav1.IsControlledBy(cached, &metav1.ObjectMeta{UID: "u"}) || !apply.Stripped(cached) || cached.Size() > 512 {
		t.Errorf("%d bytes are cached: %+v", cached.Size(), cached)
	}
	secret.Labels[v1beta1.ClientSecretLabel] = v1beta1.ClientSecretProvided
	if cached := apply.Unpack(strip(t, secret)); cached.Data != nil {
		t.Errorf("of a provided Secret with an owner, %+v is cached", cached)
	}
	secret.Labels[v1beta1.ClientSecretLabel] = v1beta1.ClientSecretGenerated
	secret.OwnerReferences = nil
	if cached := apply.Unpack(strip(t, secret)); cached.Data != nil {
		t.Errorf("without an owner, %+v is cached", cached)
	}
}

// strip returns the part of a Secret to cache. Client libraries transform objects twice when they
// list them, which must not change the result.
func strip(t *testing.T, secret *corev1.Secret) *corev1.Secret {
	t.Helper()
	first := testkit.Value(stripSecrets(secret.DeepCopy()))(t)
	once := first.(*corev1.Secret).DeepCopy()
	second := testkit.Value(stripSecrets(first))(t)
	if diff := cmp.Diff(once, second); diff != "" {
		t.Errorf("the second transformation changes the Secret (-once +twice):\n%s", diff)
	}
	return once
}

func slicesOf(value string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(value, i)
	}
	return values
}
