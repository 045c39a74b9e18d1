package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// interval is the time between two attempts.
const interval = 500 * time.Millisecond

// waitOptions are the flags of the subcommands that wait until a change is effective.
type waitOptions struct {
	*clusterOptions

	wait    bool
	timeout time.Duration
}

var errTimeout = errors.New("timed out")

// await reads the object until done returns true. It reports each new state while it waits.
func (o *waitOptions) await(ctx context.Context, c *cluster, t *target, done func() (state string, ok bool, err error)) error {
	deadline := time.Now().Add(o.timeout)
	last := ""
	for {
		if err := c.read(ctx, t); err != nil && !isTransient(err) {
			return err
		}
		state, ok, err := done()
		if ok || err != nil {
			return err
		}
		if state != last {
			o.progress("%s", state)
			last = state
		}
		if time.Now().Add(interval).After(deadline) {
			return fmt.Errorf("%w after %s: %s; it can still happen. Look at %q", errTimeout, o.timeout, state, t.command("explain"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}

// isTransient reports whether a request that failed with this API server error may succeed later.
func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

// ready reports whether the object is Ready. It returns an error if the Ready condition is False.
func ready(t *target) (state string, ok bool, err error) {
	c := t.condition(v1beta1.ConditionReady)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return "Waiting until it is Ready", false, nil
	case c.Status == metav1.ConditionTrue:
		return "", true, nil
	}
	return "", false, notReady(t, c)
}

var errNotReady = errors.New("is not Ready")

// notReady returns an error with the reason and message of a condition and the next command.
func notReady(t *target, c *metav1.Condition) error {
	return fmt.Errorf("%s %w (%s): %s Look at %q", t, errNotReady, c.Reason, c.Message, t.command("explain"))
}
