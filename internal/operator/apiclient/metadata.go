package apiclient

import (
	"maps"
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// recommendedPrefix is the prefix of the labels that Kubernetes recommends for applications.
const recommendedPrefix = "app.kubernetes.io"

// metadataAllowed restricts the labels and annotations of the credentials Secret. Other controllers
// act on those with a prefix, and the operator, which writes the Secret, may have permissions that
// the owner of the ApiClient lacks.
func metadataAllowed(seen observed, instance *config.Instance) *condition.Result {
	if !seen.client.GeneratesSecret() {
		return nil
	}
	template := seen.client.GeneratedSecret().Template
	for _, of := range []struct {
		field string
		keys  []string
	}{{"labels", slices.Sorted(maps.Keys(template.Labels))}, {"annotations", slices.Sorted(maps.Keys(template.Annotations))}} {
		for _, key := range of.keys {
			prefix, _, prefixed := strings.Cut(strings.ToLower(key), "/")
			if prefixed && prefix != recommendedPrefix && !slices.Contains(instance.CredentialsSecrets.AllowedMetadataPrefixes, prefix) {
				return notReady(v1alpha1.ReasonMetadataNotAllowed, "This instance does not allow the prefix of the key %q in spec.secret.generated.template.%s. Remove the key, or ask the administrator to add %q to credentialsSecrets.allowedMetadataPrefixes of the instance configuration.",
					key, of.field, prefix)
			}
		}
	}
	return nil
}
