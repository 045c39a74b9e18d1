package realm

import (
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// decision is what a Realm comes to.
type decision struct {
	accepted condition.Result
	// unreadable says why the record can't be used; then it is left as it is, and token
	// servers go on with its last good state.
	unreadable *condition.Result
	// record is what the record shall be; nil: it stays as it is, also when there is none.
	record *record.Realm
	// lifetime is how long tokens are valid.
	lifetime time.Duration
	// policy is what the realm wants of its keys.
	policy signingkey.Policy
	// onlyKeys means that the record differs at most in its keys from what it was.
	onlyKeys bool
	// rotates means that another key signs than before.
	rotates bool
	// next is when to decide again; zero: when something changes.
	next time.Time
	// nextRotation is when the next key begins to sign; zero: that can't be said.
	nextRotation time.Time
}

// decide is a pure function of what was read, the time and the random source.
//
// The error is that of making a key.
func decide(seen observed, instance *config.Instance, now time.Time, random io.Reader) (decision, error) {
	realm := seen.realm
	d := decision{
		accepted: accepted(realm, instance),
		lifetime: instance.TokenLifetime(realm.Spec.TokenLifetime),
	}
	d.policy = policyOf(realm, instance, d.lifetime)
	var current record.Realm
	if seen.record != nil {
		var err error
		if current, err = record.ReadRealm(seen.record); err != nil {
			d.unreadable = keysUnreadable(err)
			return d, nil
		}
	}
	if d.accepted.Status != "True" {
		if seen.record != nil {
			current.Disabled = true
			d.record = &current
		}
		return d, nil
	}

	keys := current.Keys
	if seen.state == acknowledgement.Acknowledged {
		keys = signingkey.Acknowledge(now, keys)
	}
	keys, next, err := signingkey.Plan(now, keys, d.policy, random)
	if err != nil {
		return decision{}, err
	}
	d.next = next
	d.nextRotation = signingkey.NextRotation(keys, d.policy)
	d.record = &record.Realm{
		Name:                 realm.Name,
		Issuer:               instance.Issuer(realm.Name),
		Disabled:             realm.Spec.Suspend,
		TokenLifetimeSeconds: int64(d.lifetime / time.Second),
		Audiences:            slices.Sorted(slices.Values(realm.Spec.Audiences)),
		Scopes:               slices.Sorted(slices.Values(realm.Spec.Scopes)),
		TokensPerSecond:      ptr.Deref(realm.Spec.Limits.TokensPerSecond, 0),
		KeyCacheSeconds:      int64(min(oauth.MaxKeyCache, d.policy.PublishAhead/2) / time.Second),
		Keys:                 keys,
	}
	if realm.Spec.TokensValidAfter != nil {
		d.record.TokensValidAfter = realm.Spec.TokensValidAfter.UTC()
	}
	if seen.record != nil {
		d.onlyKeys = sameButKeys(current, *d.record)
		d.rotates = signingkey.ActiveID(current.Keys) != signingkey.ActiveID(keys)
	}
	return d, nil
}

// policyOf is what the Realm wants of its keys, with what it leaves out, at the pace of
// the instance.
func policyOf(realm *v1alpha1.Realm, instance *config.Instance, lifetime time.Duration) signingkey.Policy {
	signing := &realm.Spec.Signing
	policy := signingkey.Policy{
		Algorithm:        signingkey.Algorithm(signing.EffectiveAlgorithm()),
		RotationInterval: instance.Scaled(signing.EffectiveRotationInterval()),
		PublishAhead:     instance.Scaled(signing.EffectivePublishAhead()),
		TokenLifetime:    lifetime,
		Skew:             instance.Scaled(signingkey.Skew),
	}
	if signing.RotateAfter != nil {
		policy.RotateAfter = signing.RotateAfter.Time
	}
	return policy
}

func sameButKeys(a, b record.Realm) bool {
	a.Keys, b.Keys = nil, nil
	return record.Equal(a, b)
}

// accepted checks what the schema can't: the instance's bounds.
func accepted(realm *v1alpha1.Realm, instance *config.Instance) condition.Result {
	lifetime, longest := instance.TokenLifetime(realm.Spec.TokenLifetime), instance.Security.MaximumTokenLifetime.Duration
	if lifetime > longest {
		return condition.NotReady(v1alpha1.ReasonLifetimeExceedsInstanceMaximum, fmt.Sprintf(
			"spec.tokenLifetime %s is longer than %s, the maximum of this instance. Shorten it, or have security.maximumTokenLifetime raised; no token is issued until then.",
			lifetime, longest))
	}
	return condition.Result{Status: "True", Reason: v1alpha1.ReasonAccepted, Message: "The spec is valid."}
}

func keysUnreadable(err error) *condition.Result {
	v := condition.NotReady(v1alpha1.ReasonKeysUnreadable, fmt.Sprintf(
		"The signing keys can't be read: %v. Token servers go on with the last good ones. Restore the Secret from a backup, or delete it to have new keys made.", err))
	return &v
}
