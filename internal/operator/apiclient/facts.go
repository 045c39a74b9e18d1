package apiclient

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// secretFacts returns the observed facts about the client's secrets.
func secretFacts(seen *observed) secrets.Facts {
	return secrets.Facts{
		Recorded:     seen.current.Secrets,
		Serial:       seen.current.SecretSerial,
		Restored:     seen.restoredSecrets(),
		Credentials:  ownCredentials(seen),
		Live:         seen.live,
		Acknowledged: seen.acknowledged,
		Unwritable:   seen.writeErr != nil || seen.authorityMissing,
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
		case key == generated.DataKey(v1alpha1.SecretKeyClientSecret):
			found.Current = owner.Read(value, annotations[v1alpha1.CurrentSecretAnnotation])
		case key == generated.DataKey(v1alpha1.SecretKeyNextClientSecret):
			found.Next = owner.Read(value, annotations[v1alpha1.NextSecretAnnotation])
		default:
			found.Others = append(found.Others, value)
		}
	}
	return found
}

func secretOwner(seen *observed) secrets.Owner {
	return secrets.Owner{Realm: seen.realm.UID, Client: seen.client.UID}
}

// generatedValues returns the values of a Secret that have the form of a generated secret.
func generatedValues(secret *corev1.Secret) []string {
	var values []string
	for _, value := range secret.Data {
		if clientsecret.WellFormed(string(value)) {
			values = append(values, string(value))
		}
	}
	return values
}

// wantedSecret returns the kind of secret that an accepted spec requests.
func wantedSecret(seen *observed, instance *config.Instance) secrets.Want {
	source := secretSource(seen.client)
	switch {
	case source.Provided != nil:
		return secrets.Want{Provided: &secrets.Provided{
			Source:  providedVersion(seen),
			Hash:    seen.value.Hash,
			Overlap: instance.Scaled(source.Provided.EffectiveOverlap()),
		}}
	case len(source.Hashed) > 0:
		var w secrets.Want
		for _, h := range source.Hashed {
			s := record.ClientSecret{ID: h.ID, Hash: h.Hash}
			if h.ExpiresAt != nil {
				s.ExpiresAt = h.ExpiresAt.UTC()
			}
			w.Hashed = append(w.Hashed, s)
		}
		return w
	case !seen.client.GeneratesSecret():
		return secrets.Want{}
	}
	rotation := seen.client.GeneratedSecret().Rotation
	schedule := &secrets.Schedule{Overlap: instance.Scaled(rotation.EffectiveOverlap()), UnusedFor: unusedFor(seen, instance)}
	if rotation.Interval != nil {
		schedule.Interval = instance.Scaled(rotation.Interval.Duration)
	}
	if rotation.RotateAfter != nil {
		schedule.RotateAfter = rotation.RotateAfter.Time
	}
	return secrets.Want{Generated: schedule}
}

// secretSource returns spec.secret. It returns an empty value if spec.secret is unset.
func secretSource(c *v1alpha1.ApiClient) v1alpha1.ClientSecretSource {
	if c.Spec.Secret == nil {
		return v1alpha1.ClientSecretSource{}
	}
	return *c.Spec.Secret
}
