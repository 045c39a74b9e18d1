package apiclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// planSecrets plans a client's secrets by where they come from.
//
// The error is that of the random source.
func planSecrets(seen *observed, instance *config.Instance, now time.Time, random io.Reader) (plan, error) {
	switch source := secretSource(seen.client); {
	case source.Provided != nil:
		return planProvided(seen, instance, seen.secrets(), now, random)
	case len(source.Hashed) > 0:
		return planHashed(source.Hashed, seen.secrets(), now), nil
	case !seen.client.GeneratesSecret():
		// What the client had before ends at once, as with hashes that are taken out.
		return plan{secrets: []record.ClientSecret{}}, nil
	}
	return planGenerated(seen, instance, seen.secrets(), now, random)
}

// secretSource returns where the client's secret comes from; a zero value is a generated one,
// or none at all.
func secretSource(c *v1alpha1.ApiClient) v1alpha1.ClientSecretSource {
	if c.Spec.Secret == nil {
		return v1alpha1.ClientSecretSource{}
	}
	return *c.Spec.Secret
}

// planProvided takes up what the provided Secret holds. That takes a slow hash where the value
// is new, and a slow verification where something else of the Secret has changed: so the record
// knows which version it was taken from. What was in force before stays for the overlap.
func planProvided(seen *observed, instance *config.Instance, current []record.ClientSecret, now time.Time, random io.Reader) (plan, error) {
	provided := secretSource(seen.client).Provided
	source, value := versionOf(seen.provided), string(seen.provided.Data[provided.SecretRef.EffectiveKey()])
	current = valid(current, now)
	if len(current) > 0 {
		newest := &current[len(current)-1]
		if newest.Source == source || fromSecret(newest.Source) && verifies(*newest, value) {
			newest.Source = source
			return plan{secrets: current, inUse: true}, nil
		}
	}
	made, err := hash(value, now, random)
	if err != nil {
		return plan{}, err
	}
	made.Source = source
	p := plan{secrets: append(inUse(seen, current), made)}
	p.retire(now, instance.Scaled(provided.EffectiveOverlap()))
	return p, nil
}

// inUse returns the secret that workloads use now; none is an empty slice.
func inUse(seen *observed, current []record.ClientSecret) []record.ClientSecret {
	if former := inForceElsewhere(current); len(former) > 0 {
		return former
	}
	if _, held := consumerSecret(seen, current); held >= 0 {
		return slices.Clone(current[held : held+1])
	}
	return nil
}

// planHashed takes the hashes as they stand in the spec, and no others.
func planHashed(hashes []v1alpha1.HashedSecret, current []record.ClientSecret, now time.Time) plan {
	var p plan
	for _, h := range hashes {
		s := record.ClientSecret{ID: h.ID, CreatedAt: now.UTC().Truncate(time.Second), Hash: h.Hash, Source: sourceSpec}
		if h.ExpiresAt != nil {
			s.ExpiresAt = h.ExpiresAt.UTC()
		}
		for _, known := range current {
			if known.Source == sourceSpec && known.ID == h.ID && known.Hash == h.Hash {
				s.CreatedAt, p.inUse = known.CreatedAt, true
			}
		}
		p.secrets = append(p.secrets, s)
	}
	p.secrets = valid(p.secrets, now)
	return p
}

// sourceSpec is the record's word for a secret whose hash stands in the spec.
const sourceSpec = "spec"

// versionOf is the record's word for a secret that was taken from this version of a Secret.
func versionOf(secret *corev1.Secret) string {
	return string(secret.UID) + "/" + secret.ResourceVersion
}

func fromSecret(source string) bool { return source != "" && source != sourceSpec }

// hash makes the verifier of a secret that a person provides: a slow one, but for what
// generated secrets look like.
func hash(secret string, now time.Time, random io.Reader) (record.ClientSecret, error) {
	hashed := clientsecret.HashSlowly
	if clientsecret.WellFormed(secret) {
		hashed = clientsecret.Hash
	}
	verifier, err := hashed(secret, random)
	if err != nil {
		return record.ClientSecret{}, fmt.Errorf("hashing a client secret: %w", err)
	}
	return record.ClientSecret{
		ID:        verifier.ID(),
		CreatedAt: now.UTC().Truncate(time.Second),
		Hash:      verifier.String(),
	}, nil
}

func verifies(s record.ClientSecret, value string) bool {
	verifier, err := clientsecret.ParseVerifier(s.Hash)
	return err == nil && verifier.Verify(value)
}

// hashesSlowly reports whether a decision will hash or verify slowly.
func hashesSlowly(seen *observed) bool {
	if seen.provided == nil || !readable(seen.provided) {
		return false
	}
	source := versionOf(seen.provided)
	return !slices.ContainsFunc(seen.secrets(), func(s record.ClientSecret) bool { return s.Source == source })
}

// readable reports whether a Secret carries the label that allows the operator to read it.
func readable(secret *corev1.Secret) bool {
	return secret.Labels[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretProvided
}

// needless returns the Secrets that the operator made for the client and that it needs no more:
// those of another name, and all when nothing that they hold is valid any longer.
func needless(seen *observed, p plan) []corev1.Secret {
	return slices.DeleteFunc(slices.Clone(seen.owned), func(s corev1.Secret) bool {
		if seen.client.GeneratesSecret() {
			return s.Name == seen.client.EffectiveSecretName()
		}
		one := *seen
		one.consumer = &s
		_, held := consumerSecret(&one, slices.DeleteFunc(slices.Clone(p.secrets), func(s record.ClientSecret) bool { return s.Source != "" }))
		return held >= 0
	})
}
