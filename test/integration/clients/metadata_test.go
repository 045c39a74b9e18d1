package clients_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The operator writes no label or annotation on which another controller acts, unless the
// administrator allows its prefix.
func TestMetadataForOtherControllers(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{AllowedMetadataPrefixes: []string{"reloader.stakater.com"}})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	team := cluster.Namespace(t)
	inst.Create(t, install.Realm("acme"))
	template := func(labels map[string]v1alpha1.LabelValue, annotations map[string]v1alpha1.AnnotationValue) func(*v1alpha1.ApiClient) {
		return func(c *v1alpha1.ApiClient) {
			c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
				Template: v1alpha1.SecretTemplate{Labels: labels, Annotations: annotations},
			}}
		}
	}
	allowed := install.ApiClient(team, "allowed", "acme", template(
		map[string]v1alpha1.LabelValue{"team": "billing", "app.kubernetes.io/part-of": "shop"},
		map[string]v1alpha1.AnnotationValue{"reloader.stakater.com/match": "true"},
	))
	inst.Create(t, allowed)
	inst.AwaitReady(t, allowed, metav1.ConditionTrue, v1alpha1.ReasonReady)
	credentials := inst.CredentialsSecret(t, allowed)
	if credentials.Labels["app.kubernetes.io/part-of"] != "shop" || credentials.Annotations["reloader.stakater.com/match"] != "true" {
		t.Errorf("labels %v, annotations %v", credentials.Labels, credentials.Annotations)
	}

	for name, change := range map[string]func(*v1alpha1.ApiClient){
		"adopted-by-argo-cd":    template(map[string]v1alpha1.LabelValue{"argocd.argoproj.io/secret-type": "cluster"}, nil),
		"copied-to-namespaces":  template(nil, map[string]v1alpha1.AnnotationValue{"reflector.v1.k8s.emberstack.com/reflection-allowed": "true"}),
		"taken-by-cert-manager": template(nil, map[string]v1alpha1.AnnotationValue{"cert-manager.io/allow-direct-injection": "true"}),
	} {
		c := install.ApiClient(team, name, "acme", change)
		inst.Create(t, c)
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonMetadataNotAllowed)
		accepted := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionAccepted))
		if !strings.Contains(accepted.Message, "credentialsSecrets.allowedMetadataPrefixes") {
			t.Errorf("%s: the message doesn't name the remedy: %s", name, accepted.Message)
		}
		if err := install.NotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(c), &corev1.Secret{})); err != nil {
			t.Errorf("%s: the credentials Secret: %v", name, err)
		}
	}

	// A client that is changed keeps the credentials Secret as it is, and gets no tokens.
	inst.AwaitTokens(t, credentials, true)
	install.Change(t, inst, allowed, template(map[string]v1alpha1.LabelValue{"argocd.argoproj.io/secret-type": "cluster"}, nil))
	inst.AwaitReady(t, allowed, metav1.ConditionFalse, v1alpha1.ReasonMetadataNotAllowed)
	inst.AwaitTokens(t, credentials, false)
	if now := inst.CredentialsSecret(t, allowed); now.ResourceVersion != credentials.ResourceVersion {
		t.Errorf("the credentials Secret was changed: labels %v, annotations %v", now.Labels, now.Annotations)
	}
}
