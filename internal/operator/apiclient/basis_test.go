package apiclient

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// inNamespace makes a grant select namespaces by labels, and gives the client's namespace a version.
func inNamespace(version string, labels map[string]string) func(*observed) {
	return func(s *observed) {
		s.realm.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: v1beta1.Labels{"realm": "acme"}}}
		s.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "n1", ResourceVersion: version, Labels: labels}}
	}
}

// An object that is older than the one that the record implements is not used. Otherwise, a cache that
// lags could undo a suspension that token servers have acknowledged.
func TestLaggingObjects(t *testing.T) {
	labels := map[string]string{"realm": "acme"}
	for name, test := range map[string]struct {
		change func(*observed)
		want   []record.Input
	}{
		"newer":                {func(s *observed) { s.client.Generation++; s.realm.Generation++ }, nil},
		"older ApiClient":      {func(s *observed) { s.client.Generation-- }, []record.Input{record.InputOwner}},
		"older Realm":          {func(s *observed) { s.realm.Generation-- }, []record.Input{record.InputRealm}},
		"older labels":         {inNamespace("89", nil), []record.Input{record.InputNamespace}},
		"older, same labels":   {inNamespace("89", labels), nil},
		"recreated Namespace":  {func(s *observed) { inNamespace("89", nil)(s); s.namespace.UID = "n2" }, nil},
		"newer labels":         {inNamespace("91", nil), nil},
		"the Realm is deleted": {func(s *observed) { s.realm = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe(inNamespace("90", labels), func(s *observed) { s.realm.Generation = 5 }))
			test.change(&seen)
			want := ""
			if test.want != nil {
				want = fmt.Sprintf("record %s implements newer versions of %v", seen.recordSecret.Name, test.want)
			}
			if got := seen.lagging(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// The generation of the ApiClient is always recorded. That of the Realm is recorded only with another
// change, because an edit of a Realm must not rewrite the records of all its clients.
func TestBasisIsRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observed)
		want   record.Basis
	}{
		"the Secret is deleted":   {func(s *observed) { s.credentials = nil }, record.Basis{Generation: 2, RealmGeneration: 5}},
		"an edit without effect":  {func(s *observed) { s.client.Generation = 3 }, record.Basis{Generation: 3, RealmGeneration: 5, ContentVersion: "1"}},
		"another Realm":           {func(s *observed) { s.realm.Generation = 6 }, record.Basis{Generation: 2, RealmGeneration: 5}},
		"a suspension":            {func(s *observed) { s.client.Generation, s.client.Spec.Suspend, s.realm.Generation = 3, true, 6 }, record.Basis{Generation: 3, RealmGeneration: 6}},
		"the grant is removed":    {func(s *observed) { s.realm.Generation, s.realm.Spec.Grants = 6, nil }, record.Basis{Generation: 2, RealmGeneration: 6}},
		"the client was rejected": {func(s *observed) { s.client.Generation, s.client.Spec.Scopes = 3, []string{"x"} }, record.Basis{Generation: 3, RealmGeneration: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := reconciled(t, observe(func(s *observed) { s.realm.Generation = 5 }))
			test.change(&seen)
			testkit.Diff(t, "basis", test.want, reconciled(t, seen).recorded.Basis)
		})
	}
}
