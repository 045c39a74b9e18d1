package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// TestColumns checks the columns that "kubectl get --output wide" displays. The API server computes
// them.
func TestColumns(t *testing.T) {
	cluster := env.Start(t)
	namespace := cluster.Namespace(t)
	ready := []metav1.Condition{{
		Type: string(v1beta1.ConditionReady), Status: metav1.ConditionTrue, Reason: string(v1beta1.ReasonReady),
		Message: "Ready to use.", LastTransitionTime: metav1.Now(),
	}}
	created := metav1.NewTime(time.Now().Add(-time.Hour))
	active := metav1.NewTime(time.Now().Add(-125 * time.Second))
	expires := metav1.NewTime(time.Date(2031, time.December, 31, 23, 59, 59, 0, time.UTC))

	realm := &v1beta1.Realm{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       v1beta1.RealmSpec{Grants: []v1beta1.Grant{{Name: "all", Namespaces: v1beta1.GrantedNamespaces{From: v1beta1.NamespacesFromAll}, Audiences: v1beta1.GrantedAudiences{"*"}}}},
	}
	if err := cluster.Client.Create(t.Context(), realm); err != nil {
		t.Fatal(err)
	}
	realm.Status = v1beta1.RealmStatus{
		Conditions: ready, Issuer: "https://api.example.com/acme", TokenLifetime: &v1beta1.Duration{Duration: time.Hour}, Clients: new(int32(2)),
		SigningKeys: []v1beta1.SigningKeyStatus{
			{KeyID: "a", Algorithm: v1beta1.SigningAlgorithmES384, State: v1beta1.SigningKeyRetiring, CreationTime: created, ActivationTime: &created},
			{KeyID: "b", Algorithm: v1beta1.SigningAlgorithmES256, State: v1beta1.SigningKeyActive, CreationTime: created, ActivationTime: &active},
		},
	}
	if err := cluster.Client.Status().Update(t.Context(), realm); err != nil {
		t.Fatal(err)
	}
	apiClient := &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "billing"},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: "acme"}, Scopes: []string{"a", "b"}, ExpirationTime: &expires, Secret: install.GeneratedSecret(),
		},
	}
	if err := cluster.Client.Create(t.Context(), apiClient); err != nil {
		t.Fatal(err)
	}
	apiClient.Status = v1beta1.ApiClientStatus{Conditions: ready, ClientID: "acme-apps.billing", SecretName: "billing", NextRotationTime: &expires}
	if err := cluster.Client.Status().Update(t.Context(), apiClient); err != nil {
		t.Fatal(err)
	}

	for name, tc := range map[string]struct {
		path string
		// columns are the names of all columns, in order. Those in brackets are wide.
		columns string
		want    map[string]string
	}{
		"Realm": {
			path:    "realms/" + realm.Name,
			columns: "Name, Ready, Reason, Clients, Issuer, Age, [Lifetime], [Algorithm], [Key age], [Message]",
			want: map[string]string{
				"Ready": "True", "Reason": "Ready", "Clients": "2", "Issuer": "https://api.example.com/acme",
				"Lifetime": "1h0m0s", "Algorithm": "ES256", "Key age": "2m5s", "Message": "Ready to use.",
			},
		},
		"ApiClient": {
			path:    "namespaces/" + namespace + "/apiclients/billing",
			columns: "Name, Ready, Reason, Realm, Client ID, Age, [Secret], [Scopes], [Next rotation], [Expires], [Message]",
			want: map[string]string{
				"Ready": "True", "Reason": "Ready", "Realm": "acme", "Client ID": "acme-apps.billing",
				"Secret": "billing", "Scopes": `["a","b"]`, "Next rotation": "2031-12-31T23:59:59Z", "Expires": "2031-12-31T23:59:59Z", "Message": "Ready to use.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			columns, got := row(t, cluster.Config, tc.path)
			if columns != tc.columns {
				t.Errorf("Columns: got\n%s\nwant\n%s", columns, tc.columns)
			}
			delete(got, "Name")
			delete(got, "Age")
			// The age of the key changes while the test runs.
			ignoreSeconds := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == `["Key age"]` },
				cmp.Comparer(func(a, b string) bool { return a[:2] == b[:2] }))
			if diff := cmp.Diff(tc.want, got, ignoreSeconds); diff != "" {
				t.Errorf("Columns (-want +got):\n%s", diff)
			}
		})
	}
}

// row returns the names of the columns and the only row of the table that the API server renders for an
// object.
func row(t *testing.T, config *rest.Config, path string) (columns string, cells map[string]string) {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := config.Host + "/apis/" + v1beta1.GroupVersion.String() + "/" + path
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	table := &metav1.Table{}
	if err := json.NewDecoder(response.Body).Decode(table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("Table of %s: got %d rows, want 1", path, len(table.Rows))
	}
	var names []string
	cells = map[string]string{}
	for i, column := range table.ColumnDefinitions {
		name := column.Name
		if column.Priority > 0 {
			name = "[" + name + "]"
		}
		names = append(names, name)
		cells[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return strings.Join(names, ", "), cells
}
