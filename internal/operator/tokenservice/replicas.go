package tokenservice

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// configuredReplicas is the Deployment annotation with the configured number of token servers. It
// shows whether the configuration changed after the Deployment was scaled.
const configuredReplicas = "auth.realmkeeper.dev/configured-replicas"

// scaled reports whether the number of replicas was set through the scale subresource, for example
// by a HorizontalPodAutoscaler, and the configured number has not changed since. The latest change
// takes precedence.
func scaled(live *appsv1.Deployment, instance *config.Instance) bool {
	if live == nil || live.Annotations[configuredReplicas] != configured(instance) {
		return false
	}
	for _, entry := range live.ManagedFields {
		// spec.replicas is the only field of this subresource. Managers that no longer own it have
		// no entry.
		if entry.Subresource == "scale" {
			return true
		}
	}
	return false
}

// replicas returns the desired number of token servers.
func replicas(live *appsv1.Deployment, instance *config.Instance) int32 {
	if scaled(live, instance) {
		return *live.Spec.Replicas
	}
	return *instance.TokenServer.Replicas
}

func configured(instance *config.Instance) string {
	return strconv.Itoa(int(*instance.TokenServer.Replicas))
}
