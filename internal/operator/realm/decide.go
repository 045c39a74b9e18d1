package realm

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/claims"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/issuerkeys"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// decision is the desired state of a Realm.
type decision struct {
	accepted condition.Result
	// unreadable is the reason why the record can't be read, or nil. An unreadable record is not
	// changed, and token servers keep serving its last known good version.
	unreadable *condition.Result
	// record is the desired record. If nil, no record is created or changed.
	record *record.Realm
	// encryption describes the keys in the record.
	encryption encryption
	// generate is the algorithm of the new key that the realm needs from the KMS plugin; empty if it
	// needs none.
	generate signingkey.Algorithm
	// retryAfter is the time after which the realm asks the KMS plugin again; zero if it needn't.
	retryAfter time.Duration
	// lifetime is the token lifetime.
	lifetime time.Duration
	// policy is the realm's key policy.
	policy signingkey.Policy
	// fetch lists the trusted issuers whose keys are fetched, and issuers the status of all.
	fetch   []issuerkeys.Issuer
	issuers []v1alpha1.TrustedIssuerStatus
	// recorded are the keys in the current record.
	recorded []signingkey.Key
	// onlyKeys means that only keys in the record change: those of the realm or of its issuers.
	onlyKeys bool
	// rotates means that the active key changes.
	rotates bool
	// next is the time of the next reconcile. Zero means that only an object change triggers a
	// reconcile.
	next time.Time
	// nextRotation is the time at which the next key becomes active. Zero means unknown.
	nextRotation time.Time
}

// decide returns the desired state for the observed state. It is a pure function. It fails only if
// generating a key fails.
func decide(seen observed, instance *config.Instance, now time.Time, random io.Reader) (decision, error) {
	realm := seen.realm
	d := decision{
		accepted: accepted(realm, instance),
		lifetime: instance.TokenLifetime((*metav1.Duration)(realm.Spec.TokenLifetime)),
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
	d.recorded = current.Keys
	keys := current.Keys
	d.encryption = encryptionOf(seen.mode, keys, seen.undecrypted)
	if d.accepted.Status != "True" {
		if seen.record != nil {
			current.Disabled, current.Keys = true, keys
			d.record = &current
		}
		return d, nil
	}

	if d.acknowledged(seen.state) {
		keys = signingkey.Acknowledge(now, keys)
	}
	planned, next, err := signingkey.PlanWith(now, keys, d.policy, d.generator(&seen, random))
	d.encryption.waiting = d.generate != ""
	if errors.Is(err, signingkey.ErrLater) {
		return d, nil // the realm gets its first key when the plugin has encrypted it
	}
	if err != nil {
		return decision{}, err
	}
	keys, d.next = planned, next
	d.nextRotation = signingkey.NextRotation(keys, d.policy)
	trusted, others := supportedIssuers(realm, instance)
	d.record = &record.Realm{
		Name:                 realm.Name,
		Issuer:               instance.Issuer(realm.Name),
		Disabled:             realm.Spec.Suspend,
		TokenLifetimeSeconds: int64(d.lifetime / time.Second),
		ClusterIssuerURL:     instance.ClusterURL() + "/" + realm.Name,
		Scopes:               slices.Sorted(slices.Values(realm.Spec.Scopes)),
		Audiences:            slices.Sorted(slices.Values(realm.Spec.Audiences)),
		Issuers:              recordedIssuers(trusted, seen, current, instance),
		TokensPerSecond:      realm.Spec.Limits.TokensPerSecond,
		KeyCacheSeconds:      int64(min(oauth.MaxKeyCache, d.policy.PublishAhead/2) / time.Second),
		Keys:                 keys,
		Restored:             current.Restored,
	}
	if realm.Spec.TokensValidAfter != nil {
		d.record.TokensValidAfter = realm.Spec.TokensValidAfter.UTC()
	}
	if r := current.Restored; r != nil && d.record.TokensValidAfter.Before(r.TokensValidAfter) {
		d.record.TokensValidAfter = r.TokensValidAfter
	}
	d.fetch = issuersToFetch(trusted, d.record.Issuers)
	d.issuers = append(issuerStatus(realm, d.record.Issuers, current.Issuers, seen.fetched), others...)
	if seen.record != nil {
		d.onlyKeys = sameButKeys(current, *d.record)
		d.rotates = signingkey.ActiveID(current.Keys) != signingkey.ActiveID(keys)
	}
	return d, nil
}

// generator returns the source of new keys. It returns signingkey.ErrLater for a key that the KMS plugin
// must encrypt until there is one, and while the configuration of the plugin is missing.
func (d *decision) generator(seen *observed, random io.Reader) signingkey.Generator {
	return func(algorithm signingkey.Algorithm, now time.Time) (signingkey.Key, error) {
		switch {
		case seen.mode == sealing.Off && d.encryption.sealed > 0:
			return signingkey.Key{}, signingkey.ErrLater
		case seen.mode != sealing.Encrypt:
			return signingkey.Generate(algorithm, now, random)
		case seen.generated == nil || seen.generated.Algorithm != algorithm:
			d.generate = algorithm
			return signingkey.Key{}, signingkey.ErrLater
		}
		key := *seen.generated
		key.CreatedAt = now
		return key, nil
	}
}

// acknowledged reports whether every live token server publishes the recorded keys and can sign with
// the next one.
func (d decision) acknowledged(state acknowledgement.State) bool {
	return state == acknowledgement.Acknowledged && len(d.encryption.undecrypted) == 0
}

// policyOf returns the Realm's key policy with defaults applied and its intervals scaled by
// testing.speedUp.
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
	a.Issuers, b.Issuers = withoutIssuerKeys(a.Issuers), withoutIssuerKeys(b.Issuers)
	return record.Equal(a, b)
}

// accepted checks what the schema can't, such as the instance's limits.
func accepted(realm *v1alpha1.Realm, instance *config.Instance) condition.Result {
	lifetime, maximum := instance.TokenLifetime((*metav1.Duration)(realm.Spec.TokenLifetime)), instance.Security.MaximumTokenLifetime.Duration
	if lifetime > maximum {
		return condition.NotReady(v1alpha1.ReasonLifetimeExceedsInstanceMaximum, fmt.Sprintf(
			"spec.tokenLifetime %s exceeds the instance maximum of %s, so clients cannot get tokens. Shorten it, or ask your administrator to raise security.maximumTokenLifetime.",
			lifetime, maximum))
	}
	if result := claimsWithinSize(realm); result != nil {
		return *result
	}
	return condition.Result{Status: "True", Reason: v1alpha1.ReasonAccepted, Message: "The spec is valid." + claims.Reserved(realm.Spec.Claims)}
}

func keysUnreadable(err error) *condition.Result {
	r := condition.NotReady(v1alpha1.ReasonKeysUnreadable, fmt.Sprintf(
		"Failed to read the signing keys: %v. Token servers keep using the last known good keys. Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret to generate new keys.", err))
	return &r
}
