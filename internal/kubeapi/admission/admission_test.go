package admission_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/admission"
)

const realm = `
apiVersion: auth.realmkeeper.dev/v1beta1
kind: Realm
metadata: {name: acme}
spec:
  signing: {algorithm: ES256}
  grants: [{name: all, namespaces: {from: All}, audiences: ['*']}]
status: {issuer: https://ignored.example.com}
`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = obj.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// The suite test/integration/api compares all cases with the API server.
func TestAdmit(t *testing.T) {
	rules := testkit.Value(admission.Load())(t)
	for name, test := range map[string]struct {
		replace, with string
		change        bool // of the object without the replacement
		want          string
	}{
		"accepted":      {},
		"unchanged":     {change: true},
		"unknown field": {replace: "signing:", with: "singing:", want: `strict decoding error: unknown field "spec.singing"`},
		"change":        {replace: "ES256", with: "ES384", change: true},
	} {
		t.Run(name, func(t *testing.T) {
			var old *unstructured.Unstructured
			if test.change {
				old = parse(t, realm)
				testkit.Do(t, rules.Admit(t.Context(), old, nil))
				old.SetUID("u1")
			}
			obj := parse(t, strings.Replace(realm, test.replace, test.with, 1))
			err := rules.Admit(t.Context(), obj, old)
			if test.want != "" {
				if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("got error %v, want one with %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			generation := int64(1)
			if test.change && test.replace != "" {
				generation++
			}
			if _, kept, _ := unstructured.NestedString(obj.Object, "status", "issuer"); kept || obj.GetGeneration() != generation {
				t.Errorf("status kept: %t, generation %d; want the default status and generation %d", kept, obj.GetGeneration(), generation)
			}
		})
	}
}
