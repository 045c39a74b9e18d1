package realm

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// decision is the desired state of a Realm.
type decision struct {
	accepted condition.Result
	// inconclusive means that the observed Realm is older than the one that its record implements.
	inconclusive bool
	// needsConfirmation means that the keys take a step that can't be undone, which depends on every token server.
	needsConfirmation bool
	// blocked is the reason why no record is written, or nil: the record can't be read, and token servers
	// keep serving its last known good version, or it is gone together with the realm's keys.
	blocked *condition.Result
	// record is the desired record. If nil, no record is created or changed.
	record *record.Realm
	// encryption describes the keys in the record.
	encryption encryption
	// generate is the algorithm of the new key that the realm needs from the Sealer; empty if it needs
	// none.
	generate signingkey.Algorithm
	// retryAfter is the time after which the realm asks the Sealer again; zero if it needn't.
	retryAfter time.Duration
	// lifetime is the token lifetime.
	lifetime time.Duration
	// policy is the realm's key policy.
	policy signingkey.Policy
	// fetch lists the trusted issuers whose keys are fetched, and issuers the status of all.
	fetch   []trustedissuers.Issuer
	issuers []v1beta1.TrustedIssuerStatus
	// clients is the number of ApiClients that refer to the Realm.
	clients int32
	// exchanges is the result for the ExchangesResolved condition; nil without exchanges.
	exchanges *condition.Result
	// recorded are the keys in the current record.
	recorded []signingkey.Key
	// unsigned are the names of the live token servers that have not decrypted the Active key.
	unsigned []string
	// rotates means that the active key changes.
	rotates bool
	// next is the time of the next reconcile. Zero means that only an object change triggers a
	// reconcile.
	next time.Time
	// nextList is the time of the next change of the status lists; zero if there is none.
	nextList time.Time
	// nextRotation is the time at which the next key becomes active. Zero means unknown.
	nextRotation time.Time
}

// decide returns the desired state for the observed state. It is a pure function. It fails only if
// generating a key fails.
func decide(seen observed, instance *config.Instance, now time.Time, random io.Reader) (decision, error) {
	realm := seen.realm
	d := decision{
		accepted: accepted(realm, instance),
		clients:  seen.clients,
		lifetime: instance.TokenLifetime((*metav1.Duration)(realm.Spec.TokenLifetime)),
	}
	d.policy = policyOf(realm, instance, d.lifetime)
	if len(realm.Spec.Exchanges) > 0 {
		d.exchanges = new(exchangesResolved(realm, instance.Issuer(realm.Name), seen.unknownClients))
	}
	var current record.Realm
	if seen.record != nil {
		var err error
		if current, err = record.ReadRealm(seen.record); err != nil {
			d.blocked = keysUnreadable(realm, err)
			return d, nil
		}
		current.Keys = signingkey.Until(now, current.Keys)
	} else if d.blocked, d.next = keysMissing(realm, now); d.blocked != nil {
		return d, nil
	}
	if older(&seen, &current) {
		d.inconclusive = true
		return d, nil
	}
	d.recorded = current.Keys
	d.encryption = encryptionOf(seen.mode, current.Keys, seen.undecrypted)
	if activeIsSealed(current.Keys) {
		d.unsigned = seen.unsigned
	}
	if d.accepted.Status != "True" {
		if seen.record != nil {
			disabled := current
			disabled.Disabled = true
			setBasis(&seen, &current, &disabled)
			d.record = &disabled
		}
		return d, nil
	}

	keys, err := d.plan(&seen, now, random)
	switch {
	case errors.Is(err, signingkey.ErrLater) && seen.record == nil:
		return d, nil // the realm gets its first key from the Sealer
	case errors.Is(err, signingkey.ErrLater):
		keys = current.Keys
	case err != nil:
		return decision{}, err
	}
	d.nextRotation = signingkey.NextRotation(keys, d.policy)
	trusted, others := supportedIssuers(realm, instance)
	d.record = d.newRecord(&seen, &current, keys, trusted, instance)
	d.fetch = issuersToFetch(trusted, d.record.Issuers)
	d.issuers = append(issuerStatus(realm, d.record.Issuers, current.Issuers, seen.fetched), others...)
	active := signingkey.ActiveID(current.Keys)
	d.rotates = active != "" && active != signingkey.ActiveID(keys)
	d.record.StatusLists, d.nextList = statusLists(&realm.Spec.StatusList, current.StatusLists, current.Keys, d.record.TokensValidAfter, seen.rolledBackAt, d.policy.Skew, now)
	setBasis(&seen, &current, d.record)
	return d, nil
}

