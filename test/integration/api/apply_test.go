package api_test

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// TestApplyByTwoManagers checks server-side apply by two field managers that each have their own
// entries in a list, such as a chart and the overlay of a customer: neither loses an entry through
// the other, and neither can change an entry of the other without a conflict.
func TestApplyByTwoManagers(t *testing.T) {
	cluster := env.Start(t)
	for name, tc := range map[string]struct {
		kind  string
		field []string
		key   string
		// chart and overlay are the specs that the managers apply. less has only the first entry of
		// chart, and changed has an entry of overlay with another value.
		chart, less, overlay, changed string
	}{
		"identities": {
			kind: "ApiClient", field: []string{"spec", "identities"}, key: "name",
			chart:   "identities: [{name: a, serviceAccount: {name: a}}, {name: b, serviceAccount: {name: b}}]",
			less:    "identities: [{name: a, serviceAccount: {name: a}}]",
			overlay: "identities: [{name: c, issuer: ci, subject: 'repo:acme'}]",
			changed: "identities: [{name: c, issuer: ci, subject: 'repo:other'}]",
		},
		"grants": {
			kind: "Realm", field: []string{"spec", "grants"}, key: "name",
			chart:   "grants: [{name: a, namespaces: {from: All}, audiences: ['*']}, {name: b, namespaces: {names: [b]}, audiences: ['*']}]",
			less:    "grants: [{name: a, namespaces: {from: All}, audiences: ['*']}]",
			overlay: "grants: [{name: c, namespaces: {names: [c]}, audiences: ['*']}]",
			changed: "grants: [{name: c, namespaces: {names: [other]}, audiences: ['*']}]",
		},
		"exchanges": {
			kind: "Realm", field: []string{"spec", "exchanges"}, key: "name",
			chart: "exchanges: " + exchanges("ab"), less: "exchanges: " + exchanges("a"), overlay: "exchanges: " + exchanges("c"),
			changed: "exchanges: " + strings.Replace(exchanges("c"), "scopes: [f]", "scopes: [other]", 1),
		},
		"hashed": {
			kind: "ApiClient", field: []string{"spec", "secret", "hashed"}, key: "id",
			chart:   "secret: {hashed: [{id: a, hashSecretRef: {name: a}}]}",
			less:    "secret: {hashed: [{id: a, hashSecretRef: {name: a}}]}",
			overlay: "secret: {hashed: [{id: c, hashSecretRef: {name: c}}]}",
			changed: "secret: {hashed: [{id: c, hashSecretRef: {name: other}}]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			apply := func(manager, spec string) error {
				object := kindNamed(tc.kind).object(t, namespace, namespace, spec)
				return cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager))
			}
			chart := keys(t, map[string]any{"spec": fromYAML(t, tc.chart)}, tc.field, tc.key)
			for _, step := range []struct {
				manager, spec string
				want          []string
			}{
				{"chart", tc.chart, chart},
				{"overlay", tc.overlay, append(slices.Clip(chart), "c")},
				{"chart", tc.chart, append(slices.Clip(chart), "c")},
				{"chart", tc.less, []string{"a", "c"}},
			} {
				if err := apply(step.manager, step.spec); err != nil {
					t.Fatal(err)
				}
				stored := kindNamed(tc.kind).object(t, namespace, namespace, "")
				if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
					t.Fatal(err)
				}
				got := keys(t, stored.Object, tc.field, tc.key)
				if !slices.Equal(got, step.want) {
					t.Errorf("After %s applied %q the entries are %v, want %v", step.manager, step.spec, got, step.want)
				}
			}
			if err := apply("chart", tc.changed); !apierrors.IsConflict(err) {
				t.Errorf("Got error %v, want a conflict when chart changes the entry of overlay", err)
			}
		})
	}
}

// keys returns the sorted keys of the entries of a list field.
func keys(t *testing.T, object map[string]any, field []string, key string) []string {
	t.Helper()
	list, found, err := unstructured.NestedSlice(object, field...)
	if err != nil || !found {
		t.Fatalf("Failed to find %v: %v", field, err)
	}
	var keys []string
	for _, entry := range list {
		keys = append(keys, entry.(map[string]any)[key].(string))
	}
	slices.Sort(keys)
	return keys
}
