package availability_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The Pods of the token servers run on OpenShift without a change of the configuration.
func TestTokenServersFitOpenShift(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	cluster.Kubectl(t, "label", "namespace", inst.Namespace, "pod-security.kubernetes.io/enforce=restricted")
	deployment := &appsv1.Deployment{}
	install.Eventually(t, "the Deployment", func() error {
		return cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.Namespace, Name: config.TokenServiceName}, deployment)
	})
	install.CheckRestrictedV2(t, cluster, inst.Namespace, "token-server", deployment.Spec.Template.Spec)
}
