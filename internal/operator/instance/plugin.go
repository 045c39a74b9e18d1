package instance

import (
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

// statusInterval is the time between two checks of the KMS plugin. Token servers use the same.
const statusInterval = 30 * time.Second

// retryInterval is the time between two checks of a plugin that doesn't respond.
const retryInterval = 10 * time.Second

// plugin checks whether the KMS plugin responds. Reconciles never wait for it.
type plugin struct {
	status  func(context.Context) (keyID string, err error)
	changed queue.Source

	mu   sync.Mutex
	last pluginState
}

// pluginState is the result of the last check of the KMS plugin.
type pluginState struct {
	checked bool
	// keyID is the ID of the key with which the plugin encrypts. Empty if the plugin didn't respond.
	keyID string
}

// Start checks the plugin until ctx is done. The manager runs it only on the leader.
func (p *plugin) Start(ctx context.Context) error {
	for {
		interval := statusInterval
		keyID, err := p.status(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The operator stops.
		}
		if err != nil {
			interval, keyID = retryInterval, ""
		}
		if p.set(pluginState{checked: true, keyID: keyID}) {
			if err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "The KMS plugin does not respond, will retry")
			}
			p.changed.Enqueue(singleton)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// set stores the result of a check, and reports whether it differs from the last one.
func (p *plugin) set(s pluginState) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, p.last = p.last != s, s
	return changed
}

func (p *plugin) state() pluginState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
