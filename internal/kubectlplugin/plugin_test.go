package kubectlplugin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// apiServer serves the discovery of the API, and leaves other requests to handle.
func apiServer(t *testing.T, handle http.HandlerFunc) (flag string) {
	t.Helper()
	group := v1alpha1.GroupVersion
	version := metav1.GroupVersionForDiscovery{GroupVersion: group.String(), Version: group.Version}
	verbs := metav1.Verbs{"get", "patch", "delete"}
	discovery := map[string]any{
		"/api": metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: group.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: verbs}}},
		"/apis/" + group.String(): metav1.APIResourceList{GroupVersion: group.String(), APIResources: []metav1.APIResource{
			{Name: "apiclients", Kind: "ApiClient", Namespaced: true, Verbs: verbs},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if found, ok := discovery[r.URL.Path]; ok {
			_ = json.NewEncoder(w).Encode(found)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	return "--server=" + server.URL
}

// Errors contain annotations and messages of other users.
func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	c := client("billing")
	c.APIVersion, c.Kind = v1alpha1.GroupVersion.String(), "ApiClient"
	c.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop\x1b]0;title\x07\u009b2J\u202e"}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "argocd-controller", Operation: "Apply", APIVersion: c.APIVersion, FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:suspend":{}}}`)},
	}}
	flag := apiServer(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(c) })
	code, _, stderr := runWith(t, "", "suspend", "apiclient/billing", "--namespace=acme", flag)
	if code != 1 || !strings.Contains(stderr, "]0;title") {
		t.Fatalf("Exit code %d, %q; want 1 and the name of the application", code, stderr)
	}
	if strings.ContainsAny(stderr, "\x1b\x07\u009b\u202e") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("Error output is %q, want one line without control characters", stderr)
	}
}
