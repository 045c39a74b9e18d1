package apiclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

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
		return func(s *observed) { s.realm.Spec.Grants[0].Namespaces = v1alpha1.GrantedNamespaces{Names: names} }
	}
	selecting := func(s *observed) {
		s.realm.Spec.Grants[0].Namespaces = v1alpha1.GrantedNamespaces{
			Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"realm": "acme"}},
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
		wantReason v1alpha1.ConditionReason
		wantWord   string
	}{
		"valid":                                 {nil, v1alpha1.ReasonAccepted, ""},
		"no realm":                              {[]func(*observed){func(s *observed) { s.realm = nil }}, v1alpha1.ReasonRealmNotFound, `"acme"`},
		"namespace named":                       {[]func(*observed){allow("other", "team")}, v1alpha1.ReasonAccepted, ""},
		"namespace not named":                   {[]func(*observed){allow("other")}, v1alpha1.ReasonNamespaceNotAllowed, `"team"`},
		"namespace selected":                    {[]func(*observed){selecting, labeled("acme")}, v1alpha1.ReasonAccepted, ""},
		"namespace not selected":                {[]func(*observed){selecting, labeled("other")}, v1alpha1.ReasonNamespaceNotAllowed, `"team"`},
		"in the system namespace":               {[]func(*observed){in("system")}, v1alpha1.ReasonCredentialsSecretsDisabled, `"system"`},
		"in the records namespace":              {[]func(*observed){in("records")}, v1alpha1.ReasonCredentialsSecretsDisabled, `"records"`},
		"in the system namespace with a hash":   {[]func(*observed){in("system"), withHashes(hashOf(t, "a", password))}, v1alpha1.ReasonAccepted, ""},
		"of helm test":                          {[]func(*observed){in("system"), named("realmkeeper-helm-test")}, v1alpha1.ReasonAccepted, ""},
		"of helm test in the records namespace": {[]func(*observed){in("records"), named("realmkeeper-helm-test")}, v1alpha1.ReasonCredentialsSecretsDisabled, `"records"`},
		"with the Secret of helm test": {[]func(*observed){in("system"), func(s *observed) {
			s.client.Spec.Secret.Generated.SecretName = "realmkeeper-helm-test"
		}}, v1alpha1.ReasonAccepted, ""},
		"ID held by another client": {[]func(*observed){func(s *observed) {
			s.holder = types.NamespacedName{Namespace: "other", Name: "z"}
		}}, v1alpha1.ReasonClientIDConflict, "other/z"},
		"released": {[]func(*observed){func(s *observed) {
			s.realm.Spec.ReleasedClients = []v1alpha1.ApiClientReference{{Namespace: "team", Name: "billing"}}
		}}, v1alpha1.ReasonClientIDReleased, "spec.releasedClients"},
		"released without a grant": {[]func(*observed){allow("other"), func(s *observed) {
			s.realm.Spec.ReleasedClients = []v1alpha1.ApiClientReference{{Namespace: "team", Name: "billing"}}
		}}, v1alpha1.ReasonClientIDReleased, "spec.releasedClients"},
		"released with an invalid spec": {[]func(*observed){func(s *observed) {
			s.client.Spec.Scopes = []string{"write"}
			s.realm.Spec.ReleasedClients = []v1alpha1.ApiClientReference{{Namespace: "team", Name: "billing"}}
		}}, v1alpha1.ReasonClientIDReleased, "spec.releasedClients"},
		"undefined scope":    {[]func(*observed){func(s *observed) { s.client.Spec.Scopes = []string{"write", "read"} }}, v1alpha1.ReasonScopeNotInRealm, "write"},
		"undefined audience": {[]func(*observed){func(s *observed) { s.client.Spec.Audiences = []string{"orders"} }}, v1alpha1.ReasonAudienceNotInRealm, "orders"},
		"issuer as audience": {[]func(*observed){func(s *observed) { s.client.Spec.Audiences = []string{"https://api.example.com/acme"} }}, v1alpha1.ReasonAccepted, ""},
		"lifetime of the Realm": {[]func(*observed){func(s *observed) {
			s.client.Spec.TokenLifetime = &v1alpha1.Duration{Duration: time.Hour}
		}}, v1alpha1.ReasonAccepted, ""},
		"lifetime exceeds the Realm's": {[]func(*observed){func(s *observed) {
			s.client.Spec.TokenLifetime = &v1alpha1.Duration{Duration: time.Hour + time.Second}
		}}, v1alpha1.ReasonLifetimeExceedsRealm, "1h0m1s"},
		"Secret without owner": {[]func(*observed){func(s *observed) {
			s.credentials = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "billing"}}
		}}, v1alpha1.ReasonSecretConflict, `"billing"`},
		"labeled Secret without owner": {[]func(*observed){func(s *observed) {
			s.credentials = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: "billing", Labels: map[string]string{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated},
			}}
		}}, v1alpha1.ReasonSecretConflict, `"billing"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(new(observe(test.change...)))
			if got.Reason != test.wantReason || !strings.Contains(got.Message, test.wantWord) {
				t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, test.wantReason, test.wantWord)
			}
			if isTrue := got.Status == metav1.ConditionTrue; isTrue != (test.wantReason == v1alpha1.ReasonAccepted) {
				t.Errorf("status %s with reason %s", got.Status, got.Reason)
			}
		})
	}
}
