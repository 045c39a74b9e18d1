package observers_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
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
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// everySpelling is the directory of manifests that try to make a diff.
var everySpelling = filepath.Join("testdata", "manifests")

// manifests are directories of manifests as people keep them in Git.
var manifests = map[string][]string{
	"samples":        {filepath.Join("..", "..", "..", "config", "samples")},
	"example":        {filepath.Join(gitops, "repository", "tenants"), filepath.Join(gitops, "repository", "realms")},
	"every spelling": {everySpelling},
}

// An unchanged manifest never shows a diff, in whatever spelling it is and however it is
// applied: nobody but its author writes a spec, neither the API server nor the operator.
func TestUnchangedManifestShowsNoDiff(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	for what, dirs := range manifests {
		for name, mode := range map[string]string{"client-side": "--server-side=false", "server-side": "--server-side=true"} {
			t.Run(what+" "+name, func(t *testing.T) {
				// A namespace of its own each time: Secrets of an earlier one go when the
				// garbage collector comes, and would be in the way.
				text := renameNamespaces(build(t, cluster, dirs...), strings.ReplaceAll(what, " ", "-")+"-"+name)
				desired := ours(t, text)
				file := filepath.Join(t.TempDir(), "manifest.yaml")
				writeManifest(t, file, text)
				kubectl(t, cluster, "apply", mode, "-f", file)
				defer func() {
					for _, obj := range desired {
						inst.Delete(t, obj)
					}
				}()
				awaitRest(t, inst, desired)
				before := stored(t, inst, desired)

				if diff := kubectl(t, cluster, "diff", mode, "-f", file); diff != "" {
					t.Errorf("kubectl diff shows:\n%s", diff)
				}
				kubectl(t, cluster, "apply", mode, "-f", file)
				for i, live := range stored(t, inst, desired) {
					if diff := cmp.Diff(withoutStatus(before[i]), withoutStatus(live)); diff != "" {
						t.Errorf("a second apply changes %s %s:\n%s", live.GetKind(), live.GetName(), diff)
					}
					if diff := cmp.Diff(written(desired[i]), written(live), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s %s as written and as stored:\n%s", live.GetKind(), live.GetName(), diff)
					}
				}
			})
		}
	}
}

// The Secret that the operator makes is no part of what was applied: tools that take back
// what is no longer in Git go by labels and annotations that the ApiClient carries, and
// none of them is on it. It goes with the ApiClient by its owner reference.
func TestConsumerSecretIsNotTakenForAManifest(t *testing.T) {
	cluster := env.Start(t)
	inst := scenario.Running(t, cluster)
	kubectl(t, cluster, "apply", "-k", everySpelling)
	c := install.ApiClient("unchanged", "full", "full")
	inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
	secret := inst.CredentialsSecret(t, c)
	if !metav1.IsControlledBy(secret, c) {
		t.Errorf("its owners are %v", secret.OwnerReferences)
	}
	for key := range secret.Labels {
		if _, ok := c.Labels[key]; ok {
			t.Errorf("it has the label %s of the ApiClient", key)
		}
	}
	for key := range secret.Annotations {
		if _, ok := c.Annotations[key]; ok {
			t.Errorf("it has the annotation %s of the ApiClient", key)
		}
	}
}

