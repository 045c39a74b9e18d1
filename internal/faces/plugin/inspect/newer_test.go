package inspect_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/inspect"
)

// Objects of a newer operator, with fields, values, reasons, and condition types that this version doesn't
// know.
const (
	newerClient = `{"metadata":{"namespace":"acme-apps","name":"billing","generation":1},
		"spec":{"realmRef":{"name":"acme"},"later":{"a":[1]},"senderConstraint":"LaterConstraint","secret":{"later":{}}},
		"status":{"later":{"a":[1]},"clientID":"acme-apps.billing","credentials":[{"type":"LaterType","name":"a","state":"LaterState","later":1}],
			"conditions":[{"type":"Later","status":"False","reason":"LaterReason","message":"Not shown."},
				{"type":"Ready","status":"False","reason":"LaterReason","message":"The later message.","observedGeneration":1}]}}`
	newerRealm = `{"metadata":{"name":"acme","generation":1},
		"spec":{"later":true,"signing":{"algorithm":"LaterAlgorithm"},"grants":[{"name":"all","later":true,"namespaces":{"from":"LaterNamespaces"}}]},
		"status":{"later":true,"signingKeys":[{"keyID":"k1","algorithm":"LaterAlgorithm","state":"LaterState","creationTime":"2026-01-02T03:04:05Z","later":1}],
			"conditions":[{"type":"Ready","status":"False","reason":"LaterReason","message":"The later message.","observedGeneration":1}]}}`
)

// The plugin shows what a newer operator reports.
func TestObjectsOfNewerOperator(t *testing.T) {
	c, realm := &v1beta1.ApiClient{}, &v1beta1.Realm{}
	testkit.Do(t, json.Unmarshal([]byte(newerClient), c))
	testkit.Do(t, json.Unmarshal([]byte(newerRealm), realm))
	for _, format := range []string{"", "json", "yaml"} {
		for name, report := range map[string]struct {
			client *v1beta1.ApiClient
			realm  *v1beta1.Realm
			want   []string
		}{
			"client": {c, nil, []string{"LaterReason", "The later message.", "LaterType"}},
			"realm":  {nil, realm, []string{"LaterReason", "The later message.", "LaterState", "LaterAlgorithm"}},
		} {
			var out bytes.Buffer
			testkit.Do(t, inspect.PrintExplanation(&out, format, report.client, report.realm, corev1.Event{}))
			for _, want := range report.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("The explanation of the %s as %q does not contain %s:\n%s", name, format, want, out.String())
				}
			}
		}
		var out bytes.Buffer
		testkit.Do(t, inspect.PrintProblems(&out, format, c, realm))
		if got := strings.Count(out.String(), "LaterReason"); got < 2 {
			t.Errorf("The problems as %q contain the reason %d times, want both objects:\n%s", format, got, out.String())
		}
	}
}
