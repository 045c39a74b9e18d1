package observers_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// everySpelling is the directory with manifests that spell values in unusual ways that could cause
// a diff.
var everySpelling = filepath.Join("testdata", "manifests")

// manifests lists directories with manifests such as users keep in Git.
var manifests = map[string][]string{
	"samples":        {filepath.Join("..", "..", "..", "config", "samples")},
	"example":        {filepath.Join("testdata", "customers"), customerFolder("alder"), customerFolder("birch"), customerFolder("cedar"), filepath.Join(gitops, "repository", "realms")},
	"every spelling": {everySpelling},
}

// TestUnchangedManifestShowsNoDiff checks that an unchanged manifest never shows a diff, however it
// is spelled or applied. Only its author changes a spec. The API server and the operator never do.
func TestUnchangedManifestShowsNoDiff(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	for set, dirs := range manifests {
		modes := map[string]string{"server-side": "--server-side=true"}
		if set == "every spelling" {
			modes["client-side"] = "--server-side=false"
		}
		for name, mode := range modes {
			t.Run(set+" "+name, func(t *testing.T) {
				// Each subtest has its own namespaces. Otherwise Secrets of an earlier subtest that have not
				// been garbage-collected yet would conflict.
				text := renameNamespaces(build(t, cluster, dirs...), strings.ReplaceAll(set, " ", "-")+"-"+name)
				desired := realmsAndClients(t, text)
				file := filepath.Join(t.TempDir(), "manifest.yaml")
				writeManifest(t, file, text)
				cluster.Kubectl(t, "apply", mode, "-f", file)
				defer func() {
					for _, obj := range desired {
						inst.Delete(t, obj)
					}
				}()
				awaitStable(t, inst, desired)
				before := stored(t, inst, desired)

				if diff := cluster.Kubectl(t, "diff", mode, "-f", file); diff != "" {
					t.Errorf("kubectl diff shows:\n%s", diff)
				}
				cluster.Kubectl(t, "apply", mode, "-f", file)
				for i, live := range stored(t, inst, desired) {
					if live.GetKind() == "ApiClient" && live.GetName() == "full" {
						expectNotPruned(t, inst, live)
					}
					if diff := cmp.Diff(withoutStatus(before[i]), withoutStatus(live)); diff != "" {
						t.Errorf("the second apply changed %s %s (-before +after):\n%s", live.GetKind(), live.GetName(), diff)
					}
					if diff := cmp.Diff(authored(desired[i]), authored(live), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s %s (-manifest +stored):\n%s", live.GetKind(), live.GetName(), diff)
					}
				}
			})
		}
	}
}

// expectNotPruned checks that the labels and annotations of an ApiClient are not copied to its credentials
// Secret. GitOps tools use them to find the objects that they applied, and would prune a Secret that has them
// but isn't in Git. The owner reference ensures that the Secret is deleted with the ApiClient.
func expectNotPruned(t *testing.T, inst *install.Installation, live *unstructured.Unstructured) {
	t.Helper()
	secret := inst.CredentialsSecret(t, install.ApiClient(live.GetNamespace(), live.GetName(), "full"))
	if !metav1.IsControlledBy(secret, live) {
		t.Errorf("the Secret has the owners %v, want the ApiClient as controller", secret.OwnerReferences)
	}
	for _, copied := range [][2]map[string]string{{secret.Labels, live.GetLabels()}, {secret.Annotations, live.GetAnnotations()}} {
		for key := range copied[0] {
			if _, ok := copied[1][key]; ok {
				t.Errorf("the Secret has %s of the ApiClient", key)
			}
		}
	}
}

