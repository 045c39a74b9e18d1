package grants_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/rules/grants"
)

// grant returns a grant for the namespace team, with no scopes and every audience.
func grant(name string, change func(*v1beta1.Grant)) v1beta1.Grant {
	g := v1beta1.Grant{Name: name, Namespaces: v1beta1.GrantedNamespaces{Names: []string{"team"}}, Audiences: v1beta1.GrantedAudiences{"*"}}
	change(&g)
	return g
}

func unchanged(*v1beta1.Grant) {}

// request returns a request of the client team/billing in a Realm with two scopes and audiences.
func request(all ...v1beta1.Grant) *grants.Request {
	return &grants.Request{
		Issuer: "https://issuer.example",
		Realm: &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1beta1.RealmSpec{
			Scopes: v1beta1.Scopes{"admin", "read"}, Audiences: v1beta1.Audiences{"test", "prod"}, Grants: all,
		}},
		Client: &v1beta1.ApiClient{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing"}},
	}
}

// One grant must cover everything. A client without audiences gets those that the grant allows and the Realm defines.
func TestCoverage(t *testing.T) {
	admin := grant("admin", func(g *v1beta1.Grant) {
		g.Scopes, g.Audiences = v1beta1.GrantedScopes{"admin"}, v1beta1.GrantedAudiences{"test"}
	})
	read := grant("read", func(g *v1beta1.Grant) {
		g.Scopes, g.Audiences, g.Issuers = v1beta1.GrantedScopes{"read"}, v1beta1.GrantedAudiences{"prod"}, []string{"gitlab"}
	})
	none, every := grant("none", unchanged), grant("every", func(g *v1beta1.Grant) { g.Scopes = v1beta1.GrantedScopes{"*"} })
	old := grant("old", func(g *v1beta1.Grant) { g.Audiences = v1beta1.GrantedAudiences{"retired"} })
	asks := func(scopes, audiences, introspection []string) func(*grants.Request) {
		return func(r *grants.Request) {
			r.Client.Spec.Scopes, r.Client.Spec.Audiences, r.Client.Spec.Introspection.Audiences = scopes, audiences, introspection
		}
	}
	withIssuer := func(name string) func(*grants.Request) {
		return func(r *grants.Request) {
			r.Client.Spec.Identities = []v1beta1.Identity{{Issuer: name}}
		}
	}
	noAudiences := func(issuer string) func(*grants.Request) {
		return func(r *grants.Request) { r.Realm.Spec.Audiences, r.Issuer = nil, issuer }
	}
	const issuer = "https://issuer.example"
	of := func(audience string) v1beta1.Grant {
		return grant("of", func(g *v1beta1.Grant) { g.Audiences = v1beta1.GrantedAudiences{audience} })
	}
	for name, test := range map[string]struct {
		grants    []v1beta1.Grant
		change    func(*grants.Request)
		want      string // the grant; empty if none covers the client
		audiences []string
		problem   string // part of it
	}{
		"no grant":                               {problem: `No grant of Realm "acme" includes namespace "team".`},
		"scope and audience of two grants":       {grants: []v1beta1.Grant{admin, read}, change: asks([]string{"admin"}, []string{"prod"}, nil), problem: `The nearest is grant "admin", which lacks audience "prod".`},
		"scopes of two grants":                   {grants: []v1beta1.Grant{admin, read}, change: asks([]string{"read", "admin"}, nil, nil), problem: `grant "admin", which lacks scope "read".`},
		"no scopes in the grant and client":      {grants: []v1beta1.Grant{none}, want: "none", audiences: []string{"prod", "test"}},
		"every scope":                            {grants: []v1beta1.Grant{every}, change: asks([]string{"read", "admin"}, nil, nil), want: "every", audiences: []string{"prod", "test"}},
		"the first that covers":                  {grants: []v1beta1.Grant{admin, read, every}, change: asks([]string{"read"}, nil, nil), want: "read", audiences: []string{"prod"}},
		"introspection":                          {grants: []v1beta1.Grant{every}, change: asks(nil, []string{"test"}, []string{"prod"}), want: "every", audiences: []string{"test"}},
		"introspection of another audience":      {grants: []v1beta1.Grant{read}, change: asks(nil, nil, []string{"test"}), problem: `lacks audience "test".`},
		"introspection by another grant":         {grants: []v1beta1.Grant{read, admin}, change: asks([]string{"read"}, nil, []string{"test"}), problem: "which lacks"},
		"issuer":                                 {grants: []v1beta1.Grant{none, read}, change: withIssuer("gitlab"), want: "read", audiences: []string{"prod"}},
		"another issuer":                         {grants: []v1beta1.Grant{read}, change: withIssuer("github"), problem: `lacks issuer "github".`},
		"audience that the Realm has no more":    {grants: []v1beta1.Grant{old}, problem: "lacks an audience that the Realm defines."},
		"no audience in the grant":               {grants: []v1beta1.Grant{grant("none", func(g *v1beta1.Grant) { g.Audiences = nil })}, problem: "lacks an audience that the Realm defines."},
		"every audience":                         {grants: []v1beta1.Grant{none}, change: asks(nil, []string{"test", "prod"}, nil), want: "none", audiences: []string{"prod", "test"}},
		"grant that lacks the least is nearest":  {grants: []v1beta1.Grant{none, read}, change: asks([]string{"read", "admin"}, nil, nil), problem: `grant "read", which lacks scope "admin".`},
		"much is lacking":                        {grants: []v1beta1.Grant{none}, change: asks([]string{"a", "b", "c", "d", "e", "f", "g"}, nil, nil), problem: `lacks scope "a", scope "b", scope "c", scope "d", scope "e", and 2 more.`},
		"issuer as the audience":                 {grants: []v1beta1.Grant{of(issuer)}, change: noAudiences(issuer), want: "of", audiences: []string{issuer}},
		"another audience than the issuer":       {grants: []v1beta1.Grant{of("test")}, change: noAudiences(issuer), problem: "lacks an audience that the Realm defines."},
		"issuer not known":                       {grants: []v1beta1.Grant{of(issuer)}, change: noAudiences(""), want: "of"},
		"issuer not known, scope that is lacked": {grants: []v1beta1.Grant{none}, change: func(r *grants.Request) { asks([]string{"read"}, nil, nil)(r); noAudiences("")(r) }, problem: `lacks scope "read".`},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(test.grants...)
			if test.change != nil {
				test.change(r)
			}
			got := r.Coverage()
			if got.Covers() != (test.want != "") || !got.Covers() && !strings.Contains(got.Problem(), test.problem) {
				t.Fatalf("Covered: %t, %s; want grant %q, or %q", got.Covers(), got.Problem(), test.want, test.problem)
			}
			if test.want != "" {
				testkit.Diff(t, "Grant", test.want, got.Grant.Name)
				testkit.Diff(t, "Audiences", test.audiences, got.Audiences)
			}
		})
	}
}

