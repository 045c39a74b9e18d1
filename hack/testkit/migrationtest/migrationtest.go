// Package migrationtest checks exports of other systems in tests.
package migrationtest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/admission"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// Target is where the clients of tests move to.
var Target = migration.Target{Realm: "acme", Namespace: "acme-apps", System: "hydra"}

var rules = sync.OnceValues(admission.Load)

// Manifests returns the manifests of an export by file. The test fails unless the rules of the API
// accept all of them. If the clients don't fit into the realm, there are none.
func Manifests(t testing.TB, e *migration.Export, target migration.Target) map[string]string {
	t.Helper()
	byFile := map[string]string{}
	all, err := e.Manifests(target)
	if errors.Is(err, migration.ErrTooMany) || errors.Is(err, migration.ErrAudience) {
		return byFile
	}
	loaded, loadErr := rules()
	if err = errors.Join(err, loadErr); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(m.YAML, &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := loaded.Admit(t.Context(), object, nil); err != nil {
			t.Errorf("%s: %v\n%s", m.File, err, m.YAML)
		}
		byFile[m.File] = string(m.YAML)
	}
	if len(byFile) != len(all) {
		t.Errorf("%d manifests have %d names of files", len(all), len(byFile))
	}
	return byFile
}

// CheckFinding fails the test unless there is exactly one finding, which contains want, or none if
// want is empty.
func CheckFinding(t *testing.T, what string, findings []migration.Finding, want string) {
	t.Helper()
	if want == "" && len(findings) > 0 || want != "" && (len(findings) != 1 || !strings.Contains(findings[0].Message, want)) {
		t.Errorf("got the %ss %q, want one with %q", what, Messages(findings), want)
	}
}

// Messages returns the findings as text.
func Messages(findings []migration.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.ClientID+": "+f.Message)
	}
	return all
}
