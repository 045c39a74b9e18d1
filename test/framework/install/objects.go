package install

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Realm returns a minimal Realm with the given name and changes. Its only grant allows everything
// in all namespaces.
func Realm(name string, change ...func(*v1beta1.Realm)) *v1beta1.Realm {
	realm := &v1beta1.Realm{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1beta1.RealmSpec{Grants: []v1beta1.Grant{GrantAll()}},
	}
	for _, f := range change {
		f(realm)
	}
	return realm
}

// GrantAll returns a grant that allows all scopes, audiences, and client IDs in all namespaces.
func GrantAll() v1beta1.Grant {
	return v1beta1.Grant{
		Name: "all", Namespaces: v1beta1.GrantedNamespaces{From: v1beta1.NamespacesFromAll},
		Scopes: v1beta1.GrantedScopes{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}, ClientIDs: []string{"*"}, Issuers: []string{"*"},
	}
}

// ApiClient returns a minimal ApiClient with the given name and changes. Its secret is generated
// unless the changes select another way to authenticate.
func ApiClient(namespace, name, realm string, change ...func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	c := &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1beta1.ApiClientSpec{RealmRef: v1beta1.RealmReference{Name: realm}},
	}
	for _, f := range change {
		f(c)
	}
	if c.Spec.Secret == nil && len(c.Spec.PublicKeys)+len(c.Spec.Identities) == 0 {
		c.Spec.Secret = GeneratedSecret()
	}
	return c
}

// ServiceAccounts returns identities of service accounts, with the names of the accounts.
func ServiceAccounts(names ...string) []v1beta1.Identity {
	var identities []v1beta1.Identity
	for _, name := range names {
		identities = append(identities, v1beta1.Identity{Name: name, ServiceAccount: v1beta1.ServiceAccountReference{Name: name}})
	}
	return identities
}

// Subjects returns identities with exact subjects of an issuer.
func Subjects(issuer string, subjects ...string) []v1beta1.Identity {
	var identities []v1beta1.Identity
	for i, subject := range subjects {
		identities = append(identities, v1beta1.Identity{Name: fmt.Sprintf("%s-%d", issuer, i), Issuer: issuer, Subject: subject})
	}
	return identities
}

// Release requests the release of what an ApiClient holds, or of what the clients of a Realm without a grant
// hold.
func Release(obj client.Object) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1beta1.ReleaseAnnotation] = time.Now().UTC().Add(time.Second).Format(time.RFC3339)
	obj.SetAnnotations(annotations)
}

// GeneratedSecret returns the source of a client secret that the operator generates.
func GeneratedSecret() *v1beta1.ClientSecretSource {
	return &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
}

// Create creates the objects in the order of the arguments.
func (i *Installation) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := i.Env.Client.Create(t.Context(), obj); err != nil {
			t.Fatalf("Failed to create %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
		}
	}
}

// Change reads an object, changes it and patches it.
func Change[T client.Object](t testing.TB, i *Installation, obj T, change func(T)) {
	t.Helper()
	if err := i.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	before, ok := obj.DeepCopyObject().(T)
	if !ok {
		t.Fatalf("a copy of %T has a different type", obj)
	}
	change(obj)
	if err := i.Env.Client.Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatalf("Failed to change %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// CredentialsSecret waits for the credentials Secret of an ApiClient and returns it.
func (i *Installation) CredentialsSecret(t testing.TB, c *v1beta1.ApiClient) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.EffectiveSecretName()}
	Eventually(t, "credentials Secret "+key.String(), func() error {
		return i.Env.Client.Get(t.Context(), key, secret)
	})
	return secret
}

// Delete deletes an object.
func (i *Installation) Delete(t testing.TB, obj client.Object) {
	t.Helper()
	if err := i.Env.Client.Delete(t.Context(), obj); err != nil {
		t.Fatalf("Failed to delete %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}
