package apiclient

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

// reportDelay is the age up to which the token servers' reports count as complete.
const reportDelay = 5 * time.Minute

// unusedFor returns how long a replaced secret must be unused before it ends; zero if it ends after
// the overlap. It is never shorter than the token lifetime plus twice the resolution, because a
// workload needs a new token only once per token lifetime, and times of use have the precision of
// the resolution.
func unusedFor(seen *observed, instance *config.Instance) time.Duration {
	end := seen.client.GeneratedSecret().Rotation.EndWhenUnused
	if end == nil || end.After == nil || seen.realm == nil {
		return 0
	}
	lifetime := instance.TokenLifetime((*metav1.Duration)(seen.realm.Spec.TokenLifetime))
	if seen.client.Spec.TokenLifetime != nil {
		lifetime = seen.client.Spec.TokenLifetime.Duration
	}
	return max(instance.Scaled(end.After.Duration), lifetime+2*instance.Scaled(instance.Usage.Resolution.Duration))
}

// useReader is the part of lastuse.Store that gatherUses needs.
type useReader interface {
	Quiet(c types.UID, credential usage.Credential, recorded time.Time) (since, until time.Time, ok bool)
	Confirm(ctx context.Context, live client.Reader, c *v1alpha1.ApiClient, credential usage.Credential) (since, until time.Time, ok bool, err error)
}

// gatherUses looks up the uses of a retiring secret that may end because it is unused.
func (r *Reconciler) gatherUses(ctx context.Context, seen *observed) error {
	return gatherUses(ctx, r.Usage, r.Live, seen, r.Instance, r.Now())
}

// gatherUses confirms with the API server that a secret is unused before it ends, because caches can lag.
func gatherUses(ctx context.Context, from useReader, live client.Reader, seen *observed, instance *config.Instance, now time.Time) error {
	if !seen.client.GeneratesSecret() {
		return nil
	}
	after := unusedFor(seen, instance)
	if after == 0 {
		return nil
	}
	seen.uses = map[string]secrets.Use{}
	for _, s := range secrets.Valid(seen.current.Secrets, now) {
		if s.Role != record.RoleRetiring {
			continue
		}
		credential := usage.Credential{Type: usage.Secret, ID: s.ID}
		recorded, listed := lastuse.LastUsed(seen.client, credential)
		since, until, known := from.Quiet(seen.client.UID, credential, recorded)
		if known && (secrets.Use{Last: since, Until: until}).Unused(s) >= after {
			var err error
			since, until, known, err = from.Confirm(ctx, live, seen.client, credential)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("confirming that secret %s of ApiClient %s is unused: %w", s.ID, client.ObjectKeyFromObject(seen.client), err)
			}
		}
		if listed && known {
			seen.uses[s.ID] = secrets.Use{Last: since, Until: until}
		}
	}
	return nil
}

// nextCheck returns the time at which to plan again, because an old secret may then have been
// unused for long enough. It is at least one report interval away, because an earlier check would
// find nothing new.
func nextCheck(p secrets.Plan, instance *config.Instance, now time.Time) time.Time {
	if p.Check.IsZero() {
		return time.Time{}
	}
	interval := usage.Interval(instance.Scaled(instance.Usage.Resolution.Duration))
	return latest(p.Check, now.Add(max(interval, time.Second)))
}

// oldSecretInUse returns the OldSecretInUse condition of a client with the given secrets, oldest
// first, or nil if it has no old secret that ends when it is unused. s is the new status that will
// contain the condition, with the last uses.
func oldSecretInUse(seen *observed, recorded []record.ClientSecret, s *v1alpha1.ApiClientStatus, instance *config.Instance, now time.Time) *condition.Result {
	if !seen.client.GeneratesSecret() || seen.client.GeneratedSecret().Rotation.EndWhenUnused == nil ||
		len(recorded) < 2 || recorded[0].Role != record.RoleRetiring || len(s.Secrets) == 0 || s.Secrets[0].ID != recorded[0].ID {
		return nil
	}
	old, used := recorded[0], time.Time{}
	if s.Secrets[0].LastUsedTime != nil {
		used = s.Secrets[0].LastUsedTime.Time
	}
	use, known := seen.uses[old.ID]
	switch {
	case !used.Before(old.ReplacedAt):
		return &condition.Result{
			Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOldSecretUsed,
			Message: fmt.Sprintf("Secret %s was replaced at %s, but a workload used it at or after %s. Make all workloads load the new secret from Secret %q. "+
				"The old one expires when it has been unused for spec.secret.generated.rotation.endWhenUnused.after, at the latest at %s.",
				old.ID, timestamp(old.ReplacedAt), timestamp(used), seen.client.EffectiveSecretName(), timestamp(old.ExpiresAt)),
		}
	case !known:
		// The operator has just started, or there is no token server, which Programmed reports.
		return previousResult(seen.client, v1alpha1.ConditionOldSecretInUse)
	case now.Sub(use.Until) > reportDelay || use.Last.After(latest(old.ReplacedAt, used.Add(instance.Scaled(instance.Usage.Resolution.Duration)))):
		return &condition.Result{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUsageIncomplete,
			Message: fmt.Sprintf("Secret %s was replaced at %s. Since then, uses of it may be missing in the reports of the token servers, for example because one was killed. "+
				"It therefore expires later than it would otherwise, at the latest at %s.",
				old.ID, timestamp(old.ReplacedAt), timestamp(old.ExpiresAt)),
		}
	}
	return nil
}

// previousResult returns the current condition of the given type, or nil if there is none.
func previousResult(c *v1alpha1.ApiClient, kind v1alpha1.ConditionType) *condition.Result {
	before := meta.FindStatusCondition(c.Status.Conditions, string(kind))
	if before == nil {
		return nil
	}
	return &condition.Result{Status: before.Status, Reason: v1alpha1.ConditionReason(before.Reason), Message: before.Message}
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
