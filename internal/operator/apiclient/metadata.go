package apiclient

import (
	"maps"
	"slices"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// recommendedPrefix is the prefix of the labels that Kubernetes recommends for applications.
const recommendedPrefix = "app.kubernetes.io"

// plainLabels are the labels without a prefix that every instance allows. Users group objects by them.
var plainLabels = []string{"app", "component", "env", "environment", "project", "team", "tier"}

// metadataAllowed restricts the labels and annotations of the credentials Secret. Other controllers
// act on those with a prefix, and the operator, which writes the Secret, may have permissions that
// the owner of the ApiClient lacks. Some programs select Secrets by a label without a prefix: Helm
// finds its releases by "owner", and sidecars of Grafana load "grafana_datasource".
func (seen *request) metadataAllowed() *condition.Result {
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
			if !prefixed && of.field == "labels" && !slices.Contains(plainLabels, key) {
				return notReady(v1beta1.ReasonMetadataNotAllowed, "The key %q in spec.secret.generated.template.labels is not allowed, because other programs may select Secrets by a label without a prefix, as Helm does. Use %s, or a key with a prefix, such as app.kubernetes.io/name.",
					key, strings.Join(plainLabels, ", "))
			}
			if prefixed && prefix != recommendedPrefix && !slices.Contains(seen.instance.CredentialsSecrets.AllowedMetadataPrefixes, prefix) {
				return notReady(v1beta1.ReasonMetadataNotAllowed, "This instance does not allow the prefix of the key %q in spec.secret.generated.template.%s. Remove the key, or ask the administrator to add %q to credentialsSecrets.allowedMetadataPrefixes of the instance configuration.",
					key, of.field, prefix)
			}
		}
	}
	return nil
}
