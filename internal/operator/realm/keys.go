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
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// policyOf returns the Realm's key policy with defaults applied and its intervals scaled by
// testing.speedUp.
func policyOf(realm *v1beta1.Realm, instance *config.Instance) signingkey.Policy {
	signing := &realm.Spec.Signing
	policy := signingkey.Policy{
		Algorithm:        signingkey.Algorithm(signing.EffectiveAlgorithm()),
		RotationInterval: instance.Scaled(signing.EffectiveRotationInterval()),
		PublishAhead:     instance.Scaled(signing.EffectivePublishAhead()),
		TokenLifetime:    instance.TokenLifetime((*metav1.Duration)(realm.Spec.TokenLifetime)),
		Skew:             instance.Scaled(signingkey.Skew),
	}
	if signing.RotationRequestTime != nil {
		policy.RotateAfter = signing.RotationRequestTime.Time
	}
	return policy
}

// keyPlan says which keys a realm must have now.
type keyPlan struct {
	keys []signingkey.Key
	// next is the time of the next change; zero if it depends on an event.
	next time.Time
	// needsConfirmation means that the keys take a step that can't be undone, which depends on every token server.
	needsConfirmation bool
	// generate is the algorithm of the new key that the realm needs from the Sealer; empty if it needs none.
	// Until there is one, the other keys take their steps.
	generate signingkey.Algorithm
}

// planKeys returns the plan for the keys in the record, which are stored as given. A new key that takes long, because
// it is an RSA key or the KMS plugin encrypts it, comes from the Sealer. A step that depends on the token servers waits
// until each one serves the record. A Pending key doesn't count as published until each one can sign with it. No key
// is added while the configuration of the KMS plugin is missing.
func planKeys(seen *observed, keys []signingkey.Key, stored encryption, policy signingkey.Policy, now time.Time, random io.Reader) (plan keyPlan, err error) {
	before := keys
	policy.Unconfirmed = seen.unconfirmed || seen.state != acknowledgement.Acknowledged || len(stored.undecrypted) > 0
	if !policy.Unconfirmed {
		keys = signingkey.Acknowledge(now, keys)
	}
	plan.keys, plan.next, err = signingkey.Plan(now, keys, policy, func(algorithm signingkey.Algorithm, now time.Time) (signingkey.Key, error) {
		switch {
		case seen.mode == sealing.Off && stored.sealed > 0:
			return signingkey.Key{}, signingkey.ErrLater
		case !seen.mode.Slow(algorithm):
			return signingkey.Generate(algorithm, now, random)
		case seen.generated == nil || seen.generated.Algorithm != algorithm:
			plan.generate = algorithm
			return signingkey.Key{}, signingkey.ErrLater
		}
		key := *seen.generated
		key.CreatedAt = now
		return key, nil
	})
	if errors.Is(err, signingkey.ErrLater) {
		plan.keys, err = before, nil
	}
	plan.needsConfirmation = !policy.Unconfirmed && mustConfirm(before, plan.keys)
	return plan, err
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

// isSealed reports whether the key in the given state is encrypted.
func isSealed(keys []signingkey.Key, state signingkey.State) bool {
	return slices.ContainsFunc(keys, func(k signingkey.Key) bool { return k.State == state && k.Sealed() != nil })
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
	return new(condition.NotReady(v1beta1.ReasonKeysMissing, fmt.Sprintf(
		"The Secret %s in the records namespace, which contained the signing keys, does not exist. Clients cannot get tokens, and all existing tokens are rejected. Run \"kubectl realmkeeper restore\" with a backup. Without a backup, request new keys with \"kubectl realmkeeper rotate realm/%s --wait=false\", or set spec.signing.rotationRequestTime to the current time, which must be later than the creation of every key in status.signingKeys. All existing tokens then become invalid permanently.",
		record.RealmRecordName(realm.UID), realm.Name))), until
}

func keysUnreadable(realm *v1beta1.Realm, err error) *condition.Result {
	return new(condition.NotReady(v1beta1.ReasonKeysUnreadable, fmt.Sprintf(
		"Failed to read the signing keys: %v. Token servers keep using the last known good keys. Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret, and request new keys with \"kubectl realmkeeper rotate realm/%s --wait=false\".", err, realm.Name)))
}
