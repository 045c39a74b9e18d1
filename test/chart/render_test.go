package chart_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
)

func TestInstanceConfiguration(t *testing.T) {
	for name, values := range values {
		t.Run(name, func(t *testing.T) {
			if _, err := config.Parse(configuration(t, helm4.render(t, "system", values...))); err != nil {
				t.Error(err)
			}
		})
	}
}

// Helm rejects versions of Kubernetes that are too old. It accepts versions of vendors, although they
// look like pre-releases.
func TestUnsupportedKubernetesIsRejected(t *testing.T) {
	for gitVersion, accepted := range map[string]bool{"v1.33.9-gke.100": false, "v1.34.5-gke.100": true, "v1.99.0": true} {
		_, stderr, err := helm4.try(t, "", append([]string{"template", releaseName, *chart, "--kube-version", gitVersion}, values["defaults"]...)...)
		if accepted && err != nil {
			t.Errorf("Helm rejects Kubernetes %s: %s", gitVersion, stderr)
		}
		if !accepted && (err == nil || !strings.Contains(stderr, "kubeVersion: >="+version.OldestKubernetes)) {
			t.Errorf("Helm accepts Kubernetes %s: %v, %s", gitVersion, err, stderr)
		}
	}
}

// TestEveryKeyIsAValue checks that every user-facing key of the instance configuration is a value
// of the chart.
func TestEveryKeyIsAValue(t *testing.T) {
	rendered := map[string]any{}
	if err := yaml.Unmarshal(configuration(t, helm4.render(t, "system", values["everything"]...)), &rendered); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys(reflect.TypeFor[config.Instance](), "") {
		// tls.managed excludes tls.secretName, and testing is only for tests.
		if key == "tls.managed" || strings.HasPrefix(key, "testing.") {
			continue
		}
		if _, ok, err := unstructured.NestedFieldNoCopy(rendered, strings.Split(key, ".")...); !ok || err != nil {
			t.Errorf("The values with every option enabled do not set %s", key)
		}
	}
}

// keys returns the paths of all settings in a struct of package config.
func keys(in reflect.Type, path string) (paths []string) {
	for member := range in.Fields() {
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		switch field := member.Type; {
		case name == "-":
		case field.Kind() == reflect.Struct && field.PkgPath() == in.PkgPath():
			paths = append(paths, keys(field, path+name+".")...)
		default:
			paths = append(paths, path+name)
		}
	}
	return paths
}

func TestConfigurationChangeTriggersRollout(t *testing.T) {
	checksum := func(set string) string {
		annotations := deployment(t, helm4.render(t, "system", append(values["defaults"], "--set", set)...)).Spec.Template.Annotations
		return annotations["checksum/config"]
	}
	before := checksum("security.defaultTokenLifetime=5m")
	if after := checksum("security.defaultTokenLifetime=10m"); after == before {
		t.Errorf("The checksum did not change with the configuration: %s", before)
	}
	if after := checksum("operator.replicas=2"); after != before {
		t.Errorf("The checksum changed although the configuration did not: from %s to %s", before, after)
	}
}

// TestOperatorMatchesKustomize checks that the chart and the manifests in config run the same
// operator.
func TestOperatorMatchesKustomize(t *testing.T) {
	cluster := env.Start(t)
	compareOperators(t, cluster.Kubectl(t, "kustomize", "../../config/overlays/testing"),
		helm4.render(t, "realmkeeper-system", values["testing"]...))
}

// TestKMSPluginMatchesKustomize checks the same for an operator with a KMS plugin.
func TestKMSPluginMatchesKustomize(t *testing.T) {
	cluster := env.Start(t)
	compareOperators(t, withComponent(t, cluster, "kms-plugin"),
		helm4.render(t, "realmkeeper-system", append(values["testing"], "--set", "keyEncryption.kms.image=kms-plugin:latest")...))
}

// TestComponentRemovesProtectionOfRealms checks the component that corresponds to realmProtection.enabled.
func TestComponentRemovesProtectionOfRealms(t *testing.T) {
	cluster := env.Start(t)
	const policy = "realmkeeper-realm-protection"
	if all := cluster.Kubectl(t, "kustomize", "../../config/overlays/testing"); !strings.Contains(all, policy) {
		t.Errorf("The overlay has no policy %s", policy)
	}
	if rest := withComponent(t, cluster, "no-realm-protection"); strings.Contains(rest, policy) {
		t.Errorf("With the component, there is still a policy %s", policy)
	}
}

// withComponent renders the testing overlay with a component.
func withComponent(t *testing.T, cluster *env.Env, component string) string {
	t.Helper()
	dir := t.TempDir()
	config := relativeConfig(t, dir)
	return kustomizeIn(t, cluster, dir, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+
		"resources: ["+config+"/overlays/testing]\ncomponents: ["+config+"/components/"+component+"]\n")
}

