package operator_test

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Whatever ends a client's right to tokens ends it at every token server, is told in
// status and by one Event, and where it can be taken back the same secret works again.
func TestEndsAndReturns(t *testing.T) {
	env := testenv.Start(t)
	install := running(t, env)
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-", Labels: map[string]string{"realm": "acme"}}}
	install.Create(t, team)
	realm := testinstall.Realm("acme", func(r *v1alpha1.Realm) {
		r.Spec.Scopes = []string{"read", "write"}
		r.Spec.Audiences = []string{"orders", "billing"}
		r.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{
			From:     v1alpha1.NamespacesFromSelector,
			Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"realm": "acme"}},
		}
	})
	c := testinstall.ApiClient(team.Name, "billing", "acme", func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes = []string{"write"}
		c.Spec.Audiences = []string{"billing"}
		c.Spec.TokenLifetime = &metav1.Duration{Duration: 30 * time.Minute}
	})
	install.Create(t, realm, c)
	converges(t, install, c)
	consumer, events := install.ConsumerSecret(t, c), tellingOf(t, install, c)

	type change struct{ end, undo func() }
	onClient := func(end, undo func(*v1alpha1.ApiClient)) change {
		return change{func() { testinstall.Change(t, install, c, end) }, func() { testinstall.Change(t, install, c, undo) }}
	}
	onRealm := func(end, undo func(*v1alpha1.Realm)) change {
		return change{func() { testinstall.Change(t, install, realm, end) }, func() { testinstall.Change(t, install, realm, undo) }}
	}
	for name, test := range map[string]struct {
		change
		wantReason v1alpha1.ConditionReason
		wantEvent  string
	}{
		"client suspended": {onClient(
			func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true },
			func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false },
		), v1alpha1.ReasonSuspended, "Normal Suspended"},
		"client expired": {onClient(
			func(c *v1alpha1.ApiClient) { c.Spec.ExpiresAt = &metav1.Time{Time: time.Now().Add(-time.Minute)} },
			func(c *v1alpha1.ApiClient) { c.Spec.ExpiresAt = nil },
		), v1alpha1.ReasonExpired, "Warning Expired"},
		"realm suspended": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.Suspend = true },
			func(r *v1alpha1.Realm) { r.Spec.Suspend = false },
		), v1alpha1.ReasonRealmNotReady, "Warning RealmNotReady"},
		"scope withdrawn": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read"} },
			func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read", "write"} },
		), v1alpha1.ReasonScopeNotInRealm, "Warning ScopeNotInRealm"},
		"audience withdrawn": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.Audiences = []string{"orders"} },
			func(r *v1alpha1.Realm) { r.Spec.Audiences = []string{"orders", "billing"} },
		), v1alpha1.ReasonAudienceNotInRealm, "Warning AudienceNotInRealm"},
		"realm's lifetime below the client's": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &metav1.Duration{Duration: time.Minute} },
			func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = nil },
		), v1alpha1.ReasonLifetimeExceedsRealm, "Warning LifetimeExceedsRealm"},
		"namespace no longer allowed": {change{
			func() {
				testinstall.Change(t, install, team, func(n *corev1.Namespace) { n.Labels["realm"] = "other" })
			},
			func() { testinstall.Change(t, install, team, func(n *corev1.Namespace) { n.Labels["realm"] = "acme" }) },
		}, v1alpha1.ReasonNamespaceNotAllowed, "Warning NamespaceNotAllowed"},
	} {
		t.Run(name, func(t *testing.T) {
			token := install.AccessToken(t, consumer)
			install.AwaitValid(t, realm.Name, token, true)
			test.end()
			install.AwaitTokens(t, consumer, false)
			install.AwaitValid(t, realm.Name, token, false)
			install.AwaitReady(t, c, metav1.ConditionFalse, test.wantReason)
			events.goesOn(t, test.wantEvent)
			test.undo()
			install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			events.goesOn(t, "Normal Ready")
			install.AwaitTokens(t, consumer, true)
			install.AwaitValid(t, realm.Name, token, true)
		})
	}

	for name, revoke := range map[string]func(at time.Time){
		"client's tokens revoked": func(at time.Time) {
			testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.TokensValidAfter = &metav1.Time{Time: at} })
		},
		"realm's tokens revoked": func(at time.Time) {
			testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) { r.Spec.TokensValidAfter = &metav1.Time{Time: at} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			token := install.AccessToken(t, consumer)
			revoke(time.Now().Add(time.Second)) // later than the second that the token is of
			install.AwaitValid(t, realm.Name, token, false)
			install.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady) // it gets others
			testinstall.Eventually(t, "a token of a later second", func() error {
				if later := install.AccessToken(t, consumer); !install.Valid(t, realm.Name, later) {
					return errorf("it is refused")
				}
				return nil
			})
			install.AwaitValid(t, realm.Name, token, false)
		})
	}

	t.Run("deleted and made again", func(t *testing.T) {
		token := install.AccessToken(t, consumer)
		install.Delete(t, c)
		install.AwaitTokens(t, consumer, false)
		install.AwaitValid(t, realm.Name, token, false)
		// Tokens and objects are dated by the second: one of this second would be the namesake's.
		deleted := time.Now().Unix()
		testinstall.Eventually(t, "another second", func() error {
			if time.Now().Unix() == deleted {
				return errorf("it is the same")
			}
			return nil
		})
		again := testinstall.ApiClient(c.Namespace, c.Name, "acme")
		install.Create(t, again)
		converges(t, install, again)
		install.AwaitTokens(t, consumer, false) // neither the old secret nor the old token revives
		install.AwaitValid(t, realm.Name, token, false)
		noRecord(t, install, record.SecretName(record.KindClient, c.UID))
		events.goesOn(t)
		c, events = again, tellingOf(t, install, again)
	})
	t.Run("realm deleted and made again", func(t *testing.T) {
		old := install.ConsumerSecret(t, c)
		token := install.AccessToken(t, old)
		install.Delete(t, realm)
		s := install.Servers()[0]
		testinstall.Eventually(t, "the realm to be unknown", func() error {
			a, err := testinstall.RequestToken(t, s, s.Client(t), old)
			if err == nil && a.Status != http.StatusNotFound {
				err = errorf("the answer is %d", a.Status)
			}
			return err
		})
		install.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)
		events.goesOn(t, "Warning RealmNotFound")
		noRecord(t, install, record.SecretName(record.KindRealm, realm.UID))

		again := testinstall.Realm("acme")
		install.Create(t, again)
		converges(t, install, c)
		events.goesOn(t, "Normal Ready")
		install.AwaitTokens(t, old, false)
		install.AwaitValid(t, realm.Name, token, false)
	})
}

func noRecord(t *testing.T, install *testinstall.Installation, name string) {
	t.Helper()
	testinstall.Eventually(t, "record "+name+" to be gone", func() error {
		err := install.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: install.Namespace, Name: name}, &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errorf("reading it gives %v", err)
	})
}
