package authority

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// Unusable is the result for the CARenewal condition if the Secret or a part of it can't be used.
var Unusable = condition.NotReady(v1alpha1.ReasonCAUnusable, fmt.Sprintf(
	"The operator cannot use Secret %q in the system namespace or a part of it, so the certificate authority is not renewed. The operator log says how an administrator can correct the Secret.", SecretName))

// Abrupt is the warning if the next CA replaces one for which IsAbrupt holds.
const Abrupt = "Workloads that trust only the current certificate authority fail from then on, because its path length constraint does not permit it to sign the next one."

// Progress returns the result for the CARenewal condition; nil if no renewal is in progress. outdated
// is the number of credentials Secrets that lack the CA or the next one. Progress is a pure function.
func (a *Authority) Progress(now time.Time, outdated int, policy Policy) *condition.Result {
	now = now.UTC().Truncate(time.Second)
	if a.Next != nil {
		at, deadline := policy.MoveAt(a)
		if now.Before(at) {
			message := fmt.Sprintf("The operator adds the next certificate authority to ca.crt in the credentials Secrets. It signs from %s at the earliest, and workloads must load ca.crt again before that time.", at.Format(time.RFC3339))
			if a.IsAbrupt() {
				message += " " + Abrupt
			}
			return &condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCAPublished, Message: message}
		}
		return outdatedCredentials(outdated, fmt.Sprintf("The next certificate authority signs from %s in any case.", deadline.Format(time.RFC3339)))
	}
	if len(a.Previous) == 0 {
		return nil
	}
	last := a.Previous[0].NotAfter
	for _, c := range a.Previous {
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	if outdated > 0 {
		return outdatedCredentials(outdated, fmt.Sprintf("It already signs. Their workloads fail when the previous certificate authorities that they trust expire, the last one on %s.", last.Format(time.RFC3339)))
	}
	return &condition.Result{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCAReplaced, Message: fmt.Sprintf(
		"Another certificate authority signs. The credentials Secrets also contain %d previous ones until they expire, the last one on %s.", len(a.Previous), last.Format(time.RFC3339))}
}

func outdatedCredentials(count int, then string) *condition.Result {
	result := condition.NotReady(v1alpha1.ReasonCredentialsOutdated, fmt.Sprintf(
		"%d credentials Secrets do not contain a certificate authority that clients must trust. %s The operator log contains an error for each failed write, with the name of the ApiClient.", count, then))
	return &result
}

// Renewal shares the result for the CARenewal condition with the controller of Realms. The zero value
// is ready for use.
type Renewal struct {
	mu       sync.Mutex
	known    bool
	result   *condition.Result
	realms   workqueue.TypedRateLimitingInterface[reconcile.Request]
	requests func(context.Context) []reconcile.Request
}

// Set replaces the result, and enqueues all Realms if it changes. nil means that no renewal is in
// progress.
func (r *Renewal) Set(ctx context.Context, result *condition.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := r.known && (r.result == nil) == (result == nil) && (result == nil || *r.result == *result)
	r.known, r.result = true, result
	if same || r.realms == nil {
		return
	}
	for _, request := range r.requests(ctx) {
		r.realms.Add(request)
	}
}

// Result returns the result, and whether it is known.
func (r *Renewal) Result() (*condition.Result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, r.known
}

// Source returns a source that enqueues the given requests when the result changes.
func (r *Renewal) Source(requests func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.realms, r.requests = queue, requests
		if r.known {
			for _, request := range requests(ctx) {
				queue.Add(request)
			}
		}
		return nil
	})
}
