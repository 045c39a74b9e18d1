package clients_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// The operator writes no label or annotation on which another controller acts, unless the
// administrator allows its prefix.
func testMetadataForOtherControllers(t *testing.T, inst *install.Installation) {
	inst.Create(t, install.Realm("metadata"))
	template := func(labels map[string]v1beta1.LabelValue, annotations map[string]v1beta1.AnnotationValue) func(*v1beta1.ApiClient) {
		return func(c *v1beta1.ApiClient) {
			c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{
				Template: v1beta1.SecretTemplate{Labels: labels, Annotations: annotations},
			}}
		}
	}
	allowed := install.ApiClient(inst.Env.Namespace(t), "allowed", "metadata", template(
		map[string]v1beta1.LabelValue{"team": "billing", "app.kubernetes.io/part-of": "shop"},
		map[string]v1beta1.AnnotationValue{"reloader.stakater.com/match": "true"},
	))
	inst.Create(t, allowed)
	inst.AwaitReady(t, allowed, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := inst.CredentialsSecret(t, allowed)
	if credentials.Labels["app.kubernetes.io/part-of"] != "shop" || credentials.Annotations["reloader.stakater.com/match"] != "true" {
		t.Errorf("labels %v, annotations %v", credentials.Labels, credentials.Annotations)
	}

	// A client that is changed keeps the credentials Secret as it is, and gets no tokens.
	inst.AwaitTokens(t, credentials, true)
	install.Change(t, inst, allowed, template(map[string]v1beta1.LabelValue{"argocd.argoproj.io/secret-type": "cluster"}, nil))
	inst.AwaitReady(t, allowed, metav1.ConditionFalse, v1beta1.ReasonMetadataNotAllowed)
	scenario.ExpectMessage(t, allowed, v1beta1.ConditionAccepted, "credentialsSecrets.allowedMetadataPrefixes")
	inst.AwaitTokens(t, credentials, false)
	if now := inst.CredentialsSecret(t, allowed); now.ResourceVersion != credentials.ResourceVersion {
		t.Errorf("the credentials Secret was changed: labels %v, annotations %v", now.Labels, now.Annotations)
	}
}
