package realm

import (
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// decide returns the desired state for the observed state, or what it lacks to decide. It is a pure function. It
// fails only if a key can't be generated, or the record can't be encoded.
func decide(seen *observed, instance *config.Instance, now time.Time, random io.Reader) (decision, error) {
	realm := seen.realm
	d := decision{
		now:      now,
		accepted: accepted(realm, instance),
		policy:   policyOf(realm, instance),
		clients:  int32(len(seen.clients)),
	}
	if len(realm.Spec.Exchanges) > 0 {
		d.exchanges = new(exchangesResolved(realm, instance.Issuer(realm.Name), unknownClients(realm, seen.clients)))
	}
	var current record.Realm
	switch {
	case seen.record != nil:
		var err error
		if current, err = record.ReadRealm(seen.record); err != nil {
			d.blocked = keysUnreadable(realm, err)
			return d, nil
		}
		current.Keys = signingkey.WithoutFutureTimes(now, current.Keys)
	case !seen.live: // A lagging cache must not cause new keys, and the status says whether the realm had any.
		return decision{lacks: lacksLive}, nil
	default:
		if d.blocked, d.nextKeyStep = keysMissing(realm, now); d.blocked != nil {
			return d, nil
		}
	}
	if realm.Generation < current.Basis.Generation { // The decision could undo a newer one.
		return decision{lacks: lacksLive}, nil
	}
	d.recorded = current.Keys
	d.encryption = encryptionOf(seen.mode, current.Keys, seen.undecrypted)
	if isSealed(current.Keys, signingkey.Active) {
		d.undecryptedActive = seen.undecryptedActive
	}
	if d.accepted.Status == metav1.ConditionTrue {
		if err := d.decideAccepted(seen, &current, instance, random); err != nil || d.lacks != 0 {
			return d, err
		}
	} else if seen.record != nil {
		d.record = new(current)
		d.record.Disabled = true
	}
	err := d.conclude(seen, current)
	return d, err
}

// decideAccepted completes the decision on an accepted Realm.
func (d *decision) decideAccepted(seen *observed, current *record.Realm, instance *config.Instance, random io.Reader) error {
	realm := seen.realm
	plan, err := planKeys(seen, current.Keys, d.encryption, d.policy, d.now, random)
	if err != nil {
		return err
	}
	if plan.needsConfirmation && !seen.confirmed {
		d.lacks = lacksConfirmation
		return nil
	}
	d.nextKeyStep, d.generate = plan.next, plan.generate
	d.encryption.waiting, d.encryption.failed = d.generate != "" && seen.mode == sealing.Encrypt, seen.failed
	if seen.record == nil && d.generate != "" {
		return nil // the realm gets its first key from the Sealer
	}
	d.nextRotation = signingkey.NextRotation(plan.keys, d.policy)
	trusted, others := supportedIssuers(realm, instance)
	d.record = d.newRecord(seen, current, plan.keys, trusted, instance)
	d.fetchIssuers = issuersToFetch(trusted, d.record.Issuers)
	d.issuers = append(issuerStatus(realm, d.record.Issuers, current.Issuers, seen.fetched), others...)
	active := signingkey.ActiveID(current.Keys)
	d.rotates = active != "" && active != signingkey.ActiveID(plan.keys)
	d.record.StatusLists, d.nextList = statusLists(&realm.Spec.StatusList, current.StatusLists, current.Keys, d.record.TokensValidAfter, seen.rolledBackAt, d.policy.Skew, d.now)
	return nil
}

// conclude completes the decision with the write that replaces the current record by the desired one.
func (d *decision) conclude(seen *observed, current record.Realm) error {
	if d.record != nil {
		d.record.Basis = nextBasis(seen.realm.Generation, current, seen.record, *d.record)
		secret, err := recordsecret.ForRealm(seen.namespace, seen.realm, *d.record)
		if err != nil {
			return err
		}
		if !apply.Unchanged(seen.record, secret) {
			d.put = secret
		}
	}
	// A key that takes long delays no restriction: every other change is written first, and its event triggers the
	// next decision.
	if d.generate != "" && d.put == nil && seen.retryAfter == 0 {
		d.lacks = lacksKey
	}
	return nil
}

// newRecord returns the record of an accepted Realm with the given keys.
func (d *decision) newRecord(seen *observed, current *record.Realm, keys []signingkey.Key, trusted []v1beta1.TrustedIssuer, instance *config.Instance) *record.Realm {
	realm := seen.realm
	body := &record.Realm{
		Name:                 realm.Name,
		Issuer:               instance.Issuer(realm.Name),
		Disabled:             realm.Spec.Suspend,
		Restrictions:         current.Restrictions.Unknown(),
		TokenLifetimeSeconds: int64(d.policy.TokenLifetime / time.Second),
		ClusterIssuerURL:     instance.ClusterURL() + "/" + realm.Name,
		Scopes:               slices.Sorted(slices.Values(realm.Spec.Scopes)),
		Audiences:            slices.Sorted(slices.Values(realm.Spec.Audiences)),
		Issuers:              recordedIssuers(trusted, instance.Issuer(realm.Name), seen.fetched, current.Issuers),
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

// accepted checks what the schema can't, such as the instance's limits.
func accepted(realm *v1beta1.Realm, instance *config.Instance) condition.Result {
	lifetime, maximum := instance.TokenLifetime((*metav1.Duration)(realm.Spec.TokenLifetime)), instance.Security.MaximumTokenLifetime.Duration
	if lifetime > maximum {
		return condition.NotReady(v1beta1.ReasonLifetimeExceedsInstanceMaximum, fmt.Sprintf(
			"spec.tokenLifetime %s exceeds the instance maximum of %s, so clients cannot get tokens. Shorten it, or ask your administrator to raise security.maximumTokenLifetime.",
			lifetime, maximum))
	}
	if excess := record.DescribeExcessClaims(record.MergeClaims(realm.Spec.Claims)); excess != "" {
		return condition.NotReady(v1beta1.ReasonClaimsTooLarge, fmt.Sprintf(
			"spec.claims has %s, so clients cannot get tokens. Remove or shorten claims.", excess))
	}
	return condition.Result{Status: "True", Reason: v1beta1.ReasonAccepted, Message: "The spec is valid." + record.DescribeReservedClaims(realm.Spec.Claims)}
}
