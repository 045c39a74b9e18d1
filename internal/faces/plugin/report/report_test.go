package report_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/report"
)

// Whether a field of a spec is in a support bundle is decided for each field, except below those that are kept with
// everything in them, such as the status. A new field is omitted until then, and this test fails.
func TestReportDecidesEachField(t *testing.T) {
	for object, want := range map[any][]string{
		&v1beta1.Instance{}: nil,
		&v1beta1.Realm{}: {
			"spec.claims.integer", "spec.claims.string", "spec.claims.strings", "spec.displayName", "spec.exchanges.deniedSubjects",
			"spec.exchanges.subjects.issuer.matchClaims.value", "spec.trustedIssuers.keys.caBundle",
			"spec.trustedIssuers.keys.jwks", "spec.trustedIssuers.requiredClaims.value",
		},
		&v1beta1.ApiClient{}: {
			"spec.claims.integer", "spec.claims.string", "spec.claims.strings", "spec.description", "spec.identities.matchClaims.value",
			"spec.publicKeys.jwk", "spec.publicKeys.pem", "spec.secret.generated.template", "spec.secret.hashed.hash",
		},
	} {
		kind := reflect.TypeOf(object).Elem().Name()
		fill(t, reflect.ValueOf(object).Elem())
		encoded := testkit.Value(json.Marshal(object))(t)
		u := &unstructured.Unstructured{}
		testkit.Do(t, json.Unmarshal(encoded, &u.Object))
		u.SetKind(kind)
		var omitted []string
		collectOmitted("", report.ReportedObject(u), &omitted)
		slices.Sort(omitted)
		testkit.Diff(t, "Omitted fields of "+kind, want, slices.Compact(omitted))
	}
}

// fill sets every field of a value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[metav1.ObjectMeta]():
		return
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.Unix(1, 0)))
		return
	case reflect.TypeFor[v1beta1.Duration]():
		v.Set(reflect.ValueOf(v1beta1.Duration{Duration: time.Hour}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	default:
		t.Fatal(fmt.Sprint("A field has kind ", v.Kind()))
	}
}

// collectOmitted collects the paths of the values that were replaced.
func collectOmitted(path string, value any, omitted *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			collectOmitted(strings.TrimPrefix(path+"."+name, "."), member, omitted)
		}
	case []any:
		for _, item := range v {
			collectOmitted(path, item, omitted)
		}
	case string:
		if v == "[redacted]" {
			*omitted = append(*omitted, path)
		}
	}
}
