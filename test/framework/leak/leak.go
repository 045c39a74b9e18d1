// Package leak searches everything that can be read from outside of an installation's processes for
// secrets: the objects in the cluster, logs, metrics, and snapshots.
package leak

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed/snapshot"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Places maps the name of each place that can be read from outside the installation's processes to
// its content.
type Places map[string]string

// PlacesOf returns the places of a running installation.
func PlacesOf(t *testing.T, inst *install.Installation) Places {
	t.Helper()
	p := Places{"log of the operator": string(inst.OperatorLog(t)), "metrics of the operator": inst.OperatorMetrics(t)}
	for _, s := range inst.Servers() {
		p["log of "+s.Name] = string(inst.Log(t, s))
		p["metrics of "+s.Name] = s.Metrics(t)
		p["snapshot of "+s.Name] = SnapshotOf(t, s.SnapshotDir)
	}
	p.addObjects(t, inst)
	for _, place := range []string{"log of the operator", "metrics of the operator", "log of " + inst.Servers()[0].Name} {
		if p[place] == "" {
			t.Errorf("%s is empty", place)
		}
	}
	return p
}

// ObjectsOf returns all objects in the cluster of an installation as JSON. The names of the places begin with the
// kind.
func ObjectsOf(t *testing.T, inst *install.Installation) Places {
	t.Helper()
	p := Places{}
	p.addObjects(t, inst)
	return p
}

// addObjects adds all objects in the cluster as JSON. It covers every listable resource, including
// Events.
func (p Places) addObjects(t *testing.T, inst *install.Installation) {
	t.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(inst.Env.Config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(inst.Env.Config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := api.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range group.APIResources {
			resource := &group.APIResources[i]
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			list, err := objects.Resource(version.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("Failed to list %s: %v", resource.Name, err)
			}
			for k := range list.Items {
				p.addObject(t, &list.Items[k])
			}
		}
	}
}

func (p Places) addObject(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	content, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	p[strings.TrimSpace(obj.GetKind()+" "+strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"))] = string(content)
}

// Containing returns the sorted names of the places that contain any of the secrets.
func (p Places) Containing(secrets []string) []string {
	var all []string
	for _, secret := range secrets {
		all = append(all, formsOf(secret)...)
	}
	found := map[string]bool{}
	for name, content := range p {
		if slices.ContainsFunc(all, func(form string) bool { return strings.Contains(content, form) }) {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// formsOf returns a secret in all common encodings: plain, URL-encoded, in JSON, as Go prints
// strings and bytes, in hexadecimal, and in Base64, alone or as part of a longer value.
func formsOf(secret string) []string {
	quoted, _ := json.Marshal(secret) // encoding a string never fails
	bytes := fmt.Sprintf("%d", []byte(secret))
	all := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`), strings.Trim(fmt.Sprintf("%q", secret), `"`),
		strings.Trim(bytes, "[]"), strings.ReplaceAll(strings.Trim(bytes, "[]"), " ", ","), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // number of preceding bytes in the same Base64 group
			encoded := encoding.EncodeToString(append(make([]byte, before), secret...))
			// The first and last characters also encode bits of the neighboring bytes.
			all = append(all, encoded[[]int{0, 2, 3}[before]:len(encoded)-2])
		}
	}
	return all
}

// SnapshotOf returns the content of a token server's snapshot and the records in it, which are
// compressed.
func SnapshotOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	copied := t.TempDir() // the token server writes to the original
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the token server has just replaced the records by this new file
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, file.Name()), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	log, _ := snapshot.Open(copied, func(err error) { t.Error(err) })
	complete := log.Read(func(string) bool { return true }, func(secret *corev1.Secret) {
		for _, value := range secret.Data {
			all.Write(value)
		}
	})
	if !complete {
		t.Error("Could not read the records that the token server saved")
	}
	return all.String()
}