// A field that no manifest sets is one of which nobody knows whether it shows a diff.
func TestManifestsSetEveryField(t *testing.T) {
	cluster := env.Start(t)
	set := map[string]bool{}
	for _, obj := range ours(t, build(t, cluster, everySpelling)) {
		collect(obj.GetKind()+".spec", obj.Object["spec"], set)
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := cluster.Client.List(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds.Items {
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		known := map[string]bool{}
		collectSchema(crd.Spec.Names.Kind+".spec", &spec, known)
		for path := range known {
			if !set[path] && !slices.Contains(refusedFields, path) {
				t.Errorf("%s stands in no manifest of testdata/manifests: add it to full.yaml", path)
			}
		}
	}
}

// refusedFields are there to be refused: what makes a key private.
var refusedFields = []string{
	"ApiClient.spec.publicKeys.d", "ApiClient.spec.publicKeys.p", "ApiClient.spec.publicKeys.q", "ApiClient.spec.publicKeys.dp",
	"ApiClient.spec.publicKeys.dq", "ApiClient.spec.publicKeys.qi", "ApiClient.spec.publicKeys.k",
}

// collect adds the paths of the members of value; lists are passed through.
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

// collectSchema adds the paths of the members that a schema knows, as collect does.
func collectSchema(path string, schema *apiextensionsv1.JSONSchemaProps, into map[string]bool) {
	for name, member := range schema.Properties {
		into[path+"."+name] = true
		collectSchema(path+"."+name, &member, into)
	}
	if schema.Items != nil {
		collectSchema(path, schema.Items.Schema, into)
	}
}

// build returns what the directories hold.
func build(t *testing.T, cluster *env.Env, dirs ...string) string {
	t.Helper()
	var built []string
	for _, dir := range dirs {
		built = append(built, kubectl(t, cluster, "kustomize", dir))
	}
	return strings.Join(built, "---\n")
}

// renameNamespaces gives the namespaces that the manifests make another name.
func renameNamespaces(text, suffix string) string {
	for _, namespace := range []string{"acme-apps", "unchanged"} {
		text = strings.ReplaceAll(text, namespace, namespace+"-"+suffix)
	}
	return text
}

// ours returns the Realms and ApiClients of a manifest as they stand there. A Namespace is
// written by others too.
func ours(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		obj := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(document, &obj.Object)
		}
		if err != nil {
			t.Fatal(err)
		}
		if obj.GroupVersionKind().Group == v1alpha1.GroupVersion.Group {
			objects = append(objects, obj)
		}
	}
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

// written is the part of an object that its author writes.
func written(obj *unstructured.Unstructured) map[string]any {
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return map[string]any{"labels": obj.GetLabels(), "annotations": annotations, "spec": obj.Object["spec"]}
}

// withoutStatus is all of an object but what the operator writes: its generation too, and
// who wrote which field when.
func withoutStatus(obj *unstructured.Unstructured) map[string]any {
	rest := obj.DeepCopy()
	delete(rest.Object, "status")
	rest.SetResourceVersion("")
	rest.SetManagedFields(slices.DeleteFunc(rest.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status"
	}))
	return rest.Object
}

// awaitRest waits until all objects are Ready, or suspended as they say themselves, or wait
// for a secret that is brought, which has no place beside manifests.
func awaitRest(t *testing.T, inst *install.Installation, objects []*unstructured.Unstructured) {
	t.Helper()
	install.Eventually(t, "all objects to be at rest", func() error {
		for _, live := range stored(t, inst, objects) {
			argo := argoHealthOf(t, live)
			if argo.Status != "Healthy" && argo.Status != "Suspended" && !strings.Contains(argo.Message, awaited) {
				return fmt.Errorf("%s %s is %s: %s", live.GetKind(), live.GetName(), argo.Status, argo.Message)
			}
		}
		return nil
	})
}

// awaited is the Secret that a manifest refers to and nobody makes.
const awaited = `"not-there-yet" doesn't exist`

// kubectl returns what kubectl writes to standard output. A warning fails the test as an
// error does.
func kubectl(t *testing.T, cluster *env.Env, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(cluster.BinDir, "kubectl"), append([]string{"--kubeconfig", cluster.Kubeconfig}, args...)...)
	command.Stdout, command.Stderr = &out, &errOut
	command.Env = append(os.Environ(), "KUBECTL_EXTERNAL_DIFF=diff -u")
	if err := command.Run(); err != nil || errOut.Len() > 0 {
		t.Fatalf("kubectl %v: %v\n%s%s", args, err, out.String(), errOut.String())
	}
	return out.String()
}
