package portal

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// row is a client in a list.
type row struct {
	Namespace, Name, Realm, ClientID, Description string
	State                                         State
	ManagedBy                                     string
	// LastUsed is nil if the client has never been used.
	LastUsed *metav1.Time
	// Expires is when the client or the last of its credentials expires. It is nil if the client
	// doesn't expire.
	Expires *metav1.Time
	// Rotation is when the operator rotates the secret. It is nil if no rotation is scheduled.
	Rotation *metav1.Time
	// Unused is the number of credentials that have not been used for Options.StaleAfter.
	Unused int
	// ExpiresSoon is set if Expires is within expiresSoon.
	ExpiresSoon bool
	// OldSecretInUse is set if a rotation waits because a workload still uses the old secret.
	OldSecretInUse bool
}

// expiresSoon is how long before its expiration a client needs attention.
const expiresSoon = 30 * day

// newRow returns the row of a client.
func (p *portal) newRow(c *v1beta1.ApiClient, now time.Time) row {
	managed, _ := gitops.ManagerOf(c)
	r := row{
		Namespace: c.Namespace, Name: c.Name, Realm: c.Spec.RealmRef.Name, ClientID: c.EffectiveClientID(),
		Description: c.Spec.Description, State: stateOf(c.Status.Conditions, c.Generation), ManagedBy: managed.Tool,
		LastUsed: c.Status.LastUsedTime, Expires: expiryOf(c), Rotation: c.Status.NextRotationTime,
		OldSecretInUse: meta.IsStatusConditionTrue(c.Status.Conditions, string(v1beta1.ConditionOldSecretInUse)),
	}
	for _, credential := range c.Status.Credentials {
		if p.isUnused(c, &credential, now) {
			r.Unused++
		}
	}
	r.ExpiresSoon = r.Expires != nil && r.State.Name != StateExpired && r.Expires.Sub(now) <= expiresSoon
	return r
}

// expiryOf returns when the client or the last of its credentials expires, whichever is earlier. It
// returns nil if neither of them expires.
func expiryOf(c *v1beta1.ApiClient) *metav1.Time {
	var last *metav1.Time
	for _, credential := range c.Status.Credentials {
		if credential.ExpirationTime == nil {
			return c.Spec.ExpirationTime
		}
		if last == nil || last.Before(credential.ExpirationTime) {
			last = credential.ExpirationTime
		}
	}
	if last != nil && (c.Spec.ExpirationTime == nil || last.Before(c.Spec.ExpirationTime)) {
		return last
	}
	return c.Spec.ExpirationTime
}
