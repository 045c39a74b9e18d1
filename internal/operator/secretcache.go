package operator

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

// maxCachedSecret is the size in bytes up to which the generated values of a credentials Secret are
// cached. A Secret as the operator writes it is smaller.
const maxCachedSecret = 8 << 10

// stripSecrets removes from a cached Secret what the operator reads from the API server when it needs
// it. Tenants can put the label on any Secret, so the memory for one must not depend on its size.
func stripSecrets(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	switch {
	case !ok, apply.Stripped(secret):
		return obj, nil
	case providedsecrets.Readable(secret), secret.Size() > maxCachedSecret, metav1.GetControllerOf(secret) == nil:
		stripped := providedsecrets.Identity(secret)
		stripped.Annotations = apply.NoSummary
		return stripped, nil
	}
	return stripCredentials(secret), nil
}

// stripCredentials keeps only the identity of a credentials Secret and the client secrets in it.
// The rest is the same for all clients of a realm, or follows from the ApiClient.
func stripCredentials(secret *corev1.Secret) *corev1.Secret {
	data, marks := map[string][]byte{}, map[string]string{}
	for key, value := range secret.Data {
		if clientsecret.WellFormed(string(value)) {
			data[key] = value
		}
	}
	for _, key := range []string{v1beta1.CurrentSecretAnnotation, v1beta1.NextSecretAnnotation} {
		if mark, ok := secret.Annotations[key]; ok {
			marks[key] = mark
		}
	}
	owner := *metav1.GetControllerOf(secret)
	share(&owner.APIVersion, &owner.Kind, &secret.Namespace, (*string)(&secret.Type))
	if owner.Name == secret.Name {
		owner.Name = secret.Name // one string in memory
	}
	apply.Pack(secret, marks, data)
	secret.OwnerReferences, secret.Labels = []metav1.OwnerReference{owner}, generatedLabels
	secret.GenerateName, secret.Finalizers = "", nil
	return secret
}

// generatedLabels are the labels of all cached credentials Secrets. Nothing changes cached objects.
var generatedLabels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated}

// stripApiClient removes the metadata that the operator doesn't need, and shares the strings that many
// ApiClients have in common.
func stripApiClient(obj any) (any, error) {
	c, ok := obj.(*v1beta1.ApiClient)
	if !ok {
		return obj, nil
	}
	var annotations map[string]string
	if at, ok := c.Annotations[v1beta1.ReleaseAnnotation]; ok {
		annotations = map[string]string{v1beta1.ReleaseAnnotation: at}
	}
	c.Labels, c.Annotations, c.OwnerReferences, c.Finalizers, c.ManagedFields = nil, annotations, nil, nil, nil
	share(&c.Kind, &c.APIVersion, &c.Namespace, &c.Spec.RealmRef.Name)
	share(&c.Status.Issuer, &c.Status.TokenEndpoint, &c.Status.ClusterTokenEndpoint, &c.Status.JWKSURI, &c.Status.Grant)
	// The decoder leaves room for more elements.
	c.Status.Conditions, c.Status.Credentials = slices.Clone(c.Status.Conditions), slices.Clone(c.Status.Credentials)
	for i := range c.Status.Credentials {
		credential := &c.Status.Credentials[i]
		share((*string)(&credential.Type), (*string)(&credential.State))
	}
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		share(&condition.Type, &condition.Reason, &condition.Message)
		share((*string)(&condition.Status))
	}
	for _, list := range [][]string{c.Spec.Scopes, c.Spec.DelegatedScopes, c.Spec.Audiences, c.Status.Scopes, c.Status.Audiences} {
		for i := range list {
			share(&list[i])
		}
	}
	return c, nil
}

// share replaces strings with equal strings that are already in memory.
func share(values ...*string) {
	for _, value := range values {
		*value = unique.Make(*value).Value()
	}
}
