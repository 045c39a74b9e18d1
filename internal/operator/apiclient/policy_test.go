package apiclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// A client can have as many scopes and audiences as fit into a token that every API receives.
func TestTokensFit(t *testing.T) {
	scopes := func(n int) func(*observed) {
		return func(s *observed) {
			s.realm.Spec.Scopes, s.client.Spec.Scopes = nil, nil
			for i := range n {
				scope := fmt.Sprintf("%062d", i)
				s.realm.Spec.Scopes, s.client.Spec.Scopes = append(s.realm.Spec.Scopes, scope), append(s.client.Spec.Scopes, scope)
			}
		}
	}
	for n, want := range map[int]v1beta1.ConditionReason{40: v1beta1.ReasonAccepted, 120: v1beta1.ReasonTokenTooLarge} {
		got := accepted(new(observe(scopes(n))))
		if got.Reason != want {
			t.Errorf("%d scopes: got %s %q, want %s", n, got.Reason, got.Message, want)
		}
	}
	got := accepted(new(observe(scopes(60), func(s *observed) {
		s.realm.Spec.Audiences = nil
		for i := range 16 {
			s.realm.Spec.Audiences = append(s.realm.Spec.Audiences, fmt.Sprintf("https://%03d.example/%s", i, strings.Repeat("x", 230)))
		}
	})))
	const message = "A token with all 60 scopes and 16 audiences of this client could have"
	if got.Reason != v1beta1.ReasonTokenTooLarge || !strings.Contains(got.Message, message) {
		t.Errorf("got %s %q, want %s with %q", got.Reason, got.Message, v1beta1.ReasonTokenTooLarge, message)
	}
}

// The API server rejects a status with a message of more than 32,768 characters.
func TestMessagesAreShort(t *testing.T) {
	got := accepted(new(observe(func(s *observed) {
		for i := range 256 {
			s.client.Spec.Scopes = append(s.client.Spec.Scopes, fmt.Sprintf("%0128d", i))
		}
	})))
	if len(got.Message) > 2048 || !strings.Contains(got.Message, "and 251 more") {
		t.Errorf("message with %d bytes: %.200s", len(got.Message), got.Message)
	}
}

func TestAccepted(t *testing.T) {
	allow := func(names ...string) func(*observed) {
		return func(s *observed) { s.realm.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Names: names} }
	}
	selecting := func(s *observed) {
		s.realm.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{
			Selector: &v1beta1.NamespaceSelector{MatchLabels: map[string]v1beta1.LabelValue{"realm": "acme"}},
		}
	}
	labeled := func(value string) func(*observed) {
		return func(s *observed) {
			s.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"realm": value}}}
		}
	}
	in := func(namespace string) func(*observed) {
		return func(s *observed) { s.client.Namespace = namespace }
	}
	named := func(name string) func(*observed) { return func(s *observed) { s.client.Name = name } }
	for name, test := range map[string]struct {
		change     []func(*observed)
		wantReason v1beta1.ConditionReason
		wantWord   string
	}{
		"lifetime of the Realm": {[]func(*observed){func(s *observed) {
			s.client.Spec.TokenLifetime = &v1beta1.Duration{Duration: time.Hour}
		}}, v1beta1.ReasonAccepted, ""},
		"valid":                                 {nil, v1beta1.ReasonAccepted, ""},
		"no realm":                              {[]func(*observed){func(s *observed) { s.realm = nil }}, v1beta1.ReasonRealmNotFound, `"acme"`},
		"namespace not named":                   {[]func(*observed){allow("other")}, v1beta1.ReasonNamespaceNotAllowed, `"team"`},
		"namespace selected":                    {[]func(*observed){selecting, labeled("acme")}, v1beta1.ReasonAccepted, ""},
		"in the system namespace":               {[]func(*observed){in("system")}, v1beta1.ReasonCredentialsSecretsDisabled, `"system"`},
		"in the system namespace with a hash":   {[]func(*observed){in("system"), withHashes(hashOf(t, "a", password))}, v1beta1.ReasonAccepted, ""},
		"of helm test":                          {[]func(*observed){in("system"), named("realmkeeper-helm-test")}, v1beta1.ReasonAccepted, ""},
		"of helm test in the records namespace": {[]func(*observed){in("records"), named("realmkeeper-helm-test")}, v1beta1.ReasonCredentialsSecretsDisabled, `"records"`},
		"with the Secret of helm test": {[]func(*observed){in("system"), func(s *observed) {
			s.client.Spec.Secret.Generated.SecretName = "realmkeeper-helm-test"
		}}, v1beta1.ReasonAccepted, ""},
		"ID held by another client": {[]func(*observed){func(s *observed) {
			s.holder = types.NamespacedName{Namespace: "other", Name: "z"}
		}}, v1beta1.ReasonClientIDConflict, "other/z"},
		"just released": {[]func(*observed){releasedAt(now.Add(-59 * time.Second))}, v1beta1.ReasonClientIDReleased, "acquires it again at"},
		"just released, and acquired again": {[]func(*observed){releasedAt(now.Add(-59 * time.Second)), func(s *observed) {
			s.recordSecret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
		}}, v1beta1.ReasonAccepted, ""},
		"released a minute ago": {[]func(*observed){releasedAt(now.Add(-time.Minute))}, v1beta1.ReasonAccepted, ""},
		"to be released later":  {[]func(*observed){releasedAt(now.Add(time.Second))}, v1beta1.ReasonAccepted, ""},
		"release that isn't a time": {[]func(*observed){func(s *observed) {
			s.client.Annotations = map[string]string{v1beta1.ReleaseAnnotation: "now"}
		}}, v1beta1.ReasonAccepted, "is not a time in RFC 3339 format"},
		"undefined scope": {[]func(*observed){func(s *observed) { s.client.Spec.Scopes = []string{"write", "read"} }}, v1beta1.ReasonScopeNotInRealm, "write"},
		"scope that the grant lacks": {[]func(*observed){func(s *observed) {
			s.realm.Spec.Scopes, s.client.Spec.Scopes = []string{"admin"}, []string{"admin"}
			s.realm.Spec.Grants[0].Scopes = []string{"read"}
		}}, v1beta1.ReasonNotGranted, `which lacks scope "admin". Change the client`},
		"undefined audience": {[]func(*observed){func(s *observed) { s.client.Spec.Audiences = []string{"orders"} }}, v1beta1.ReasonAudienceNotInRealm, "orders"},
		"lifetime exceeds the Realm's": {[]func(*observed){func(s *observed) {
			s.client.Spec.TokenLifetime = &v1beta1.Duration{Duration: time.Hour + time.Second}
		}}, v1beta1.ReasonLifetimeExceedsRealm, "1h0m1s"},
		"labeled Secret with data": {[]func(*observed){func(s *observed) {
			s.credentials = labeledSecret()
			s.credentials.Data = map[string][]byte{"password": nil}
		}}, v1beta1.ReasonSecretConflict, `"billing"`},
		"labeled Secret of unknown content": {[]func(*observed){func(s *observed) {
			s.credentials = labeledSecret()
			s.credentials.Type = ""
		}}, v1beta1.ReasonSecretConflict, `"billing"`},
		"labeled Secret that is being deleted": {[]func(*observed){func(s *observed) {
			s.credentials = labeledSecret()
			s.credentials.DeletionTimestamp = new(metav1.NewTime(now))
		}}, v1beta1.ReasonSecretConflict, `"billing"`},
		"empty labeled Secret": {[]func(*observed){func(s *observed) { s.credentials = labeledSecret() }}, v1beta1.ReasonAccepted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observe(test.change...)))
			if got.Reason != test.wantReason || !strings.Contains(got.Message, test.wantWord) {
				t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, test.wantReason, test.wantWord)
			}
			if isTrue := got.Status == metav1.ConditionTrue; isTrue != (test.wantReason == v1beta1.ReasonAccepted) {
				t.Errorf("status %s with reason %s", got.Status, got.Reason)
			}
		})
	}
}

