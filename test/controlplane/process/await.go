package process

import (
	"context"
	"fmt"
	"time"
)

// Await returns when ready does without an error, and fails when the process has ended or
// ctx is over before. ready says what is missing; it is asked again and again. The error
// holds the end of the log.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := ready(ctx)
		if missing == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Exited()
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is ready: %w; last seen: %w; the end of %s:\n%s",
				p.name, context.Cause(ctx), missing, p.log, p.LogTail())
		case <-tick.C:
		}
	}
}
