package apiclient

import (
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/servingcert"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// decision is what an ApiClient comes to.
type decision struct {
	accepted condition.Result
	// blocked says why nothing is written although the spec is accepted.
	blocked *condition.Result
	// record is what the record shall be; nil: it stays as it is, also when there is none.
	record *record.Client
	// plan is what becomes of the secrets; the record has them.
	plan secrets.Plan
	// seamless means that the record changes in its secrets alone, and that the one which
	// workloads have is valid before and after: it doesn't matter to them who has loaded the change.
	seamless bool
	// consumer is what the consumer Secret shall be; nil: it stays as it is.
	consumer *corev1ac.SecretApplyConfiguration
	// needless are Secrets of ours that go.
	needless []corev1.Secret
}

// decide is a pure function of what was read, the time and the random source.
//
// The error is that of the random source.
func decide(seen observed, instance *config.Instance, now time.Time, random io.Reader) (decision, error) {
	d := decision{accepted: accepted(seen, instance)}
	if d.blocked = seen.unreadable; d.blocked != nil {
		return d, nil
	}
	if d.accepted.Status != metav1.ConditionTrue {
		if seen.record != nil {
			current := seen.current
			current.Disabled = true
			current.Secrets = secrets.Look(secrets.Facts{Recorded: current.Secrets}, now).Valid
			d.record = &current
		}
		return d, nil
	}
	p, err := secrets.Make(secretFacts(&seen), wantedSecret(&seen, instance), now, random)
	if err != nil {
		return decision{}, err
	}
	if seen.authorityMissing && seen.client.GeneratesSecret() && !p.Continuous {
		d.blocked = fault(v1alpha1.ReasonProgressing,
			"Waiting for the certificate authority of the token servers, Secret %q in the system namespace. The operator's log says why it is missing.", servingcert.AuthoritySecret)
		d.blocked.Status = metav1.ConditionUnknown
		return d, nil
	}
	d.plan = p
	d.record = newRecord(seen.client, seen.realm, p.Secrets)
	d.record.CreatedAt = clientSince(&seen, now)
	d.record.ServiceAccounts = serviceAccounts(&seen)
	d.needless = obsolete(&seen, p)
	d.seamless = p.Continuous && differInSecretsAlone(seen.current, *d.record)
	if !seen.authorityMissing && p.Deliver != "" {
		d.consumer = newConsumer(seen, p.Deliver, instance)
	}
	return d, nil
}

// clientSince returns since when the client id is this client's: since its creation, unless
// another had it first. The tokens of that one aren't this one's, though they name the same client id.
func clientSince(seen *observed, now time.Time) time.Time {
	accepted := meta.FindStatusCondition(seen.client.Status.Conditions, string(v1alpha1.ConditionAccepted))
	if accepted != nil && accepted.Reason == string(v1alpha1.ReasonClientIDConflict) {
		return now.UTC().Truncate(time.Second)
	}
	if created := seen.client.CreationTimestamp.UTC(); created.After(seen.current.CreatedAt) {
		return created
	}
	return seen.current.CreatedAt
}

// differInSecretsAlone reports whether two records say the same but for their secrets.
func differInSecretsAlone(a, b record.Client) bool {
	a.Secrets, b.Secrets = nil, nil
	return record.Equal(a, b)
}

// obsolete returns the credentials Secrets that the client no longer needs: those with another
// name, or if its secret is not generated, those without a valid generated secret.
func obsolete(seen *observed, p secrets.Plan) []corev1.Secret {
	return slices.DeleteFunc(slices.Clone(seen.owned), func(s corev1.Secret) bool {
		if seen.client.GeneratesSecret() {
			return s.Name == seen.client.EffectiveSecretName()
		}
		return !p.Obsolete(generatedValues(&s))
	})
}

func newRecord(c *v1alpha1.ApiClient, realm *v1alpha1.Realm, planned []record.ClientSecret) *record.Client {
	body := &record.Client{
		RealmUID:  realm.UID,
		ClientID:  c.EffectiveClientID(),
		CreatedAt: c.CreationTimestamp.UTC(),
		Disabled:  c.Spec.Suspend,
		Scopes:    slices.Sorted(slices.Values(c.Spec.Scopes)),
		Audiences: slices.Sorted(slices.Values(c.Spec.Audiences)),
		Secrets:   planned,

		TokensPerSecond: ptr.Deref(c.Spec.Limits.TokensPerSecond, 0),
		PublicKeys:      publicKeys(c),
	}
	if c.Spec.ExpiresAt != nil {
		body.ExpiresAt = c.Spec.ExpiresAt.UTC()
	}
	if c.Spec.TokensValidAfter != nil {
		body.TokensValidAfter = c.Spec.TokensValidAfter.UTC()
	}
	if c.Spec.TokenLifetime != nil {
		body.TokenLifetimeSeconds = int64(c.Spec.TokenLifetime.Duration / time.Second)
	}
	return body
}

// ours reports whether a Secret is the consumer Secret of this ApiClient: it carries our
// label and belongs to this very object. That of a deleted ApiClient of the same name isn't; it is in
// the way until the garbage collector takes it.
func ours(secret client.Object, c *v1alpha1.ApiClient) bool {
	return secret.GetLabels()[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretGenerated && metav1.IsControlledBy(secret, c)
}
