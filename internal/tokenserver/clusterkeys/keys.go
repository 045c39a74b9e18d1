// Package clusterkeys keeps the public keys by which tokens of the cluster's service accounts
// are verified, as the API server publishes them.
package clusterkeys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

const (
	// refreshInterval is how often the keys are got when nothing asks for them: a key that the
	// cluster has withdrawn is trusted no longer than that.
	refreshInterval = 5 * time.Minute
	// retryInterval is how long after a failure they are tried to be got again.
	retryInterval = 10 * time.Second
	// minInterval is how often they are got at most, whoever asks for an unknown key.
	minInterval = time.Second
	// fetchTimeout bounds the wait for the API server, and so for a request with an unknown key.
	fetchTimeout = 3 * time.Second
)

// Options are what Keys stand on. All are required.
type Options struct {
	// Get gets a document of the API server: GET of a path.
	Get     func(ctx context.Context, path string) ([]byte, error)
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Keys are the cluster's issuer and keys. Look-ups take no lock and cause no I/O as long as the key
// is known. Keys are safe for concurrent use.
type Keys struct {
	Options
	current atomic.Pointer[documents] // nil until they were got once; then the last good ones
	flight  singleflight.Group
	success prometheus.Gauge

	mu    sync.Mutex
	tried time.Time // when they were last tried to be got
}

// New returns keys that were not got yet. Run keeps them up to date.
func New(o Options) *Keys {
	k := &Keys{Options: o, success: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "realmkeeper_cluster_keys_last_success_timestamp_seconds",
		Help: "When this server last got the keys by which it verifies tokens of service accounts. Older than some minutes: it goes on with those that it has.",
	})}
	o.Metrics.MustRegister(k.success)
	return k
}

// Run gets the keys now and again until ctx ends. While the API server can't be reached, or
// refuses, the last good ones stay.
func (k *Keys) Run(ctx context.Context) {
	for {
		wait := refreshInterval
		if err := k.refresh(ctx); err != nil && !errors.Is(err, errTooSoon) && ctx.Err() == nil {
			wait = retryInterval
			k.Logger.Warn("Keys of the cluster not got, tried again shortly; tokens of service accounts are verified with the last good ones", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Key returns the cluster's issuer and its key of that id. For one that isn't known the keys are got
// anew, at most once a second; who asks meanwhile waits for the same answer or does without.
//
// Errors: clientassertion.ErrNoKeys until they were got once; clientassertion.ErrKey.
func (k *Keys) Key(ctx context.Context, id string) (issuer string, key signingkey.PublicKey, err error) {
	if issuer, key, err = k.known(id); err == nil {
		return issuer, key, nil
	}
	if err := k.refresh(ctx); err != nil && !errors.Is(err, errTooSoon) {
		k.Logger.Debug("Keys of the cluster not got for an unknown key", "error", err)
	}
	return k.known(id)
}

func (k *Keys) known(id string) (string, signingkey.PublicKey, error) {
	current := k.current.Load()
	if current == nil {
		return "", signingkey.PublicKey{}, clientassertion.ErrNoKeys
	}
	key, ok := current.keys[id]
	if !ok {
		return "", signingkey.PublicKey{}, clientassertion.ErrKey
	}
	return current.issuer, key, nil
}

var errTooSoon = errors.New("the keys were got less than a second ago")

// refresh gets the keys, once for all who ask at a time. Who asks doesn't end it for the others.
func (k *Keys) refresh(ctx context.Context) error {
	result := k.flight.DoChan("", func() (any, error) {
		if !k.due() {
			return nil, errTooSoon
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		return nil, k.fetch(ctx)
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r := <-result:
		return r.Err
	}
}

// due takes note of a try, unless one was made less than minInterval ago.
func (k *Keys) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	if since := now.Sub(k.tried); since >= 0 && since < minInterval {
		return false
	}
	k.tried = now
	return true
}

func (k *Keys) fetch(ctx context.Context) error {
	configuration, err := k.Get(ctx, configurationPath)
	if err != nil {
		return fmt.Errorf("getting %s: %w", configurationPath, err)
	}
	set, err := k.Get(ctx, keysPath)
	if err != nil {
		return fmt.Errorf("getting %s: %w", keysPath, err)
	}
	next, skipped, err := parse(configuration, set)
	if err != nil {
		return err
	}
	k.success.Set(float64(k.Now().Unix()))
	if before := k.current.Swap(&next); before == nil || !before.equal(next) {
		k.Logger.Info("Keys of the cluster loaded", "issuer", next.issuer, "keys", len(next.keys), "notSupported", skipped)
	}
	return nil
}
