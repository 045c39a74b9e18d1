package apiclient

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// newCredentials returns the credentials Secret, which contains everything that workloads need to
// get a token.
func newCredentials(seen *observed, current, next secrets.Value) *corev1ac.SecretApplyConfiguration {
	c, generated := seen.client, seen.client.GeneratedSecret()
	issuer := seen.instance.Issuer(seen.realm.Name)
	values := map[string]string{
		v1beta1.SecretKeyClientID:        c.EffectiveClientID(),
		v1beta1.SecretKeyClientSecret:    current.Plaintext,
		v1beta1.SecretKeyTokenURL:        issuer + oauth.TokenPath,
		v1beta1.SecretKeyClusterTokenURL: seen.instance.ClusterURL() + "/" + seen.realm.Name + oauth.TokenPath,
		v1beta1.SecretKeyIssuer:          issuer,
		v1beta1.SecretKeyJWKSURL:         issuer + oauth.JWKSPath,
		v1beta1.SecretKeyScope:           strings.Join(slices.Sorted(slices.Values(c.Spec.Scopes)), " "),
	}
	annotations := map[string]string{v1beta1.CurrentSecretAnnotation: secretOwner(seen).Mark(current)}
	if next.Plaintext != "" {
		values[v1beta1.SecretKeyNextClientSecret] = next.Plaintext
		annotations[v1beta1.NextSecretAnnotation] = secretOwner(seen).Mark(next)
	}
	if len(seen.caBundle) > 0 {
		values[v1beta1.SecretKeyCACrt] = string(seen.caBundle)
	}
	data := make(map[string][]byte, len(values))
	for key, value := range values {
		data[generated.DataKey(key)] = []byte(value)
	}

	labels := map[string]string{}
	for key, value := range generated.Template.Labels {
		labels[key] = string(value)
	}
	maps.Copy(labels, map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated})
	for key, value := range generated.Template.Annotations {
		annotations[key] = string(value)
	}
	return corev1ac.Secret(c.EffectiveSecretName(), c.Namespace).
		WithLabels(labels).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1beta1.GroupVersion.String()).WithKind(kind).
			WithName(c.Name).WithUID(c.UID).WithController(true)).
		WithAnnotations(annotations).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
}
