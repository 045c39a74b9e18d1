package apiclient

import (
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

func TestGrantCoversClient(t *testing.T) {
	grant := func(name string, change func(*v1alpha1.Grant)) v1alpha1.Grant {
		g := v1alpha1.Grant{Name: name, Namespaces: v1alpha1.GrantedNamespaces{Names: []string{"team"}}}
		change(&g)
		return g
	}
	admin := grant("admin", func(g *v1alpha1.Grant) { g.Scopes, g.Audiences = v1alpha1.Scopes{"admin"}, v1alpha1.Audiences{"test"} })
	read := grant("read", func(g *v1alpha1.Grant) { g.Scopes, g.Audiences = v1alpha1.Scopes{"read"}, v1alpha1.Audiences{"prod"} })
	every := grant("every", func(g *v1alpha1.Grant) { g.Scopes = v1alpha1.Scopes{"*"} })
	elsewhere := grant("elsewhere", func(g *v1alpha1.Grant) {
		g.Namespaces.Names, g.Scopes = []string{"other"}, v1alpha1.Scopes{"*"}
	})
	for name, test := range map[string]struct {
		grants        []v1alpha1.Grant
		scopes        v1alpha1.Scopes
		audiences     v1alpha1.Audiences
		introspection v1alpha1.Audiences
		wantNotLike   string // message of NotGranted; empty if the client is accepted
	}{
		"scope and audience of one grant":       {grants: []v1alpha1.Grant{admin, read}, scopes: v1alpha1.Scopes{"read"}, audiences: v1alpha1.Audiences{"prod"}},
		"scope and audience of two grants":      {grants: []v1alpha1.Grant{admin, read}, scopes: v1alpha1.Scopes{"admin"}, audiences: v1alpha1.Audiences{"prod"}, wantNotLike: `grant "admin", which lacks audience "prod"`},
		"scopes of two grants":                  {grants: []v1alpha1.Grant{admin, read}, scopes: v1alpha1.Scopes{"read", "admin"}, wantNotLike: `grant "admin", which lacks scope "read"`},
		"audiences of two grants":               {grants: []v1alpha1.Grant{admin, read}, audiences: v1alpha1.Audiences{"test", "prod"}, wantNotLike: `lacks audience "prod"`},
		"no scopes in the grant":                {grants: []v1alpha1.Grant{grant("none", func(*v1alpha1.Grant) {})}, scopes: v1alpha1.Scopes{"read"}, wantNotLike: `grant "none", which lacks scope "read"`},
		"no scopes in the grant and client":     {grants: []v1alpha1.Grant{grant("none", func(*v1alpha1.Grant) {})}},
		"every scope":                           {grants: []v1alpha1.Grant{every}, scopes: v1alpha1.Scopes{"read", "admin"}},
		"grant for another namespace":           {grants: []v1alpha1.Grant{elsewhere, read}, scopes: v1alpha1.Scopes{"admin"}, wantNotLike: `grant "read", which lacks scope "admin"`},
		"introspection within the grant":        {grants: []v1alpha1.Grant{read}, introspection: v1alpha1.Audiences{"prod"}},
		"introspection of another audience":     {grants: []v1alpha1.Grant{read}, introspection: v1alpha1.Audiences{"test"}, wantNotLike: `lacks audience "test"`},
		"introspection by another grant":        {grants: []v1alpha1.Grant{read, admin}, scopes: v1alpha1.Scopes{"read"}, introspection: v1alpha1.Audiences{"test"}, wantNotLike: "which lacks"},
		"audiences that the realm has no more":  {grants: []v1alpha1.Grant{grant("old", func(g *v1alpha1.Grant) { g.Audiences = v1alpha1.Audiences{"retired"} })}, wantNotLike: "lacks an audience that the Realm defines"},
		"grant that lacks the least is nearest": {grants: []v1alpha1.Grant{grant("none", func(*v1alpha1.Grant) {}), read}, scopes: v1alpha1.Scopes{"read", "admin"}, wantNotLike: `grant "read", which lacks scope "admin"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observe(func(s *observed) {
				s.realm.Spec.Scopes, s.realm.Spec.Audiences, s.realm.Spec.Grants = v1alpha1.Scopes{"admin", "read"}, v1alpha1.Audiences{"prod", "test"}, test.grants
				s.client.Spec.Scopes, s.client.Spec.Audiences, s.client.Spec.Introspection.Audiences = test.scopes, test.audiences, test.introspection
			})))
			want := v1alpha1.ReasonAccepted
			if test.wantNotLike != "" {
				want = v1alpha1.ReasonNotGranted
			}
			if got.Reason != want || !strings.Contains(got.Message, test.wantNotLike) {
				t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, want, test.wantNotLike)
			}
		})
	}
}

func TestGrantCoversClientID(t *testing.T) {
	for name, test := range map[string]struct {
		clientIDs []string
		clientID  string
		other     string // existing namespace that the client ID names
		want      bool
	}{
		"default ID":              {nil, "", "", true},
		"listed":                  {[]string{"payments"}, "payments", "", true},
		"not listed":              {[]string{"payments"}, "payment", "", false},
		"longer than the entry":   {[]string{"payments"}, "payments2", "", false},
		"no IDs in the grant":     {nil, "payments", "", false},
		"another case":            {[]string{"payments"}, "Payments", "", false},
		"prefix":                  {[]string{"a", "pay-*"}, "pay-1", "", true},
		"prefix itself":           {[]string{"pay-*"}, "pay-", "", true},
		"shorter than the prefix": {[]string{"pay-*"}, "pay", "", false},
		"any ID":                  {[]string{"*"}, "anything", "", true},
		"any ID, default ID of another namespace":  {[]string{"*"}, "shop.billing", "shop", false},
		"prefix, default ID of another namespace":  {[]string{"shop.*"}, "shop.billing", "shop", false},
		"listed, default ID of another namespace":  {[]string{"shop.billing"}, "shop.billing", "shop", true},
		"prefix, namespace that doesn't exist":     {[]string{"*"}, "shop.billing", "", true},
		"listed beside a prefix, other namespace":  {[]string{"*", "shop.billing"}, "shop.billing", "shop", true},
		"pattern characters in the prefix":         {[]string{"a.c*"}, "abc", "", false},
		"pattern of the regular expression syntax": {[]string{"[a-z]"}, "a", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observe(func(s *observed) {
				s.realm.Spec.Grants[0].ClientIDs = test.clientIDs
				s.client.Spec.ClientID, s.otherNamespace = test.clientID, test.other
			})))
			if covered := got.Reason == v1alpha1.ReasonAccepted; covered != test.want {
				t.Errorf("%s: %s; want covered: %t", got.Reason, got.Message, test.want)
			}
			if !test.want && !strings.Contains(got.Message, `lacks client ID "`+test.clientID+`"`) {
				t.Errorf("message %q does not name the client ID", got.Message)
			}
		})
	}
}
