package clients_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Each change that revokes a client's access takes effect at every token server. The status and a
// single Event report it. If the change is reverted, the same secret is valid again.
func testRevokeAndRestoreAccess(t *testing.T, inst *install.Installation) {
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-", Labels: map[string]string{"realm": "revocation"}}}
	inst.Create(t, team)
	realm := install.Realm("revocation", func(r *v1alpha1.Realm) {
		r.Spec.Scopes = []string{"read", "write"}
		r.Spec.Audiences = []string{"orders", "billing"}
		r.Spec.Grants[0].Namespaces = v1alpha1.GrantedNamespaces{
			Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"realm": "revocation"}},
		}
	})
	c := install.ApiClient(team.Name, "billing", "revocation", func(c *v1alpha1.ApiClient) {
		c.Spec.Scopes = []string{"write"}
		c.Spec.Audiences = []string{"billing"}
		c.Spec.TokenLifetime = &v1alpha1.Duration{Duration: 30 * time.Minute}
	})
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	credentials, events := inst.CredentialsSecret(t, c), eventsOf(t, inst, c)

	type change struct{ revoke, restore func() }
	onClient := func(revoke, restore func(*v1alpha1.ApiClient)) change {
		return change{func() { install.Change(t, inst, c, revoke) }, func() { install.Change(t, inst, c, restore) }}
	}
	onRealm := func(revoke, restore func(*v1alpha1.Realm)) change {
		return change{func() { install.Change(t, inst, realm, revoke) }, func() { install.Change(t, inst, realm, restore) }}
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
		), v1alpha1.ReasonRealmSuspended, "Normal RealmSuspended"},
		"scope withdrawn": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read"} },
			func(r *v1alpha1.Realm) { r.Spec.Scopes = []string{"read", "write"} },
		), v1alpha1.ReasonScopeNotInRealm, "Warning ScopeNotInRealm"},
		"audience withdrawn": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.Audiences = []string{"orders"} },
			func(r *v1alpha1.Realm) { r.Spec.Audiences = []string{"orders", "billing"} },
		), v1alpha1.ReasonAudienceNotInRealm, "Warning AudienceNotInRealm"},
		"realm's lifetime below the client's": {onRealm(
			func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = &v1alpha1.Duration{Duration: time.Minute} },
			func(r *v1alpha1.Realm) { r.Spec.TokenLifetime = nil },
		), v1alpha1.ReasonLifetimeExceedsRealm, "Warning LifetimeExceedsRealm"},
		"namespace no longer allowed": {change{
			func() {
				install.Change(t, inst, team, func(n *corev1.Namespace) { n.Labels["realm"] = "other" })
			},
			func() { install.Change(t, inst, team, func(n *corev1.Namespace) { n.Labels["realm"] = "revocation" }) },
		}, v1alpha1.ReasonNamespaceNotAllowed, "Warning NamespaceNotAllowed"},
	} {
		t.Run(name, func(t *testing.T) {
			token := inst.AccessToken(t, credentials)
			inst.AwaitValid(t, realm.Name, token, true)
			test.revoke()
			inst.AwaitTokens(t, credentials, false)
			inst.AwaitValid(t, realm.Name, token, false)
			inst.AwaitReady(t, c, metav1.ConditionFalse, test.wantReason)
			events.expectMore(t, test.wantEvent)
			test.restore()
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			events.expectMore(t, "Normal Ready")
			inst.AwaitTokens(t, credentials, true)
			inst.AwaitValid(t, realm.Name, token, true)
		})
	}

	for name, revoke := range map[string]func(at time.Time){
		"client's tokens revoked": func(at time.Time) {
			install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.TokensValidAfter = &metav1.Time{Time: at} })
		},
		"realm's tokens revoked": func(at time.Time) {
			install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.TokensValidAfter = &metav1.Time{Time: at} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			token := inst.AccessToken(t, credentials)
			revoke(time.Now().Add(time.Second)) // after the second in which the token was issued
			inst.AwaitValid(t, realm.Name, token, false)
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1alpha1.ReasonReady) // it can get new tokens
			install.Eventually(t, "a token that is issued later", func() error {
				if later := inst.AccessToken(t, credentials); !inst.Valid(t, realm.Name, later) {
					return fmt.Errorf("it is rejected")
				}
				return nil
			})
			inst.AwaitValid(t, realm.Name, token, false)
		})
	}

	t.Run("client deleted and created again", func(t *testing.T) {
		token := inst.AccessToken(t, credentials)
		inst.Delete(t, c)
		inst.AwaitTokens(t, credentials, false)
		inst.AwaitValid(t, realm.Name, token, false)
		again := install.ApiClient(c.Namespace, c.Name, "revocation")
		inst.Create(t, again)
		scenario.AwaitUsable(t, inst, again)
		inst.AwaitTokens(t, credentials, false) // neither the old secret nor the old token becomes valid again
		inst.AwaitValid(t, realm.Name, token, false)
		events.expectMore(t)
		c, events = again, eventsOf(t, inst, again)
	})
	t.Run("realm deleted and created again", func(t *testing.T) {
		old := inst.CredentialsSecret(t, c)
		token := inst.AccessToken(t, old)
		inst.Delete(t, realm)
		s := inst.Servers()[0]
		install.Eventually(t, "the realm to be deleted", func() error {
			a, err := install.RequestToken(t, s, s.Client(t), old)
			if err == nil && a.Status != http.StatusNotFound {
				err = fmt.Errorf("the status is %d, want 404", a.Status)
			}
			return err
		})
		inst.AwaitReady(t, c, metav1.ConditionFalse, v1alpha1.ReasonRealmNotFound)
		events.expectMore(t, "Warning RealmNotFound")
		awaitNoRecord(t, inst, record.RealmSecretName(realm.UID))

		again := install.Realm("revocation")
		inst.Create(t, again)
		scenario.AwaitUsable(t, inst, c)
		events.expectMore(t, "Normal Ready")
		inst.AwaitTokens(t, old, false)
		inst.AwaitValid(t, realm.Name, token, false)
	})
}

// awaitNoRecord waits until a record is deleted.
func awaitNoRecord(t *testing.T, inst *install.Installation, name string) {
	t.Helper()
	install.Eventually(t, "record "+name+" to be deleted", func() error {
		return install.NotFound(inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: name}, &corev1.Secret{}))
	})
}
