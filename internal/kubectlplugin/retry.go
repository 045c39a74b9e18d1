package kubectlplugin

import (
	"context"
	"errors"
	"time"
)

// interval is between two tries.
const interval = 500 * time.Millisecond

// passing is an error that may pass by itself.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// persist calls try until it succeeds or fails for good. It begins no try later than after
// the given time, and then returns the last error.
func persist(ctx context.Context, patience time.Duration, try func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if _, mayPass := errors.AsType[passing](err); !mayPass || time.Now().Add(interval).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(interval):
		}
	}
}