// relativeConfig returns the path of the manifests in config, relative to dir. kustomize requires
// relative paths.
func relativeConfig(t *testing.T, dir string) string {
	t.Helper()
	config, err := filepath.Abs(filepath.Join("..", "..", "config"))
	if err != nil {
		t.Fatal(err)
	}
	if config, err = filepath.Rel(dir, config); err != nil {
		t.Fatal(err)
	}
	return config
}

// kustomizeIn renders a kustomization in dir.
func kustomizeIn(t *testing.T, cluster *env.Env, dir, kustomization string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	return cluster.Kubectl(t, "kustomize", dir)
}

func compareOperators(t *testing.T, kustomize, helm string) {
	t.Helper()
	want, got := deployment(t, kustomize), deployment(t, helm)
	for _, d := range []*appsv1.Deployment{want, got} {
		// The checksum of the configuration and the owner of the objects always differ.
		d.Labels, d.Spec.Template.Annotations["checksum/config"] = nil, ""
		slices.SortFunc(d.Spec.Template.Spec.Volumes, func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(d.Spec.Template.Spec.Containers[0].VolumeMounts, func(a, b corev1.VolumeMount) int { return strings.Compare(a.Name, b.Name) })
		d.Spec.Template.Spec.Volumes[0].ConfigMap.Name = ""
		// The values set these fields.
		d.Spec.Template.Spec.Containers[0].Image = ""
		d.Spec.Template.Spec.Containers[0].Args = nil
		for i := range d.Spec.Template.Spec.InitContainers {
			d.Spec.Template.Spec.InitContainers[i].Args = nil
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Deployment of the operator (-kustomize +Helm):\n%s", diff)
	}
}

// configuration returns the operator's configuration file.
func configuration(t *testing.T, manifests string) []byte {
	return []byte(object[corev1.ConfigMap](t, manifests, "ConfigMap", "realmkeeper-config").Data["config.yaml"])
}

func deployment(t *testing.T, manifests string) *appsv1.Deployment {
	return object[appsv1.Deployment](t, manifests, "Deployment", "realmkeeper-operator")
}

// object returns the object with the given kind and name from a stream of YAML documents.
func object[T any](t *testing.T, manifests, kind, name string) *T {
	t.Helper()
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != kind || head.Metadata.Name != name {
			continue
		}
		found := new(T)
		if err := yaml.UnmarshalStrict([]byte(document), found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	t.Fatalf("No %s %s found in:\n%s", kind, name, manifests)
	return nil
}

// TestDocumentedRemoteBase renders the overlay in docs/operations/install.md with this checkout as its
// base.
func TestDocumentedRemoteBase(t *testing.T) {
	const base = "https://github.com/realmkeeper/realmkeeper//config/overlays/production?ref=v0.1.0"
	page, err := os.ReadFile("../../docs/operations/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n# kustomization.yaml\n")
	overlay, _, _ := strings.Cut(block, "```\n")
	if strings.Count(overlay, base) != 1 {
		t.Fatalf("docs/operations/install.md has no overlay with the base %s:\n%s", base, overlay)
	}
	cluster := env.Start(t)
	dir := t.TempDir()
	manifests := kustomizeIn(t, cluster, dir, strings.Replace(overlay, base, relativeConfig(t, dir)+"/overlays/production", 1))
	operator := deployment(t, manifests).Spec.Template.Spec
	if image := operator.Containers[0].Image; image != "registry.example.com/realmkeeper:v0.1.0" {
		t.Errorf("The operator has the image %s", image)
	}
	name := operator.Volumes[0].ConfigMap.Name
	got, err := config.Parse([]byte(object[corev1.ConfigMap](t, manifests, "ConfigMap", name).Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	production, err := os.ReadFile("../../config/overlays/production/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Parse(production)
	if err != nil {
		t.Fatal(err)
	}
	// Except for the domain, the patch is the production profile.
	if got.InstanceDomain == want.InstanceDomain {
		t.Errorf("The patch doesn't change the domain %s", got.InstanceDomain)
	}
	want.InstanceDomain = got.InstanceDomain
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Configuration (-profile +patch):\n%s", diff)
	}
	// The name contains a hash of the content, so that a change replaces the Pods.
	changed := strings.Replace(overlay, "instanceDomain: ", "instanceDomain: other.", 1)
	changed = kustomizeIn(t, cluster, dir, strings.Replace(changed, base, relativeConfig(t, dir)+"/overlays/production", 1))
	if after := deployment(t, changed).Spec.Template.Spec.Volumes[0].ConfigMap.Name; after == name {
		t.Errorf("The ConfigMap of another configuration has the same name %s", name)
	}
}
