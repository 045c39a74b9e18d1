package plugin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit/plugintest"
)

// Errors can contain text that other users control, such as annotations.
func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	c := plugintest.Client("billing")
	c.APIVersion, c.Kind = v1beta1.GroupVersion.String(), "ApiClient"
	c.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop\x1b]0;title\x07\u009b2J\u202e"}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "argocd-controller", Operation: "Apply", APIVersion: c.APIVersion, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:suspend":{}}}`),
	}}
	flag := plugintest.APIServer(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(c) })
	code, _, stderr := plugintest.Run(t, "suspend", "apiclient/billing", "--namespace=acme", flag)
	if code != 1 || !strings.Contains(stderr, "]0;title") {
		t.Fatalf("Exit code %d, %q; want 1 and the name of the application", code, stderr)
	}
	if strings.ContainsAny(stderr, "\x1b\x07\u009b\u202e") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("Error output is %q, want one line without control characters", stderr)
	}
}
