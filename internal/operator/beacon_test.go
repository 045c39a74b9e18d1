package operator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applier is a client whose writes fail while down is true.
type applier struct {
	client.Client

	down atomic.Bool
}

func (a *applier) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	if a.down.Load() {
		return errors.New("connection refused")
	}
	return nil
}

// Everything is reconciled soon after an outage of any length, because a write has failed in each that lasts
// longer than the interval of the beacon.
func TestBeaconWriterNoticesEndOfOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, recoveries := &applier{}, atomic.Int64{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = (&beaconWriter{client: api, namespace: "records", recovered: func() { recoveries.Add(1) }}).Start(ctx)
		}()
		for outages := range int64(2) {
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := recoveries.Load(); got != outages {
				t.Errorf("%d recoveries after %d outages", got, outages)
			}
			api.down.Store(true)
			time.Sleep(12 * time.Second)
			api.down.Store(false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := recoveries.Load(); got != outages+1 {
				t.Errorf("%d recoveries 2 seconds after %d outages", got, outages+1)
			}
		}
	})
}
