package tokenservice

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// configuredReplicas is the annotation of the Deployment that holds the configured number
// of token servers, so that a later word on it can be told from an earlier one.
const configuredReplicas = "auth.realmkeeper.dev/configured-replicas"

// scaled reports whether the number of token servers is somebody else's, such as a
// HorizontalPodAutoscaler's: it was set through the scale subresource, and the configured
// number hasn't changed since. The last word counts.
func scaled(live *appsv1.Deployment, instance *config.Instance) bool {
	if live == nil || live.Annotations[configuredReplicas] != configured(instance) {
		return false
	}
	for _, entry := range live.ManagedFields {
		// There is one field that can be set so, and who loses it loses the entry.
		if entry.Subresource == "scale" {
			return true
		}
	}
	return false
}

// replicas returns how many token servers there shall be.
func replicas(live *appsv1.Deployment, instance *config.Instance) int32 {
	if scaled(live, instance) {
		return *live.Spec.Replicas
	}
	return *instance.TokenServer.Replicas
}

func configured(instance *config.Instance) string {
	return strconv.Itoa(int(*instance.TokenServer.Replicas))
}
