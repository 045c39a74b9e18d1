package apiclient

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

func TestMetadataIsRestricted(t *testing.T) {
	instance := instance()
	instance.CredentialsSecrets.AllowedMetadataPrefixes = []string{"reloader.stakater.com"}
	for key, want := range map[string]bool{
		"team":                               true,
		"app.kubernetes.io/name":             true,
		"reloader.stakater.com/match":        true,
		"argocd.argoproj.io/instance":        false,
		"kubernetes.io/service-account.name": false,
		"x.app.kubernetes.io/name":           false,
		"kubernetes.io/name":                 false,
		"stakater.com/match":                 false,
		"a.reloader.stakater.com/match":      false,
	} {
		for field, template := range map[string]v1alpha1.SecretTemplate{
			"labels":      {Labels: map[string]v1alpha1.LabelValue{key: "a", "team": "b"}},
			"annotations": {Annotations: map[string]v1alpha1.AnnotationValue{key: "a", "team": "b"}},
		} {
			seen := observe(func(o *observed) {
				o.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{Template: template}}
			})
			seen.instance = instance
			got := accepted(&seen)
			if (got.Status == metav1.ConditionTrue) != want {
				t.Errorf("%s %q: %s: %s", field, key, got.Reason, got.Message)
			}
			prefix, _, _ := strings.Cut(key, "/")
			if !want && strings.Contains(key, "/") && (got.Reason != v1alpha1.ReasonMetadataNotAllowed || !strings.Contains(got.Message, field) || !strings.Contains(got.Message, `"`+key+`"`) || !strings.Contains(got.Message, `"`+prefix+`"`)) {
				t.Errorf("%s %q: the message names neither the field nor the key nor the prefix: %s", field, key, got.Message)
			}
		}
	}
	for key, want := range map[string]bool{"app": true, "team": true, "Team": false, "owner": false, "name": false, "grafana_datasource": false} {
		template := v1alpha1.SecretTemplate{
			Labels: map[string]v1alpha1.LabelValue{key: "helm", "env": "a"}, Annotations: map[string]v1alpha1.AnnotationValue{key: "a"},
		}
		got := accepted(new(observe(func(o *observed) {
			o.instance, o.client.Spec.Secret.Generated.Template = instance, template
		})))
		switch {
		case (got.Status == metav1.ConditionTrue) != want:
			t.Errorf("label %q: %s: %s", key, got.Reason, got.Message)
		case !want && (got.Reason != v1alpha1.ReasonMetadataNotAllowed || !strings.Contains(got.Message, `"`+key+`"`)):
			t.Errorf("label %q: the message doesn't name the key: %s: %s", key, got.Reason, got.Message)
		}
	}
	seen := observe(func(o *observed) {
		o.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{Template: v1alpha1.SecretTemplate{
			Annotations: map[string]v1alpha1.AnnotationValue{"Reloader.Stakater.com/match": "a"},
		}}}
	})
	seen.instance = instance
	if got := accepted(&seen); got.Status != metav1.ConditionTrue {
		t.Errorf("an allowed prefix in uppercase: %s", got.Message)
	}
}
