package apiclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/condition"
	"github.com/realmkeeper/realmkeeper/internal/config"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/servingcert"
)

// decision is what an ApiClient comes to.
type decision struct {
	accepted condition.Verdict
	// blocked says why nothing is written although the spec is accepted.
	blocked *condition.Verdict
	// record is what the record shall be; nil: it stays as it is, also when there is none.
	record *record.Client
	// unclaimed is the client's secret while no consumer Secret holds it; empty otherwise.
	unclaimed string
	// consumer is what the consumer Secret shall be; nil: it stays as it is.
	consumer *corev1ac.SecretApplyConfiguration
}

// decide is a pure function of what was read, the time and the random source.
//
// The error is that of the random source.
func decide(seen observed, instance *config.Instance, now time.Time, random io.Reader) (decision, error) {
	d := decision{accepted: accepted(seen, instance)}
	var current record.Client
	if seen.record != nil {
		var err error
		if current, err = record.ReadClient(seen.record); err != nil {
			d.blocked = fault(v1alpha1.ReasonRecordUnreadable,
				"The client's record can't be read: %v. Token servers go on with its last good state. Restore the Secret from a backup, or delete it to have a new client secret made.", err)
			return d, nil
		}
	}
	if d.accepted.Status != metav1.ConditionTrue {
		if seen.record != nil {
			current.Disabled = true
			d.record = &current
		}
		return d, nil
	}
	secret, handedOut := held(&seen, current)
	if seen.authorityMissing && !handedOut {
		d.blocked = fault(v1alpha1.ReasonProgressing,
			"Waiting for the certificate authority of the token servers, Secret %q in the system namespace. The operator's log says why it is missing.", servingcert.AuthoritySecret)
		d.blocked.Status = metav1.ConditionUnknown
		return d, nil
	}
	secrets := current.Secrets
	if secret == "" {
		var err error
		if secrets, secret, err = newSecret(now, random); err != nil {
			return decision{}, err
		}
	}
	d.record = newRecord(seen.client, seen.realm, secrets)
	if !handedOut {
		d.unclaimed = secret
	}
	if !seen.authorityMissing {
		d.consumer = newConsumer(seen, secret, instance)
	}
	return d, nil
}

// held returns the secret that the client has, and whether its consumer Secret holds it
// already. There is none without a record, with a consumer Secret that doesn't hold what the record verifies, and in
// a realm that is not the one before.
func held(seen *observed, current record.Client) (secret string, handedOut bool) {
	switch {
	case current.RealmUID != seen.realm.UID:
		return "", false
	case plaintext(seen) != "":
		return plaintext(seen), true
	case verifies(current.Secrets, seen.unclaimed):
		return seen.unclaimed, false
	}
	return "", false
}

func newRecord(c *v1alpha1.ApiClient, realm *v1alpha1.Realm, secrets []record.ClientSecret) *record.Client {
	body := &record.Client{
		RealmUID:  realm.UID,
		ClientID:  c.EffectiveClientID(),
		CreatedAt: c.CreationTimestamp.UTC(),
		Disabled:  c.Spec.Suspend,
		Scopes:    slices.Sorted(slices.Values(c.Spec.Scopes)),
		Audiences: slices.Sorted(slices.Values(c.Spec.Audiences)),
		Secrets:   secrets,
	}
	if c.Spec.ExpiresAt != nil {
		body.ExpiresAt = c.Spec.ExpiresAt.UTC()
	}
	if c.Spec.TokenLifetime != nil {
		body.TokenLifetimeSeconds = int64(c.Spec.TokenLifetime.Duration / time.Second)
	}
	return body
}

// newSecret makes a secret and its one verifier.
func newSecret(now time.Time, random io.Reader) ([]record.ClientSecret, string, error) {
	secret, err := clientsecret.Generate(random)
	if err != nil {
		return nil, "", err
	}
	verifier, err := clientsecret.Hash(secret, random)
	if err != nil {
		return nil, "", fmt.Errorf("hashing a client secret: %w", err)
	}
	return []record.ClientSecret{{
		ID:        verifier.ID(),
		CreatedAt: now.UTC().Truncate(time.Second),
		Hash:      verifier.String(),
	}}, secret, nil
}

// plaintext returns the secret in the consumer Secret that the record verifies, under
// whatever key it stands; empty when there is none, or the Secret isn't this client's.
func plaintext(seen *observed) string {
	if seen.record == nil || seen.consumer == nil || !ours(seen.consumer, seen.client) {
		return ""
	}
	body, err := record.ReadClient(seen.record)
	if err != nil {
		return ""
	}
	for _, value := range seen.consumer.Data {
		if candidate := string(value); clientsecret.WellFormed(candidate) && verifies(body.Secrets, candidate) {
			return candidate
		}
	}
	return ""
}

func verifies(secrets []record.ClientSecret, candidate string) bool {
	for _, s := range secrets {
		if verifier, err := clientsecret.ParseVerifier(s.Hash); err == nil && verifier.Verify(candidate) {
			return true
		}
	}
	return false
}

// ours reports whether a Secret is the consumer Secret of this ApiClient: it carries our
// label and belongs to this very object. That of a deleted ApiClient of the same name isn't; it is in
// the way until the garbage collector takes it.
func ours(secret client.Object, c *v1alpha1.ApiClient) bool {
	return secret.GetLabels()[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretGenerated && metav1.IsControlledBy(secret, c)
}
