package clients_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Each change that revokes a client's access takes effect at every token server. The status and an
// Event report it. If the change is reverted, the same secret is valid again.
func testRevokeAndRestoreAccess(t *testing.T, inst *install.Installation) {
	realm := install.Realm("revocation", func(r *v1beta1.Realm) { r.Spec.Scopes = []string{"read", "write"} })
	c := install.ApiClient(inst.Env.Namespace(t), "billing", "revocation", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"write"} })
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	credentials := inst.CredentialsSecret(t, c)

	type change struct{ revoke, restore func() }
	onClient := func(revoke, restore func(*v1beta1.ApiClient)) change {
		return change{func() { install.Change(t, inst, c, revoke) }, func() { install.Change(t, inst, c, restore) }}
	}
	onRealm := func(revoke, restore func(*v1beta1.Realm)) change {
		return change{func() { install.Change(t, inst, realm, revoke) }, func() { install.Change(t, inst, realm, restore) }}
	}
	for name, test := range map[string]struct {
		change
		wantReason v1beta1.ConditionReason
		wantEvent  string // its type
	}{
		"client suspended": {onClient(
			func(c *v1beta1.ApiClient) { c.Spec.Suspend = true },
			func(c *v1beta1.ApiClient) { c.Spec.Suspend = false },
		), v1beta1.ReasonSuspended, "Normal"},
		"client expired": {onClient(
			func(c *v1beta1.ApiClient) { c.Spec.ExpirationTime = &metav1.Time{Time: time.Now().Add(-time.Minute)} },
			func(c *v1beta1.ApiClient) { c.Spec.ExpirationTime = nil },
		), v1beta1.ReasonExpired, "Warning"},
		"realm suspended": {onRealm(
			func(r *v1beta1.Realm) { r.Spec.Suspend = true },
			func(r *v1beta1.Realm) { r.Spec.Suspend = false },
		), v1beta1.ReasonRealmSuspended, "Normal"},
		"scope withdrawn": {onRealm(
			func(r *v1beta1.Realm) { r.Spec.Scopes = []string{"read"} },
			func(r *v1beta1.Realm) { r.Spec.Scopes = []string{"read", "write"} },
		), v1beta1.ReasonScopeNotInRealm, "Warning"},
	} {
		t.Run(name, func(t *testing.T) {
			token := inst.AccessToken(t, credentials)
			inst.AwaitValid(t, realm.Name, token, true)
			test.revoke()
			inst.AwaitTokens(t, credentials, false)
			inst.AwaitValid(t, realm.Name, token, false)
			inst.AwaitReady(t, c, metav1.ConditionFalse, test.wantReason)
			inst.AwaitEvent(t, c, test.wantEvent, v1beta1.EventReason(test.wantReason))
			test.restore()
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
			inst.AwaitTokens(t, credentials, true)
			inst.AwaitValid(t, realm.Name, token, true)
		})
	}

	for name, revoke := range map[string]func(at time.Time){
		"client's tokens revoked": func(at time.Time) {
			install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.TokensValidAfterTime = &metav1.Time{Time: at} })
		},
		"realm's tokens revoked": func(at time.Time) {
			install.Change(t, inst, realm, func(r *v1beta1.Realm) { r.Spec.TokensValidAfterTime = &metav1.Time{Time: at} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			token := inst.AccessToken(t, credentials)
			revoke(time.Now().Add(time.Second)) // after the second in which the token was issued
			inst.AwaitValid(t, realm.Name, token, false)
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady) // it can get new tokens
			install.Eventually(t, "a token that is issued later", func() error {
				if later := inst.AccessToken(t, credentials); !inst.Valid(t, realm.Name, later) {
					return fmt.Errorf("it is rejected")
				}
				return nil
			})
			inst.AwaitValid(t, realm.Name, token, false)
		})
	}
}