// TestManifestsSetEveryField checks that the manifests set every field of the CRDs. Otherwise
// TestUnchangedManifestShowsNoDiff would not cover all fields.
func TestManifestsSetEveryField(t *testing.T) {
	cluster := env.Start(t)
	set := map[string]bool{}
	for _, obj := range realmsAndClients(t, build(t, cluster, everySpelling)) {
		collect(obj.GetKind()+".spec", obj.Object["spec"], set)
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := cluster.Client.List(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds.Items {
		if crd.Spec.Group != v1beta1.GroupVersion.Group { // of another test
			continue
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		known := map[string]bool{}
		collectSchema(crd.Spec.Names.Kind+".spec", &spec, known)
		for path := range known {
			if !set[path] {
				t.Errorf("no manifest in testdata/manifests sets %s; add it to full.yaml", path)
			}
		}
	}
}

// collect adds the paths of all fields in value. Items of a list have the path of the list.
func collect(path string, value any, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			into[path+"."+name] = true
			collect(path+"."+name, member, into)
		}
	case []any:
		for _, item := range v {
			collect(path, item, into)
		}
	}
}

// collectSchema adds the paths of all fields in a schema, in the same form as collect.
func collectSchema(path string, schema *apiextensionsv1.JSONSchemaProps, into map[string]bool) {
	for name, member := range schema.Properties {
		into[path+"."+name] = true
		collectSchema(path+"."+name, &member, into)
	}
	if schema.Items != nil {
		collectSchema(path, schema.Items.Schema, into)
	}
}

// build returns the combined manifests in the given directories.
func build(t *testing.T, cluster *env.Env, dirs ...string) string {
	t.Helper()
	var built []string
	for _, dir := range dirs {
		built = append(built, cluster.Kubectl(t, "kustomize", dir))
	}
	return strings.Join(built, "---\n")
}

// renameNamespaces appends a suffix to the names of all namespaces in the manifests.
func renameNamespaces(text, suffix string) string {
	for _, namespace := range []string{"acme-apps", "unchanged", "customer-alder", "customer-birch", "customer-cedar"} {
		text = strings.ReplaceAll(text, namespace, namespace+"-"+suffix)
	}
	return text
}

// realmsAndClients returns the Realms and ApiClients in a manifest. It omits Namespaces because
// Kubernetes itself changes them.
func realmsAndClients(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	return slices.DeleteFunc(install.Objects(t, []byte(text)), func(obj *unstructured.Unstructured) bool {
		return obj.GroupVersionKind().Group != v1beta1.GroupVersion.Group
	})
}

func writeManifest(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, inst *install.Installation, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var live []*unstructured.Unstructured
	for _, obj := range objects {
		live = append(live, asStored(t, inst, obj))
	}
	return live
}

// authored returns the parts of an object that its author sets.
func authored(obj *unstructured.Unstructured) map[string]any {
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return map[string]any{"labels": obj.GetLabels(), "annotations": annotations, "spec": obj.Object["spec"]}
}

// withoutStatus returns an object without the parts that the operator writes. It keeps the
// generation and all managed fields except those of the status.
func withoutStatus(obj *unstructured.Unstructured) map[string]any {
	rest := obj.DeepCopy()
	delete(rest.Object, "status")
	rest.SetResourceVersion("")
	rest.SetManagedFields(slices.DeleteFunc(rest.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status"
	}))
	return rest.Object
}

// awaitStable waits until every object is Ready, suspended by its manifest, or waiting for the
// provided Secret, which the manifests don't contain.
func awaitStable(t *testing.T, inst *install.Installation, objects []*unstructured.Unstructured) {
	t.Helper()
	install.Eventually(t, "all objects to be stable", func() error {
		for _, live := range stored(t, inst, objects) {
			argo := argoHealthOf(t, live)
			if argo.Status != "Healthy" && argo.Status != "Suspended" && !strings.Contains(argo.Message, awaited) {
				return fmt.Errorf("%s %s is %s: %s", live.GetKind(), live.GetName(), argo.Status, argo.Message)
			}
		}
		return nil
	})
}

// awaited is part of the message about a provided Secret that doesn't exist.
const awaited = `"not-there-yet" in spec.secret.provided.secretRef not found`
