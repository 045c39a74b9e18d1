package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Interval is the time between two attempts.
const Interval = 500 * time.Millisecond

// WaitOptions are the flags of the subcommands that wait until a change is effective.
type WaitOptions struct {
	*Options

	Wait    bool
	Timeout time.Duration
}

var errTimeout = errors.New("timed out")

// Await reads the object until done returns true. It reports each new state while it waits.
func (o *WaitOptions) Await(ctx context.Context, c *Cluster, t *Target, done func() (state string, ok bool, err error)) error {
	deadline := time.Now().Add(o.Timeout)
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
			o.Progress("%s", state)
			last = state
		}
		if time.Now().Add(Interval).After(deadline) {
			return fmt.Errorf("%w after %s: %s; it can still happen. Look at %q", errTimeout, o.Timeout, state, t.Command("explain"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(Interval):
		}
	}
}

// isTransient reports whether a request that failed with this API server error may succeed later.
func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

// Ready reports whether the object is Ready. It returns an error if the Ready condition is False.
func Ready(t *Target) (state string, ok bool, err error) {
	c := t.Condition(v1beta1.ConditionReady)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return "Waiting until it is Ready", false, nil
	case c.Status == metav1.ConditionTrue:
		return "", true, nil
	}
	return "", false, NotReady(t, c)
}

// ErrNotReady means that an object isn't Ready, for a reason that doesn't end by itself.
var ErrNotReady = errors.New("is not Ready")

// NotReady returns an error with the reason and message of a condition and the next command.
func NotReady(t *Target, c *metav1.Condition) error {
	return fmt.Errorf("%s %w (%s): %s Look at %q", t, ErrNotReady, c.Reason, c.Message, t.Command("explain"))
}
