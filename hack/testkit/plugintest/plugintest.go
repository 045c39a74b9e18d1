// Package plugintest runs the kubectl plugin in tests, with an API server that a test implements.
package plugintest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
)

// Run runs the plugin in this process.
func Run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return RunWith(t, "", args...)
}

// RunWith runs the plugin in this process with the given standard input.
func RunWith(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = plugin.Run(t.Context(), plugin.Streams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut}, args)
	return code, out.String(), errOut.String()
}

// APIServer serves API discovery and passes all other requests to handle. It
// returns a flag that selects it.
func APIServer(t *testing.T, handle http.HandlerFunc) (flag string) {
	t.Helper()
	group := v1beta1.GroupVersion
	version := metav1.GroupVersionForDiscovery{GroupVersion: group.String(), Version: group.Version}
	verbs := metav1.Verbs{"get", "patch", "delete"}
	discovery := map[string]any{
		"/api": metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: group.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: verbs},
			{Name: "namespaces", Kind: "Namespace", Verbs: verbs},
			{Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true, Verbs: verbs},
			{Name: "events", Kind: "Event", Namespaced: true, Verbs: verbs},
		}},
		"/apis/" + group.String(): metav1.APIResourceList{GroupVersion: group.String(), APIResources: []metav1.APIResource{
			{Name: "apiclients", Kind: "ApiClient", Namespaced: true, Verbs: verbs},
			{Name: "realms", Kind: "Realm", Verbs: verbs},
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

// Condition returns a condition.
func Condition(kind v1beta1.ConditionType, status metav1.ConditionStatus, reason v1beta1.ConditionReason) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: "Message."}
}

// Client returns an ApiClient with conditions.
func Client(name string, conditions ...metav1.Condition) *v1beta1.ApiClient {
	return &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Status: v1beta1.ApiClientStatus{Conditions: conditions}}
}
