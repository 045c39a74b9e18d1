package apiclient

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// The API server must not be asked for a namespace that can't exist, because its response isn't
// always that it wasn't found.
func TestResembledNamespace(t *testing.T) {
	for id, want := range map[string]string{
		"":            "",
		"billing":     "",
		"team.a":      "", // its own
		"other.a":     "other",
		"other.a.b":   "other",
		"a/b.c":       "",
		"../realms.c": "",
		".c":          "",
		"Other.c":     "",
		"a?b.c":       "",
	} {
		c := &v1alpha1.ApiClient{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing"},
			Spec:       v1alpha1.ApiClientSpec{ClientID: id},
		}
		if got := resembledNamespace(c); got != want {
			t.Errorf("resembledNamespace(%q) = %q, want %q", id, got, want)
		}
	}
}
