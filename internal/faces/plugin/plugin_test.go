package plugin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
)

// apiServer serves API discovery and passes all other requests to handle.
func apiServer(t *testing.T, handle http.HandlerFunc) (flag string) {
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

// Errors can contain text that other users control, such as annotations.
func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	c := client("billing")
	c.APIVersion, c.Kind = v1beta1.GroupVersion.String(), "ApiClient"
	c.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop\x1b]0;title\x07\u009b2J\u202e"}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "argocd-controller", Operation: "Apply", APIVersion: c.APIVersion, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:suspend":{}}}`),
	}}
	flag := apiServer(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(c) })
	code, _, stderr := run(t, "suspend", "apiclient/billing", "--namespace=acme", flag)
	if code != 1 || !strings.Contains(stderr, "]0;title") {
		t.Fatalf("Exit code %d, %q; want 1 and the name of the application", code, stderr)
	}
	if strings.ContainsAny(stderr, "\x1b\x07\u009b\u202e") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("Error output is %q, want one line without control characters", stderr)
	}
}

// Until the token servers reject the old secret, anyone who has it can get tokens that the first
// value of tokensValidAfterTime does not revoke. With --wait, the command therefore sets the field again.
func TestRevokeSecretAlsoRevokesLaterTokens(t *testing.T) {
	c := client("leaked",
		condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReady),
		condition(v1beta1.ConditionProgrammed, metav1.ConditionTrue, v1beta1.ReasonReady))
	c.APIVersion, c.Kind, c.UID = v1beta1.GroupVersion.String(), "ApiClient", types.UID("1")
	c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
	c.Status.Credentials = []v1beta1.CredentialStatus{{Type: v1beta1.CredentialTypeSecret, Name: "old", State: v1beta1.CredentialCurrent}}
	controller := true
	credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "acme", Name: c.EffectiveSecretName(), UID: "2", ResourceVersion: "3",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID, Controller: &controller}},
	}}
	var changes []string
	flag := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		isSecret := strings.Contains(r.URL.Path, "/secrets/")
		switch {
		case isSecret && r.Method == http.MethodPatch:
			changes = append(changes, "remove the secret")
			c.Status.Credentials[0].Name = "new"
			_ = json.NewEncoder(w).Encode(credentials)
		case isSecret:
			_ = json.NewEncoder(w).Encode(credentials)
		default:
			if r.Method == http.MethodPatch {
				changes = append(changes, "revoke tokens")
				c.Spec.TokensValidAfterTime = &metav1.Time{Time: time.Now()}
			}
			_ = json.NewEncoder(w).Encode(c)
		}
	})
	code, _, stderr := run(t, "revoke", "apiclient/leaked", "--secret", "--wait", "--namespace=acme", flag)
	if want := []string{"revoke tokens", "remove the secret", "revoke tokens"}; code != 0 || !slices.Equal(changes, want) {
		t.Errorf("Exit code %d, %s, changes %q; want %q", code, stderr, changes, want)
	}
	changes = nil
	code, stdout, stderr := run(t, "revoke", "apiclient/leaked", "--secret", "--namespace=acme", flag)
	if want := "kubectl realmkeeper revoke apiclient/leaked -n acme --wait"; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("Exit code %d, %s, output %q; want the command %q", code, stderr, stdout, want)
	}
}

// A rotation waits for the previous one, so --wait doesn't begin one during another.
func TestRotateDuringRotation(t *testing.T) {
	c := client("billing")
	c.APIVersion, c.Kind = v1beta1.GroupVersion.String(), "ApiClient"
	c.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}}
	c.Status.Credentials = []v1beta1.CredentialStatus{
		{Type: v1beta1.CredentialTypeSecret, Name: "old", State: v1beta1.CredentialCurrent}, {Type: v1beta1.CredentialTypeSecret, Name: "new", State: v1beta1.CredentialNext},
	}
	flag := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(c)
	})
	code, _, stderr := run(t, "rotate", "apiclient/billing", "--namespace=acme", flag)
	if code != 1 || !strings.Contains(stderr, "secret new replaces the current one") {
		t.Errorf("Exit code %d, %q; want 1 and the rotation in progress", code, stderr)
	}
}

// The API server's clock decides how long ago a use was. The text names no unit shorter than an hour, to which
// the recorded times are truncated.
func TestLastUsed(t *testing.T) {
	now := time.Date(2026, 3, 1, 14, 49, 0, 0, time.UTC)
	list := v1beta1.ApiClientList{Items: []v1beta1.ApiClient{*client("billing")}}
	c := &list.Items[0]
	for name, hours := range map[string]int{"busy": 0, "hourly": 2, "yesterday": 30, "monthly": 40 * 24} {
		c.Status.Credentials = append(c.Status.Credentials, v1beta1.CredentialStatus{
			Type: v1beta1.CredentialTypePublicKey, Name: name, LastUsedTime: &metav1.Time{Time: now.Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour)},
		})
	}
	flag := apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		_ = json.NewEncoder(w).Encode(list)
	})
	code, stdout, stderr := run(t, "stale", "--older=1m", "--namespace=acme", flag)
	got := map[string]string{}
	for line := range strings.Lines(stdout) {
		if columns := strings.Fields(line); len(columns) > 3 {
			got[columns[2]] = strings.Join(columns[3:], " ")
		}
	}
	delete(got, "CREDENTIAL")
	testkit.Diff(t, "Last uses", map[string]string{"busy": "this hour", "hourly": "2h ago", "yesterday": "30h ago", "monthly": "40d ago"}, got)
	if code != 0 {
		t.Errorf("Exit code %d, %s", code, stderr)
	}
}
