package process

import (
	"context"
	"fmt"
	"time"
)

// Await calls ready until it returns nil. It fails if the process exits or ctx is done first.
// The error contains the last error of ready and the end of the log.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		notReady := ready(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Exited()
		case <-ctx.Done():
			return fmt.Errorf("wait until %s is ready: %w; last error: %w; end of %s:\n%s",
				p.name, context.Cause(ctx), notReady, p.log, p.LogTail())
		case <-tick.C:
		}
	}
}
