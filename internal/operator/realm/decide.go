package realm

import (
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
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
	if realm.Generation < current.Basis.Generation {
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
			disabled.Basis = nextBasis(realm.Generation, current, seen.version(), disabled)
			d.record = &disabled
		}
		return d, nil
	}

	plan, err := planKeys(&seen, current.Keys, d.encryption, d.policy, now, random)
	if err != nil {
		return decision{}, err
	}
	d.next, d.needsConfirmation, d.generate = plan.next, plan.needsConfirmation, plan.generate
	d.encryption.waiting = d.generate != "" && seen.mode == sealing.Encrypt
	if seen.record == nil && d.generate != "" {
		return d, nil // the realm gets its first key from the Sealer
	}
	d.nextRotation = signingkey.NextRotation(plan.keys, d.policy)
	trusted, others := supportedIssuers(realm, instance)
	d.record = d.newRecord(&seen, &current, plan.keys, trusted, instance)
	d.fetch = issuersToFetch(trusted, d.record.Issuers)
	d.issuers = append(issuerStatus(realm, d.record.Issuers, current.Issuers, seen.fetched), others...)
	active := signingkey.ActiveID(current.Keys)
	d.rotates = active != "" && active != signingkey.ActiveID(plan.keys)
	d.record.StatusLists, d.nextList = statusLists(&realm.Spec.StatusList, current.StatusLists, current.Keys, d.record.TokensValidAfter, seen.rolledBackAt, d.policy.Skew, now)
	d.record.Basis = nextBasis(realm.Generation, current, seen.version(), *d.record)
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
	if result := claimsWithinSize(realm); result != nil {
		return *result
	}
	return condition.Result{Status: "True", Reason: v1beta1.ReasonAccepted, Message: "The spec is valid." + record.DescribeReservedClaims(realm.Spec.Claims)}
}

// claimsWithinSize returns nil if the Realm's claims fit into a token, and otherwise the result for
// the Accepted condition.
func claimsWithinSize(realm *v1beta1.Realm) *condition.Result {
	excess := record.DescribeExcessClaims(record.MergeClaims(realm.Spec.Claims))
	if excess == "" {
		return nil
	}
	result := condition.NotReady(v1beta1.ReasonClaimsTooLarge, fmt.Sprintf(
		"spec.claims has %s, so clients cannot get tokens. Remove or shorten claims.", excess))
	return &result
}
