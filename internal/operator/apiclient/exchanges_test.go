package apiclient

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

func labeled(value string) v1beta1.ExchangeNamespaces {
	return v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{"agents": v1beta1.LabelValue(value)}}}
}

func digestOf(namespaces v1beta1.ExchangeNamespaces) string {
	return record.DigestOfSelector(namespaces.Granted().Selector)
}

// withExchange adds a rule to the Realm, and gives the client's namespace a label and a version. No grant
// selects namespaces by labels.
func withExchange(actors, subjects v1beta1.ExchangeNamespaces, label string) func(*observed) {
	return func(s *observed) {
		s.realm.Spec.Exchanges = append(s.realm.Spec.Exchanges, v1beta1.Exchange{
			Name: "a", Actors: v1beta1.ExchangeClients{Namespaces: actors},
			Subjects: v1beta1.ExchangeSubjects{Clients: &v1beta1.ExchangeClients{Namespaces: subjects}},
		})
		s.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "team", UID: "n1", ResourceVersion: "90", Labels: map[string]string{"agents": label, "team": "a"},
		}}
	}
}

// The record has the digests of the selectors that the client's namespace matches, sorted and once. Only
// selectors make the record depend on the namespace.
func TestNamespaceSelectorsAreRecorded(t *testing.T) {
	named := v1beta1.ExchangeNamespaces{Names: []string{"team"}}
	yes, no := labeled("yes"), labeled("no")
	also := v1beta1.ExchangeNamespaces{Selector: &v1beta1.ExchangeNamespaceSelector{MatchLabels: v1beta1.Labels{"team": "a"}}}
	for name, test := range map[string]struct {
		change    []func(*observed)
		want      []string
		wantBasis bool
	}{
		"no exchanges":     {},
		"names":            {change: []func(*observed){withExchange(named, named, "yes")}},
		"matching actor":   {change: []func(*observed){withExchange(yes, named, "yes")}, want: []string{digestOf(yes)}, wantBasis: true},
		"matching subject": {change: []func(*observed){withExchange(named, yes, "yes")}, want: []string{digestOf(yes)}, wantBasis: true},
		"other label":      {change: []func(*observed){withExchange(yes, named, "no")}, wantBasis: true},
		"two selectors":    {change: []func(*observed){withExchange(yes, also, "yes"), withExchange(no, yes, "yes")}, want: []string{digestOf(yes), digestOf(also)}, wantBasis: true},
		"no label":         {change: []func(*observed){withExchange(yes, named, "yes"), func(s *observed) { s.namespace.Labels = nil }}, wantBasis: true},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(test.want)
			body := reconciled(t, observe(test.change...)).recorded
			testkit.Diff(t, "selectors", strings.Join(test.want, " "), strings.Join(body.NamespaceSelectors, " "))
			if hasBasis := body.Basis.Namespace != (record.NamespaceBasis{}); hasBasis != test.wantBasis {
				t.Errorf("the basis of the record is %+v", body.Basis)
			}
		})
	}
	// When the label or the selector changes, so does the record.
	seen := reconciled(t, observe(withExchange(yes, named, "yes")))
	seen.namespace.Labels["agents"], seen.namespace.ResourceVersion = "no", "91"
	if got := reconciled(t, seen).recorded.NamespaceSelectors; len(got) > 0 {
		t.Errorf("the record still has the selectors %v", got)
	}
}

// Delegated scopes are recorded beside the scopes, and must be defined and granted like them. A grant that
// requires DPoP for one of them requires it of the client.
func TestDelegatedScopes(t *testing.T) {
	delegating := func(granted v1beta1.GrantedScopes, scopes ...string) func(*observed) {
		return func(s *observed) {
			s.realm.Spec.Scopes = v1beta1.Scopes{"read", "write", "admin"}
			s.realm.Spec.Grants[0].Scopes = granted
			s.client.Spec.Scopes, s.client.Spec.DelegatedScopes = v1beta1.Scopes{"read"}, scopes
		}
	}
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1beta1.ConditionReason
		word   string
	}{
		"granted":     {delegating(v1beta1.GrantedScopes{"*"}, "write", "admin"), v1beta1.ReasonAccepted, ""},
		"not granted": {delegating(v1beta1.GrantedScopes{"read"}, "write"), v1beta1.ReasonNotGranted, `lacks scope "write"`},
		"not defined": {delegating(v1beta1.GrantedScopes{"*"}, "delete"), v1beta1.ReasonScopeNotInRealm, "from spec.delegatedScopes: delete"},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observe(test.change)))
			if got.Reason != test.want || !strings.Contains(got.Message, test.word) {
				t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, test.want, test.word)
			}
		})
	}
	body := reconciled(t, observe(delegating(v1beta1.GrantedScopes{"*"}, "write", "admin"))).recorded
	testkit.Diff(t, "scopes", []string{"read"}, body.Scopes)
	testkit.Diff(t, "delegated scopes", []string{"admin", "write"}, body.DelegatedScopes)
	for scope, want := range map[string]bool{"write": true, "admin": false} {
		seen := observe(delegating(v1beta1.GrantedScopes{"*"}, scope), func(s *observed) {
			s.realm.Spec.Grants = append(s.realm.Spec.Grants, v1beta1.Grant{
				Name: "bound", Namespaces: s.realm.Spec.Grants[0].Namespaces, Scopes: v1beta1.GrantedScopes{"write"},
				Audiences: v1beta1.GrantedAudiences{"*"}, SenderConstraint: v1beta1.SenderConstraintDPoP,
			})
		})
		if got := reconciled(t, seen).recorded.DPoP; got != want {
			t.Errorf("with the delegated scope %q, DPoP is %t", scope, got)
		}
	}
}

// A client can't authenticate with the tokens of an issuer that the Realm accepts only for exchanges.
func TestIssuerForExchangesOnly(t *testing.T) {
	uses := func(uses ...v1beta1.IssuerUse) func(*observed) {
		return func(s *observed) { s.realm.Spec.TrustedIssuers[0].Uses = uses }
	}
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1beta1.ConditionReason
	}{
		"default":   {uses(), v1beta1.ReasonAccepted},
		"ID-JAGs":   {uses(v1beta1.IssuerUseIDJAG, v1beta1.IssuerUseClientAuthentication), v1beta1.ReasonAccepted},
		"exchanges": {uses(v1beta1.IssuerUseSubject, v1beta1.IssuerUseIDJAG), v1beta1.ReasonIssuerNotInRealm},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observeFederated([]v1beta1.Identity{exact("github", shop)}, test.change)
			got := accepted(&seen)
			if got.Reason != test.want || test.want != v1beta1.ReasonAccepted && !strings.Contains(got.Message, "with ClientAuthentication in uses") {
				t.Errorf("%s: %s", got.Reason, got.Message)
			}
			if recorded := len(identities(&seen)) > 0; recorded != (test.want == v1beta1.ReasonAccepted) {
				t.Errorf("the identity is recorded: %t", recorded)
			}
		})
	}
}