// newRecord returns the record of an accepted Realm with the given keys.
func (d *decision) newRecord(seen *observed, current *record.Realm, keys []signingkey.Key, trusted []v1beta1.TrustedIssuer, instance *config.Instance) *record.Realm {
	realm := seen.realm
	body := &record.Realm{
		Name:                 realm.Name,
		Issuer:               instance.Issuer(realm.Name),
		Disabled:             realm.Spec.Suspend,
		Restrictions:         current.Restrictions.Unknown(),
		TokenLifetimeSeconds: int64(d.lifetime / time.Second),
		ClusterIssuerURL:     instance.ClusterURL() + "/" + realm.Name,
		Scopes:               slices.Sorted(slices.Values(realm.Spec.Scopes)),
		Audiences:            slices.Sorted(slices.Values(realm.Spec.Audiences)),
		Issuers:              recordedIssuers(trusted, *seen, *current, instance),
		Exchanges:            recordedExchanges(realm, instance.Issuer(realm.Name)),
		TokensPerSecond:      realm.Spec.Limits.TokensPerSecondPerServer,
		KeyCacheSeconds:      int64(min(oauth.MaxKeyCache, d.policy.PublishAhead/2) / time.Second),
		Keys:                 keys,
		Restored:             current.Restored,
	}
	if realm.Spec.TokensValidAfterTime != nil {
		body.TokensValidAfter = realm.Spec.TokensValidAfterTime.UTC()
	}
	if r := current.Restored; r != nil && body.TokensValidAfter.Before(r.TokensValidAfter) {
		body.TokensValidAfter = r.TokensValidAfter
	}
	return body
}

// plan returns the keys that the realm must have now. A step that depends on the token servers waits until
// each one serves the record. A Pending key doesn't count as published until each one can sign with it.
func (d *decision) plan(seen *observed, now time.Time, random io.Reader) ([]signingkey.Key, error) {
	keys := d.recorded
	policy := d.policy
	policy.Unconfirmed = seen.unconfirmed || seen.state != acknowledgement.Acknowledged || len(d.encryption.undecrypted) > 0
	if !policy.Unconfirmed {
		keys = signingkey.Acknowledge(now, keys)
	}
	planned, next, err := signingkey.PlanWith(now, keys, policy, d.generator(seen, random))
	d.encryption.waiting = d.generate != "" && seen.mode == sealing.Encrypt
	d.next, d.needsConfirmation = next, !policy.Unconfirmed && mustConfirm(d.recorded, planned)
	return planned, err
}

// mustConfirm reports whether a step from one state of the keys to another can't be undone and depends on
// every token server. A first key that becomes Active because it has waited for long enough doesn't.
func mustConfirm(before, after []signingkey.Key) bool {
	return slices.ContainsFunc(after, func(k signingkey.Key) bool {
		i := slices.IndexFunc(before, func(b signingkey.Key) bool { return b.ID == k.ID })
		return i >= 0 && (!k.PublishedAt.Equal(before[i].PublishedAt) || !k.RetiredAt.Equal(before[i].RetiredAt) ||
			k.State == signingkey.Active && before[i].State == signingkey.Pending && !k.PublishedAt.IsZero())
	})
}

// activeIsSealed reports whether the Active key is encrypted.
func activeIsSealed(keys []signingkey.Key) bool {
	return slices.ContainsFunc(keys, func(k signingkey.Key) bool { return k.State == signingkey.Active && k.Sealed() != nil })
}

