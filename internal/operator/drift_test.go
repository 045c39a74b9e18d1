package operator_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/internal/config"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// What the operator says of the token service comes back when it is changed or deleted;
// what others add stays.
func TestTokenServiceDriftIsCorrected(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	key := client.ObjectKey{Namespace: install.Namespace, Name: config.TokenServiceName}

	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = key.Namespace, key.Name
	testinstall.Eventually(t, "the Deployment", func() error { return env.Client.Get(t.Context(), key, deployment) })
	image := deployment.Spec.Template.Spec.Containers[0].Image
	testinstall.Change(t, install, deployment, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "other"
		d.Annotations = map[string]string{"theirs": "stays"}
	})
	testinstall.Eventually(t, "the image to come back", func() error {
		if err := env.Client.Get(t.Context(), key, deployment); err != nil {
			return err
		}
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image {
			return errorf("it is %s", got)
		}
		return nil
	})
	if deployment.Annotations["theirs"] != "stays" {
		t.Error("somebody else's annotation is gone")
	}

	// A HorizontalPodAutoscaler scales through this subresource; its word counts.
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := env.Client.SubResource("scale").Update(t.Context(), deployment, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{}
	budget.Namespace, budget.Name = key.Namespace, key.Name
	install.Delete(t, budget) // what comes back shows that the operator has looked since
	testinstall.Eventually(t, "the PodDisruptionBudget to come back", func() error { return env.Client.Get(t.Context(), key, budget) })
	install.AwaitSettled(t)
	if err := env.Client.Get(t.Context(), key, deployment); err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas != 5 {
		t.Errorf("the Deployment was scaled to 5 and has %d replicas", *deployment.Spec.Replicas)
	}

	role := &rbacv1.Role{}
	role.Namespace, role.Name = key.Namespace, key.Name
	install.Delete(t, role)
	testinstall.Eventually(t, "the Role to come back", func() error { return env.Client.Get(t.Context(), key, role) })
}
