package token

import (
	"context"
	"errors"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/cluster"
)

// retryable marks a transient error.
type retryable struct{ error }

func (r retryable) Unwrap() error { return r.error }

// retry calls try until it succeeds or returns an error that isn't retryable. After
// the timeout, it makes no further attempts and returns the last error.
func retry(ctx context.Context, timeout time.Duration, try func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := try()
		if _, ok := errors.AsType[retryable](err); !ok || time.Now().Add(cluster.Interval).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(cluster.Interval):
		}
	}
}