// generator returns the source of new keys. It returns signingkey.ErrLater for a key from the Sealer until
// there is one, and while the configuration of the KMS plugin is missing.
func (d *decision) generator(seen *observed, random io.Reader) signingkey.Generator {
	return func(algorithm signingkey.Algorithm, now time.Time) (signingkey.Key, error) {
		switch {
		case seen.mode == sealing.Off && d.encryption.sealed > 0:
			return signingkey.Key{}, signingkey.ErrLater
		case !seen.mode.Slow(algorithm):
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

// policyOf returns the Realm's key policy with defaults applied and its intervals scaled by
// testing.speedUp.
func policyOf(realm *v1beta1.Realm, instance *config.Instance, lifetime time.Duration) signingkey.Policy {
	signing := &realm.Spec.Signing
	policy := signingkey.Policy{
		Algorithm:        signingkey.Algorithm(signing.EffectiveAlgorithm()),
		RotationInterval: instance.Scaled(signing.EffectiveRotationInterval()),
		PublishAhead:     instance.Scaled(signing.EffectivePublishAhead()),
		TokenLifetime:    lifetime,
		Skew:             instance.Scaled(signingkey.Skew),
	}
	if signing.RotationRequestTime != nil {
		policy.RotateAfter = signing.RotationRequestTime.Time
	}
	return policy
}

// accepted checks what the schema can't, such as the instance's limits.
func accepted(realm *v1beta1.Realm, instance *config.Instance) condition.Result {
	lifetime, maximum := instance.TokenLifetime((*metav1.Duration)(realm.Spec.TokenLifetime)), instance.Security.MaximumTokenLifetime.Duration
	if lifetime > maximum {
		return condition.NotReady(v1beta1.ReasonLifetimeExceedsInstanceMaximum, fmt.Sprintf(
			"spec.tokenLifetime %s exceeds the instance maximum of %s, so clients cannot get tokens. Shorten it, or ask your administrator to raise security.maximumTokenLifetime.",
			lifetime, maximum))
	}
	if result := claimsWithinSize(realm); result != nil {
		return *result
	}
	return condition.Result{Status: "True", Reason: v1beta1.ReasonAccepted, Message: "The spec is valid." + record.DescribeReservedClaims(realm.Spec.Claims)}
}

// keysMissing returns why a realm without a record gets no keys, and when that ends without a change of the
// Realm; nil and zero for a new realm. If the status lists keys, they were lost, and a user may have a
// backup. The realm gets other keys only at the time of a rotation that replaces every one of them. No key was
// created in the future, even if the status says so, and no rotation could replace it.
func keysMissing(realm *v1beta1.Realm, now time.Time) (blocked *condition.Result, until time.Time) {
	if len(realm.Status.SigningKeys) == 0 {
		return nil, time.Time{}
	}
	requested := realm.Spec.Signing.RotationRequestTime
	replaced := requested != nil && !slices.ContainsFunc(realm.Status.SigningKeys, func(k v1beta1.SigningKeyStatus) bool {
		return !requested.After(k.CreationTime.Time) && !k.CreationTime.After(now.Add(signingkey.Skew))
	})
	switch {
	case replaced && !requested.After(now):
		return nil, time.Time{}
	case replaced:
		until = requested.Time
	}
	r := condition.NotReady(v1beta1.ReasonKeysMissing, fmt.Sprintf(
		"The Secret %s in the records namespace, which contained the signing keys, does not exist. Clients cannot get tokens, and all existing tokens are rejected. Run \"kubectl realmkeeper restore\" with a backup. Without a backup, request new keys with \"kubectl realmkeeper rotate realm/%s --wait=false\", or set spec.signing.rotationRequestTime to the current time, which must be later than the creation of every key in status.signingKeys. All existing tokens then become invalid permanently.",
		record.RealmSecretName(realm.UID), realm.Name))
	return &r, until
}

func keysUnreadable(realm *v1beta1.Realm, err error) *condition.Result {
	r := condition.NotReady(v1beta1.ReasonKeysUnreadable, fmt.Sprintf(
		"Failed to read the signing keys: %v. Token servers keep using the last known good keys. Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret, and request new keys with \"kubectl realmkeeper rotate realm/%s --wait=false\".", err, realm.Name))
	return &r
}
