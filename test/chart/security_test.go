package chart_test

import (
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestDefaultsFitOpenShift checks the Pods of the chart. TestTokenServersFitOpenShift checks those that
// the operator creates.
func TestDefaultsFitOpenShift(t *testing.T) {
	args := slices.Concat(values["production"], []string{"--set", "portal.enabled=true,keyEncryption.kms.image=kms-plugin:v1"})
	r := installChart(t, helm4, args...)
	manifests := helm4.render(t, r.namespace, args...)
	install.CheckRestrictedV2(t, r.cluster, r.namespace, "operator", deployment(t, manifests).Spec.Template.Spec)
	install.CheckRestrictedV2(t, r.cluster, r.namespace, "portal", object[appsv1.Deployment](t, manifests, "Deployment", portal).Spec.Template.Spec)
	install.CheckRestrictedV2(t, r.cluster, r.namespace, "helm-test", object[corev1.Pod](t, manifests, "Pod", "realmkeeper-helm-test").Spec)
}

// TestExtraArgsCannotOverrideValues checks that no additional flag repeats one that the chart sets, which
// would take precedence over the value.
func TestExtraArgsCannotOverrideValues(t *testing.T) {
	manifests := helm4.render(t, "system", values["everything"]...)
	flag := regexp.MustCompile(`^--[-a-z0-9]+`)
	for component, d := range map[string]*appsv1.Deployment{
		"operator": deployment(t, manifests), "portal": object[appsv1.Deployment](t, manifests, "Deployment", portal),
	} {
		args := d.Spec.Template.Spec.Containers[0].Args
		for _, arg := range args[:len(args)-1] { // The last one is the additional flag itself.
			set := component + ".extraArgs={" + flag.FindString(arg) + "=x}"
			if _, _, err := helm4.try(t, "", slices.Concat([]string{"template", releaseName, *chart}, values["defaults"], []string{"--set", "portal.enabled=true", "--set", set})...); err == nil {
				t.Errorf("The chart accepts %s", set)
			}
		}
	}
}