// claiming returns the observed state of a client with claims in a Realm that allows the claims
// "tenant" and "plan".
func claiming(realm, client v1beta1.Claims) observed {
	return observe(func(s *observed) {
		s.realm.Spec.AllowedClaims = []v1beta1.ClaimName{"tenant", "plan"}
		s.realm.Spec.Claims, s.client.Spec.Claims = realm, client
	})
}

func textClaim(name v1beta1.ClaimName, value string) v1beta1.Claims {
	return v1beta1.Claims{{Name: name, String: value}}
}

func TestClaimPolicies(t *testing.T) {
	long := strings.Repeat("ä", 500) // within the API server's limit of characters
	for name, test := range map[string]struct {
		realm, client v1beta1.Claims
		wantReason    v1beta1.ConditionReason
		wantWord      string
	}{
		"allowed":                  {textClaim("tier", "gold"), textClaim("tenant", "acme"), v1beta1.ReasonAccepted, ""},
		"not allowed":              {nil, textClaim("region", "eu"), v1beta1.ReasonClaimNotInRealm, "region"},
		"allowed in another case":  {nil, textClaim("Tenant", "acme"), v1beta1.ReasonClaimNotInRealm, "Tenant"},
		"set by the realm":         {textClaim("tier", "gold"), textClaim("tier", "free"), v1beta1.ReasonClaimNotInRealm, "itself"},
		"set by the realm, case":   {textClaim("tier", "gold"), textClaim("TIER", "free"), v1beta1.ReasonClaimNotInRealm, "itself"},
		"reserved since an update": {textClaim("status", "gold"), nil, v1beta1.ReasonAccepted, "reserved names: status."},
		"too large together":       {append(textClaim("a", long), textClaim("b", long)...), textClaim("plan", strings.Repeat("a", 64)), v1beta1.ReasonClaimsTooLarge, "2088 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(claiming(test.realm, test.client)))
			if got.Reason != test.wantReason || !strings.Contains(got.Message, test.wantWord) {
				t.Errorf("got %s %q, want %s with %q", got.Reason, got.Message, test.wantReason, test.wantWord)
			}
		})
	}
}

// labeledSecret returns an empty Secret that a user has labeled for a client.
func labeledSecret() *corev1.Secret {
	return &corev1.Secret{Type: corev1.SecretTypeOpaque, ObjectMeta: metav1.ObjectMeta{
		Name: "billing", Labels: map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretGenerated},
	}}
}
