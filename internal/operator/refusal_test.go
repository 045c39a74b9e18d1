package operator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A spec that the schema lets pass and something else forbids is told by a condition that
// names the rule, and gets no token; when it is mended, the client goes on.
func TestRefusalsAreToldAndEnd(t *testing.T) {
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{MaximumTokenLifetime: "2h"})
	install.StartOperator(t, "")
	install.StartTokenServer(t)
	team := env.Namespace(t)
	install.Create(t, testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.Scopes = []string{"read"}
		r.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromNames, Names: []string{team}}
	}))

	for name, test := range map[string]struct {
		mistake    func(*v1alpha1.ApiClient)
		mend       func(*v1alpha1.ApiClient)
		wantReason v1alpha1.ConditionReason
		wantWords  []string
	}{
		"scope": {
			mistake:    func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"read", "write", "admin"} },
			mend:       func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"read"} },
			wantReason: v1alpha1.ReasonScopeNotInRealm, wantWords: []string{"spec.scopes", "admin, write", `"acme"`},
		},
		"audience": {
			mistake:    func(c *v1alpha1.ApiClient) { c.Spec.Audiences = []string{"orders"} },
			mend:       func(c *v1alpha1.ApiClient) { c.Spec.Audiences = nil },
			wantReason: v1alpha1.ReasonAudienceNotInRealm, wantWords: []string{"spec.audiences", "orders", `"acme"`},
		},
		"lifetime": {
			mistake:    func(c *v1alpha1.ApiClient) { c.Spec.TokenLifetime = &metav1.Duration{Duration: 90 * time.Minute} },
			mend:       func(c *v1alpha1.ApiClient) { c.Spec.TokenLifetime = nil },
			wantReason: v1alpha1.ReasonLifetimeExceedsRealm, wantWords: []string{"spec.tokenLifetime", "1h30m0s", "1h0m0s", `"acme"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testinstall.ApiClient(team, name, "acme", test.mistake)
			install.Create(t, c)
			install.AwaitReady(t, c, metav1.ConditionFalse, test.wantReason)
			says(t, c, v1alpha1.ConditionAccepted, test.wantWords...)
			says(t, c, v1alpha1.ConditionStalled, test.wantWords...)
			testinstall.Change(t, install, c, test.mend)
			converges(t, install, c)
		})
	}

	t.Run("namespace", func(t *testing.T) {
		elsewhere := env.Namespace(t)
		c := testinstall.ApiClient(elsewhere, "billing", "acme")
		install.Create(t, c)
		install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAllowed)
		says(t, c, v1alpha1.ConditionAccepted, elsewhere, `"acme"`, "spec.allowedNamespaces")
	})
	t.Run("realm's lifetime", func(t *testing.T) {
		realm := testinstall.Realm("slow", func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: 3 * time.Hour} })
		install.Create(t, realm)
		install.AwaitReady(t, realm, metav1.ConditionFalse, v1alpha1.ReasonLifetimeExceedsInstanceMaximum)
		says(t, realm, v1alpha1.ConditionAccepted, "spec.tokenLifetime", "3h0m0s", "2h0m0s", "security.maximumTokenLifetime")
		testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: 2 * time.Hour} })
		install.AwaitReady(t, realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	})
}

// The oldest ApiClient has the client id; when it goes, the next moves up.
func TestClientIDConflict(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team := env.Namespace(t)
	install.Create(t, testinstall.Realm("acme"))
	claim := func(name string) *v1alpha1.ApiClient {
		c := testinstall.ApiClient(team, name, "acme", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "billing" })
		install.Create(t, c)
		return c
	}
	first := claim("a")
	converges(t, install, first)
	second, third := claim("b"), claim("c")
	for _, c := range []*v1alpha1.ApiClient{second, third} {
		install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonClientIDConflict)
		says(t, c, v1alpha1.ConditionAccepted, `"billing"`, team+"/a")
	}
	install.Delete(t, first)
	converges(t, install, second)
	install.AwaitReady(t, third, metav1.ConditionFalse, v1alpha1.ReasonClientIDConflict)
	testinstall.Eventually(t, "the third to be told of the second", func() error {
		install.AwaitReady(t, third, metav1.ConditionFalse, v1alpha1.ReasonClientIDConflict)
		if message := messageOf(t, third, v1alpha1.ConditionAccepted); !strings.Contains(message, team+"/b") {
			return errorf("it is told: %s", message)
		}
		return nil
	})
}

// Who has the client id is decided anew when a namespace comes or goes.
func TestClientIDConflictFollowsTheNamespaces(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "older-", Labels: map[string]string{"realm": "acme"}}}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "younger-", Labels: map[string]string{"realm": "acme"}}}
	install.Create(t, home, other, testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From:     v1alpha1.NamespacesFromSelector,
			Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"realm": "acme"}},
		}
	}))
	claim := func(namespace string) *v1alpha1.ApiClient {
		c := testinstall.ApiClient(namespace, "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.ClientID = "billing" })
		install.Create(t, c)
		return c
	}
	older := claim(home.Name)
	converges(t, install, older)
	younger := claim(other.Name)
	install.AwaitReady(t, younger, metav1.ConditionFalse, v1alpha1.ReasonClientIDConflict)

	testinstall.Change(t, install, home, func(n *corev1.Namespace) { n.Labels["realm"] = "none" })
	install.AwaitReady(t, older, metav1.ConditionFalse, v1alpha1.ReasonNamespaceNotAllowed)
	converges(t, install, younger)
	testinstall.Change(t, install, home, func(n *corev1.Namespace) { n.Labels["realm"] = "acme" })
	converges(t, install, older)
	install.AwaitReady(t, younger, metav1.ConditionFalse, v1alpha1.ReasonClientIDConflict)
}

// A record that loses a label gets it back, and its keys or verifiers with it.
func TestRecordsKeepTheirLabels(t *testing.T) {
	env := testenv.Start(t)
	install, realm, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)
	for _, label := range []string{v1alpha1.RecordLabel, v1alpha1.ManagedByLabel} {
		for _, name := range []string{record.SecretName(record.KindRealm, realm.UID), record.SecretName(record.KindClient, c.UID)} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: name}}
			testinstall.Change(t, install, secret, func(s *corev1.Secret) { delete(s.Labels, label) })
			testinstall.Eventually(t, label+" to come back to "+name, func() error {
				err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
				if err == nil && secret.Labels[label] == "" {
					err = errorf("labels are %v", secret.Labels)
				}
				return err
			})
		}
	}
	install.AwaitTokens(t, consumer, true)
	converges(t, install, c)
}

// A Secret under the consumer Secret's name that is not ours stays as it is, to the byte.
func TestForeignSecretIsNeverTouched(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team := env.Namespace(t)
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "billing", Labels: map[string]string{"whose": "theirs"}},
		StringData: map[string]string{"client_secret": "theirs"},
	}
	c := testinstall.ApiClient(team, "billing", "acme")
	install.Create(t, foreign, testinstall.Realm("acme"), c)
	install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonSecretConflict)
	says(t, c, v1alpha1.ConditionAccepted, `"billing"`, "spec.secret.generated.secretName")

	now := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(foreign, now); diff != "" {
		t.Errorf("the foreign Secret was touched (-before +now):\n%s", diff)
	}
}

// A record that was damaged by hand is skipped, counted and told; its last good state
// is served until someone restores or deletes it.
func TestDamagedRecords(t *testing.T) {
	env := testenv.Start(t)
	install, realm, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)

	for name, test := range map[string]struct {
		record      string
		owner       client.Object
		wantReason  v1alpha1.ConditionReason
		clientAfter v1alpha1.ConditionReason
	}{
		"of a realm":  {record.SecretName(record.KindRealm, realm.UID), realm, v1alpha1.ReasonKeysUnreadable, v1alpha1.ReasonRealmNotReady},
		"of a client": {record.SecretName(record.KindClient, c.UID), c, v1alpha1.ReasonRecordUnreadable, v1alpha1.ReasonRecordUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			good := &corev1.Secret{}
			if err := env.Client.Get(t.Context(), types.NamespacedName{Namespace: install.Namespace, Name: test.record}, good); err != nil {
				t.Fatal(err)
			}
			damaged := good.DeepCopy()
			testinstall.Change(t, install, damaged, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte(`{"schemaVersion":1,"body":"canary"}`) })
			install.AwaitReady(t, test.owner, metav1.ConditionFalse, test.wantReason)
			install.AwaitReady(t, c, metav1.ConditionFalse, test.clientAfter)
			says(t, test.owner, v1alpha1.ConditionReady, install.Namespace+"/"+test.record, "Restore")
			if message := messageOf(t, test.owner, v1alpha1.ConditionReady); strings.Contains(message, "canary") {
				t.Errorf("the message repeats what stands in the record: %s", message)
			}
			for _, s := range install.Servers() {
				testinstall.Eventually(t, s.Name+" to count it", func() error {
					if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != "1" {
						return errorf("it counts %s", got)
					}
					return nil
				})
			}
			install.AwaitTokens(t, consumer, true)

			testinstall.Change(t, install, damaged, func(s *corev1.Secret) { s.Data = good.Data })
			install.AwaitReady(t, test.owner, metav1.ConditionTrue, v1alpha1.ReasonReady)
			install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			install.AwaitTokens(t, consumer, true)
		})
	}
}

// The consumer Secret is ours to keep: what is changed or deleted comes back, with a
// new secret where the old one is gone.
func TestConsumerSecretIsKept(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	c := testinstall.ApiClient(env.Namespace(t), "billing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{
			Template: v1alpha1.SecretTemplate{
				Labels:      map[string]v1alpha1.LabelValue{"team": "billing"},
				Annotations: map[string]v1alpha1.AnnotationValue{"note": "kept"},
			},
		}}
	})
	install.Create(t, testinstall.Realm("acme"), c)
	converges(t, install, c)
	consumer := install.ConsumerSecret(t, c)
	if consumer.Labels["team"] != "billing" || consumer.Annotations["note"] != "kept" || consumer.Type != corev1.SecretTypeOpaque {
		t.Errorf("labels %v, annotations %v, type %s", consumer.Labels, consumer.Annotations, consumer.Type)
	}

	t.Run("somebody else's label stays", func(t *testing.T) {
		testinstall.Change(t, install, consumer.DeepCopy(), func(s *corev1.Secret) {
			s.Labels["theirs"] = "stays"
			s.Labels["team"] = "changed"
		})
		testinstall.Eventually(t, "our label to come back", func() error {
			now := install.ConsumerSecret(t, c)
			if now.Labels["team"] != "billing" || now.Labels["theirs"] != "stays" {
				return errorf("labels are %v", now.Labels)
			}
			return nil
		})
		install.AwaitTokens(t, consumer, true)
	})
	t.Run("deleted", func(t *testing.T) {
		install.Delete(t, consumer)
		install.AwaitTokens(t, consumer, false)
		converges(t, install, c)
		install.AwaitTokens(t, install.ConsumerSecret(t, c), true)
	})
}

// says checks that a condition's message holds these words.
func says(t *testing.T, obj client.Object, kind v1alpha1.ConditionType, words ...string) {
	t.Helper()
	message := messageOf(t, obj, kind)
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("%s says %q, without %q", kind, message, word)
		}
	}
}

func messageOf(t *testing.T, obj client.Object, kind v1alpha1.ConditionType) string {
	t.Helper()
	c := meta.FindStatusCondition(testinstall.Conditions(obj), string(kind))
	if c == nil {
		t.Fatalf("there is no condition %s", kind)
	}
	return c.Message
}
