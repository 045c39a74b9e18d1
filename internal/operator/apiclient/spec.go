package apiclient

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
)

const kind = "ApiClient"

// isOwned reports whether a Secret is a credentials Secret of this ApiClient: it has the label, and
// its controller has the same UID. A Secret of a deleted ApiClient with the same name is not owned,
// and causes a conflict until the garbage collector deletes it.
func isOwned(secret client.Object, c *v1beta1.ApiClient) bool {
	return secret.GetLabels()[v1beta1.ClientSecretLabel] == v1beta1.ClientSecretGenerated && metav1.IsControlledBy(secret, c)
}

// mayBelong reports whether a Secret has the label of credentials Secrets and no owner. A user with permissions
// for Secrets sets the label, so users who can only create ApiClients can't take any other Secret.
func mayBelong(secret client.Object) bool {
	return secret.GetLabels()[v1beta1.ClientSecretLabel] == v1beta1.ClientSecretGenerated && len(secret.GetOwnerReferences()) == 0
}

// isAdoptable reports whether the client can make a Secret its credentials Secret. It is empty, so it consists of
// metadata that a user has chosen, and nothing is lost.
func isAdoptable(secret *corev1.Secret) bool {
	return mayBelong(secret) && secret.DeletionTimestamp.IsZero() && secret.Type == corev1.SecretTypeOpaque && len(secret.Data) == 0 &&
		(secret.Immutable == nil || !*secret.Immutable)
}

// secretSource returns spec.secret. It returns an empty value if spec.secret is unset.
func secretSource(c *v1beta1.ApiClient) v1beta1.ClientSecretSource {
	if c.Spec.Secret == nil {
		return v1beta1.ClientSecretSource{}
	}
	return *c.Spec.Secret
}

func providedName(c *v1beta1.ApiClient) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: secretSource(c).Provided.SecretRef.Name}
}

func providedKey(c *v1beta1.ApiClient) string {
	return secretSource(c).Provided.SecretRef.EffectiveKey()
}

// generatedValues returns the values of a Secret that have the form of a generated secret.
func generatedValues(secret *corev1.Secret) []string {
	var values []string
	for _, value := range secret.Data {
		if clientsecret.WellFormed(string(value)) {
			values = append(values, string(value))
		}
	}
	return values
}

// resembledNamespace returns the other namespace whose default client IDs look like spec.clientID;
// empty if there can be none. The namespace may not exist.
func resembledNamespace(c *v1beta1.ApiClient) string {
	other, _, found := strings.Cut(c.Spec.ClientID, ".")
	// Reading a namespace with an invalid name, such as "a/b", can fail with an error other than not
	// found.
	if !found || other == c.Namespace || len(validation.IsDNS1123Label(other)) > 0 {
		return ""
	}
	return other
}

// accountSubject returns the subject of a service account's tokens.
func accountSubject(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// authenticatingIssuer returns the trusted issuer of the Realm with the given name, or nil if there is none
// whose tokens authenticate clients.
func authenticatingIssuer(realm *v1beta1.Realm, name string) *v1beta1.TrustedIssuer {
	issuer := realm.Spec.TrustedIssuer(name)
	if issuer == nil || !issuer.Accepts(v1beta1.IssuerUseClientAuthentication) {
		return nil
	}
	return issuer
}
