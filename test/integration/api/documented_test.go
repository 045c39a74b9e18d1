package api_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TestDocumentedObjects checks that the API server accepts every Realm and ApiClient in the
// documentation.
func TestDocumentedObjects(t *testing.T) {
	cluster := env.Start(t)
	namespace := cluster.Namespace(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, guides...)
	found := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range documentedObjects(t, string(content)) {
			found++
			t.Run(filepath.Base(file)+"/"+object.GetKind()+"/"+object.GetName(), func(t *testing.T) {
				if object.GetKind() == "ApiClient" {
					object.SetNamespace(namespace)
				}
				if err := cluster.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if found < 5 {
		t.Errorf("found %d objects, want at least 5", found)
	}
}

// documentedObjects returns the complete objects of this API in the YAML blocks of a document. Blocks
// that show a part of an object have no apiVersion.
func documentedObjects(t *testing.T, document string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	blocks := strings.Split(document, "```yaml\n")
	for _, block := range blocks[1:] {
		manifests, _, _ := strings.Cut(block, "```")
		if !strings.Contains(manifests, "apiVersion: "+v1beta1.GroupVersion.String()) {
			continue
		}
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in:\n%s", err, manifests)
			}
			if object.GroupVersionKind().GroupVersion() == v1beta1.GroupVersion {
				objects = append(objects, object)
			}
		}
	}
	return objects
}
