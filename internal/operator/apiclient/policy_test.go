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
	got := accepted(observe(func(s *observed) {
		for i := range 256 {
			s.client.Spec.Scopes = append(s.client.Spec.Scopes, fmt.Sprintf("%0128d", i))
		}
	}), instance())
	if len(got.Message) > 2048 || !strings.Contains(got.Message, "and 251 more") {
		t.Errorf("message with %d bytes: %.200s", len(got.Message), got.Message)
	}
}

func TestAccepted(t *testing.T) {
	clientOfAge := func(namespace, name string, age time.Duration) v1alpha1.ApiClient {
		return v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + name), CreationTimestamp: metav1.NewTime(now.Add(-age)),
		}}
	}
	allow := func(from v1alpha1.NamespacesFrom, names ...string) func(*observed) {
		return func(s *observed) {
			s.realm.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: from, Names: names}
		}
	}
	selecting := func(s *observed) {
		s.realm.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From:     v1alpha1.NamespacesFromSelector,
			Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"realm": "acme"}},
		}
	}
	labeled := func(value string) func(*observed) {
		return func(s *observed) { s.namespaces = map[string]map[string]string{"team": {"realm": value}} }
	}
	with := func(c v1alpha1.ApiClient) func(*observed) {
		return func(s *observed) { s.sameClientID = append(s.sameClientID, c) }
	}
	for name, test := range map[string]struct {
		change     []func(*observed)
		wantReason v1alpha1.ConditionReason
		wantWord   string
	}{
		"valid":                           {nil, v1alpha1.ReasonAccepted, ""},
		"no realm":                        {[]func(*observed){func(s *observed) { s.realm = nil }}, v1alpha1.ReasonRealmNotFound, `"acme"`},
		"namespace named":                 {[]func(*observed){allow(v1alpha1.NamespacesFromNames, "other", "team")}, v1alpha1.ReasonAccepted, ""},
		"namespace not named":             {[]func(*observed){allow(v1alpha1.NamespacesFromNames, "other")}, v1alpha1.ReasonNamespaceNotAllowed, `"team"`},
		"namespace selected":              {[]func(*observed){selecting, labeled("acme")}, v1alpha1.ReasonAccepted, ""},
		"namespace not selected":          {[]func(*observed){selecting, labeled("other")}, v1alpha1.ReasonNamespaceNotAllowed, `"team"`},
		"younger client with the same ID": {[]func(*observed){with(clientOfAge("team", "a", -time.Hour))}, v1alpha1.ReasonAccepted, ""},
		"older client with the same ID":   {[]func(*observed){with(clientOfAge("other", "z", time.Hour))}, v1alpha1.ReasonClientIDConflict, "other/z"},
		"same age, earlier name":          {[]func(*observed){with(clientOfAge("team", "a", 0))}, v1alpha1.ReasonClientIDConflict, "team/a"},
		"same age, later name":            {[]func(*observed){with(clientOfAge("team", "z", 0))}, v1alpha1.ReasonAccepted, ""},
		"older client is not allowed":     {[]func(*observed){allow(v1alpha1.NamespacesFromNames, "team"), with(clientOfAge("other", "z", time.Hour))}, v1alpha1.ReasonAccepted, ""},
		"older client is being deleted": {[]func(*observed){func(s *observed) {
			deleted := clientOfAge("other", "z", time.Hour)
			deleted.DeletionTimestamp = &metav1.Time{Time: now}
			s.sameClientID = append(s.sameClientID, deleted)
		}}, v1alpha1.ReasonAccepted, ""},
		"undefined scope":    {[]func(*observed){func(s *observed) { s.client.Spec.Scopes = []string{"write", "read"} }}, v1alpha1.ReasonScopeNotInRealm, "write"},
		"undefined audience": {[]func(*observed){func(s *observed) { s.client.Spec.Audiences = []string{"orders"} }}, v1alpha1.ReasonAudienceNotInRealm, "orders"},
		"issuer as audience": {[]func(*observed){func(s *observed) { s.client.Spec.Audiences = []string{"https://api.example.com/acme"} }}, v1alpha1.ReasonAccepted, ""},
		"lifetime of the Realm": {[]func(*observed){func(s *observed) {
			s.client.Spec.TokenLifetime = &metav1.Duration{Duration: time.Hour}
		}}, v1alpha1.ReasonAccepted, ""},
		"lifetime exceeds the Realm's": {[]func(*observed){func(s *observed) {
			s.client.Spec.TokenLifetime = &metav1.Duration{Duration: time.Hour + time.Second}
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
			got := accepted(observe(test.change...), instance())
			if got.Reason != test.wantReason || !strings.Contains(got.Message, test.wantWord) {
				t.Errorf("%s: %s; want %s and %q", got.Reason, got.Message, test.wantReason, test.wantWord)
			}
			if isTrue := got.Status == metav1.ConditionTrue; isTrue != (test.wantReason == v1alpha1.ReasonAccepted) {
				t.Errorf("status %s with reason %s", got.Status, got.Reason)
			}
		})
	}
}
