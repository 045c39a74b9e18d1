package availability_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The operator restores its own fields and objects of the token service after they are changed or
// deleted. It keeps fields that others add.
func TestTokenServiceDriftIsCorrected(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	key := client.ObjectKey{Namespace: inst.Namespace, Name: config.TokenServiceName}

	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = key.Namespace, key.Name
	install.Eventually(t, "the Deployment", func() error { return cluster.Client.Get(t.Context(), key, deployment) })
	image := deployment.Spec.Template.Spec.Containers[0].Image
	install.Change(t, inst, deployment, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "other"
		d.Annotations = map[string]string{"example.com/note": "kept"}
	})
	install.Eventually(t, "the image to be restored", func() error {
		if err := cluster.Client.Get(t.Context(), key, deployment); err != nil {
			return err
		}
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the image is %s", got)
		}
		return nil
	})
	if deployment.Annotations["example.com/note"] != "kept" {
		t.Error("another writer's annotation was removed")
	}

	// A HorizontalPodAutoscaler uses this subresource. The operator must keep the number of replicas.
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := cluster.Client.SubResource("scale").Update(t.Context(), deployment, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{}
	budget.Namespace, budget.Name = key.Namespace, key.Name
	inst.Delete(t, budget) // once it is restored, the operator has reconciled since the change
	install.Eventually(t, "the PodDisruptionBudget to be restored", func() error { return cluster.Client.Get(t.Context(), key, budget) })
	inst.AwaitSettled(t)
	if err := cluster.Client.Get(t.Context(), key, deployment); err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas != 5 {
		t.Errorf("the Deployment has %d replicas after it was scaled to 5", *deployment.Spec.Replicas)
	}
}
