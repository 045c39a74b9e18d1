package apiclient

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// secretFacts returns the observed facts about the client's secrets.
func secretFacts(seen *observed) secrets.Facts {
	return secrets.Facts{
		Recorded:     seen.recorded.Secrets,
		Serial:       seen.recorded.SecretSerial,
		Restored:     seen.restoredSecrets(),
		Credentials:  ownCredentials(seen),
		Live:         seen.live,
		Acknowledged: seen.acknowledged,
		Unconfirmed:  seen.unconfirmed,
		Unwritable:   seen.credentialsErr != nil || seen.caMissing,
		Uses:         seen.uses,
	}
}

// ownCredentials returns the values in the client's credentials Secret; nil if it owns none.
func ownCredentials(seen *observed) *secrets.Credentials {
	if seen.credentials == nil || seen.realm == nil || !seen.client.GeneratesSecret() || !isOwned(seen.credentials, seen.client) {
		return nil
	}
	found, generated := &secrets.Credentials{}, seen.client.GeneratedSecret()
	owner, annotations := secretOwner(seen), seen.credentials.Annotations
	for _, key := range slices.Sorted(maps.Keys(seen.credentials.Data)) {
		value := string(seen.credentials.Data[key])
		switch {
		case !clientsecret.WellFormed(value):
		case key == generated.DataKey(v1beta1.SecretKeyClientSecret):
			found.Current = owner.Read(value, annotations[v1beta1.CurrentSecretAnnotation])
		case key == generated.DataKey(v1beta1.SecretKeyNextClientSecret):
			found.Next = owner.Read(value, annotations[v1beta1.NextSecretAnnotation])
		default:
			found.Others = append(found.Others, value)
		}
	}
	return found
}

func secretOwner(seen *observed) secrets.Owner {
	return secrets.Owner{Realm: string(seen.realm.UID), Client: string(seen.client.UID)}
}

// wantedSecret returns the kind of secret that an accepted spec requests.
func wantedSecret(seen *observed) secrets.Want {
	source := secretSource(seen.client)
	switch {
	case source.Provided != nil:
		return secrets.Want{Provided: &secrets.Provided{
			Source:  providedVersion(seen),
			Hash:    seen.value.Hash,
			Overlap: seen.instance.Scaled(source.Provided.EffectiveOverlap()),
		}}
	case len(source.Hashed) > 0:
		var w secrets.Want
		hashes := seen.listedHashes()
		for i, h := range source.Hashed {
			s := record.ClientSecret{ID: h.ID, Hash: hashes[i].hash, Source: hashes[i].source}
			if h.ExpirationTime != nil {
				s.ExpiresAt = h.ExpirationTime.UTC()
			}
			w.Hashed = append(w.Hashed, s)
		}
		return w
	case !seen.client.GeneratesSecret():
		return secrets.Want{}
	}
	rotation := seen.client.GeneratedSecret().Rotation
	schedule := &secrets.Schedule{Overlap: seen.instance.Scaled(rotation.EffectiveOverlap()), UnusedFor: unusedFor(&seen.request)}
	if rotation.Interval != nil {
		schedule.Interval = seen.instance.Scaled(rotation.Interval.Duration)
	}
	if rotation.RotationRequestTime != nil {
		schedule.RotateAfter = rotation.RotationRequestTime.Time
	}
	return secrets.Want{Generated: schedule}
}

// reportDelay is the age up to which the token servers' reports count as complete.
const reportDelay = 5 * time.Minute

// unusedFor returns how long a replaced secret must be unused before it expires; zero if it expires after
// the overlap. It is never shorter than the token lifetime plus twice the resolution, because a
// workload needs a new token only once per token lifetime, and times of use have the precision of
// the resolution.
func unusedFor(seen *request) time.Duration {
	end := seen.client.GeneratedSecret().Rotation.ExpireWhenUnused
	if end == nil || end.After == nil || seen.realm == nil {
		return 0
	}
	lifetime := seen.instance.TokenLifetime((*metav1.Duration)(seen.realm.Spec.TokenLifetime))
	if seen.client.Spec.TokenLifetime != nil {
		lifetime = seen.client.Spec.TokenLifetime.Duration
	}
	return max(seen.instance.Scaled(end.After.Duration), lifetime+2*seen.instance.Scaled(seen.instance.Usage.Resolution.Duration))
}

// nextCheck returns the time at which to plan again, because an old secret may then have been
// unused for long enough. It is at least one report interval away, because an earlier check would
// find nothing new.
func nextCheck(p secrets.Plan, instance *config.Instance, now time.Time) time.Time {
	if p.Check.IsZero() {
		return time.Time{}
	}
	interval := usage.Interval(instance.Scaled(instance.Usage.Resolution.Duration))
	return timestamp.Latest(p.Check, now.Add(max(interval, time.Second)))
}