func TestClientIDs(t *testing.T) {
	for name, test := range map[string]struct {
		granted  []string
		clientID string
		other    string // existing namespace that the client ID names
		want     bool
	}{
		"default ID":              {nil, "", "", true},
		"listed":                  {[]string{"payments"}, "payments", "", true},
		"not listed":              {[]string{"payments"}, "payment", "", false},
		"no IDs in the grant":     {nil, "payments", "", false},
		"prefix":                  {[]string{"a", "pay-*"}, "pay-1", "", true},
		"shorter than the prefix": {[]string{"pay-*"}, "pay", "", false},
		"any ID":                  {[]string{"*"}, "anything", "", true},
		"any ID, default ID of another namespace": {[]string{"*"}, "shop.billing", "shop", false},
		"listed, default ID of another namespace": {[]string{"shop.billing"}, "shop.billing", "shop", true},
		"prefix, namespace that doesn't exist":    {[]string{"*"}, "shop.billing", "", true},
		"pattern characters in the prefix":        {[]string{"a.c*"}, "abc", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(grant("a", func(g *v1beta1.Grant) { g.ClientIDs = test.granted }))
			r.Client.Spec.ClientID, r.OtherNamespace = test.clientID, test.other
			got := r.Coverage()
			if got.Covers() != test.want {
				t.Errorf("Covered: %t, want %t", got.Covers(), test.want)
			}
			if !test.want && !strings.Contains(got.Problem(), `lacks client ID "`+test.clientID+`"`) {
				t.Errorf("%q does not name the client ID", got.Problem())
			}
			if test.other != "" && !test.want && !strings.Contains(got.Problem(), `of namespace "`+test.other+`", which no prefix covers)`) {
				t.Errorf("%q does not say why a prefix isn't enough", got.Problem())
			}
		})
	}
}

// Without the labels of a namespace, it is undecided whether a grant that selects by labels covers a client.
func TestUnknownLabels(t *testing.T) {
	selecting := grant("selecting", func(g *v1beta1.Grant) {
		g.Namespaces = v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{MatchLabels: v1beta1.Labels{"team": "acme"}}}
	})
	for name, test := range map[string]struct {
		grants            []v1beta1.Grant
		labels            map[string]string
		scopes            []string
		covers, undecided bool
	}{
		"matching":                      {grants: []v1beta1.Grant{selecting}, labels: map[string]string{"team": "acme"}, covers: true},
		"others":                        {grants: []v1beta1.Grant{selecting}, labels: map[string]string{"team": "other"}},
		"unknown":                       {grants: []v1beta1.Grant{selecting}, undecided: true},
		"unknown, but covers nothing":   {grants: []v1beta1.Grant{selecting}, scopes: []string{"read"}},
		"unknown, but covered by names": {grants: []v1beta1.Grant{selecting, grant("names", unchanged)}, covers: true, undecided: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(test.grants...)
			r.Client.Spec.Scopes, r.NamespaceLabels = test.scopes, test.labels
			if got := r.Coverage(); got.Covers() != test.covers || got.Undecided != test.undecided {
				t.Errorf("Covered: %t, undecided: %t; want %+v", got.Covers(), got.Undecided, test)
			}
		})
	}
}

// Any grant that includes the namespace requires DPoP, whichever covers the client.
func TestAnyGrantRequiresDPoP(t *testing.T) {
	plain := grant("plain", func(g *v1beta1.Grant) { g.Scopes = v1beta1.GrantedScopes{"*"} })
	bound := func(namespace, scope string) v1beta1.Grant {
		return grant("bound", func(g *v1beta1.Grant) {
			g.Namespaces.Names, g.Scopes, g.SenderConstraint = []string{namespace}, v1beta1.GrantedScopes{scope}, v1beta1.SenderConstraintDPoP
		})
	}
	for name, test := range map[string]struct {
		other v1beta1.Grant
		want  bool
	}{
		"a scope of the client": {bound("team", "read"), true},
		"another scope":         {bound("team", "other"), false},
		"another namespace":     {bound("other", "read"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(plain, test.other)
			r.Client.Spec.Scopes = v1beta1.Scopes{"admin", "read"}
			if got := r.Coverage(); got.Grant.Name != "plain" || got.DPoP != test.want {
				t.Errorf("Grant %q, DPoP: %t; want plain, %t", got.Grant.Name, got.DPoP, test.want)
			}
		})
	}
}
