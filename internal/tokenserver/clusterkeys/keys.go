// Package clusterkeys caches the public keys that the API server publishes for verifying service
// account tokens.
package clusterkeys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

const (
	// refreshInterval is the time between regular refreshes. A key that the cluster has withdrawn
	// is trusted for at most that long.
	refreshInterval = 5 * time.Minute
	// retryInterval is the time to wait after a failed refresh, even if requests use unknown keys.
	retryInterval = 10 * time.Second
	// minInterval is the minimum time between refreshes, even if requests use unknown keys.
	minInterval = time.Second
	// maxWaiting is the maximum number of requests that wait for the API server. Anyone can send a token
	// with an unknown key, and each waiting request uses one of the token server's places for requests.
	maxWaiting = 8
	// maxAbsent is the maximum number of key IDs of other issuers to remember.
	maxAbsent = 1024
	// fetchTimeout limits the wait for the API server, and therefore the delay of a request with an
	// unknown key.
	fetchTimeout = 3 * time.Second
)

// AcceptedIssuer is another issuer of the cluster. The API server publishes only the first one that it accepts. Pods
// that are running when that one changes have tokens of the former issuer.
type AcceptedIssuer struct {
	Issuer string
	// Until is when its tokens are no longer accepted.
	Until time.Time
}

var errAcceptedIssuer = errors.New("must be an issuer, =, and a time in RFC 3339 format")

// ParseAcceptedIssuer parses an issuer and a time that are separated by "=".
func ParseAcceptedIssuer(value string) (AcceptedIssuer, error) {
	at := strings.LastIndex(value, "=")
	if at <= 0 {
		return AcceptedIssuer{}, errAcceptedIssuer
	}
	until, err := time.Parse(time.RFC3339, value[at+1:])
	if err != nil {
		return AcceptedIssuer{}, errAcceptedIssuer
	}
	return AcceptedIssuer{Issuer: value[:at], Until: until}, nil
}

// Options configures Keys. All fields except Accepted are required.
type Options struct {
	// Get sends a GET request for the given path to the API server and returns the body.
	Get func(ctx context.Context, path string) ([]byte, error)
	// Accepted are the cluster's other issuers. Only the cluster's own keys verify their tokens.
	Accepted []AcceptedIssuer
	Logger   *slog.Logger
	Metrics  prometheus.Registerer
	Now      func() time.Time
}

// Keys caches the cluster's issuer and keys. Looking up a known key requires no lock and no I/O.
// Keys is safe for concurrent use.
type Keys struct {
	Options
	current atomic.Pointer[documents] // last known good documents; nil before the first successful refresh
	flight  singleflight.Group
	waiting chan struct{} // limits the requests that wait for a refresh
	success prometheus.Gauge

	mu        sync.Mutex
	attempted time.Time       // when the last refresh started
	failed    bool            // whether the last completed refresh failed
	failedAt  time.Time       // when it failed; zero if another one has started
	absent    map[string]bool // key IDs that the cluster didn't publish when RuleOut first saw them
}

// New returns an empty Keys. Run keeps it up to date.
func New(o Options) *Keys {
	k := &Keys{Options: o, waiting: make(chan struct{}, maxWaiting), absent: map[string]bool{}, success: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "realmkeeper_cluster_keys_last_success_timestamp_seconds",
		Help: "Time at which this server last fetched the keys for service account tokens. If it is several minutes old, fetching fails and this server uses the last known good keys.",
	})}
	o.Metrics.MustRegister(k.success)
	return k
}

// Run refreshes the keys regularly until ctx is done. If a refresh fails, the last known good keys
// remain in use.
func (k *Keys) Run(ctx context.Context) {
	for {
		wait := refreshInterval
		if err := k.refresh(ctx); err != nil && !errors.Is(err, errTooSoon) && ctx.Err() == nil {
			wait = retryInterval
			k.Logger.Warn("Failed to refresh cluster keys, using last known good keys, will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Key returns the cluster's issuers and the key with the given ID. If the key is unknown, Key first
// refreshes the keys, but at most once per second, and not within retryInterval of a failed refresh.
// At most maxWaiting callers wait for a refresh, which they share.
//
// Errors: jws.ErrKey; clientassertion.ErrNoKeys before the first successful refresh, and if the API
// server can't be asked about an unknown key.
func (k *Keys) Key(ctx context.Context, id string) (issuers []string, key signingkey.PublicKey, err error) {
	if issuers, key, err = k.Known(id); err == nil {
		return issuers, key, nil
	}
	if err := k.refreshOnDemand(ctx); err != nil && !errors.Is(err, errTooSoon) {
		k.Logger.Debug("Failed to refresh cluster keys after an unknown key ID", "error", err)
		if issuers, key, err := k.Known(id); err == nil {
			return issuers, key, nil
		}
		return nil, signingkey.PublicKey{}, clientassertion.ErrNoKeys
	}
	return k.Known(id)
}

// Known is like Key, but never refreshes the keys.
//
// Errors: clientassertion.ErrNoKeys before the first successful refresh; jws.ErrKey.
func (k *Keys) Known(id string) (issuers []string, key signingkey.PublicKey, err error) {
	current := k.current.Load()
	if current == nil {
		return nil, signingkey.PublicKey{}, clientassertion.ErrNoKeys
	}
	key, ok := current.keys[id]
	if !ok {
		return nil, signingkey.PublicKey{}, jws.ErrKey
	}
	return k.issuers(current), key, nil
}

// issuers returns the issuers whose tokens are accepted now.
func (k *Keys) issuers(current *documents) []string {
	all := []string{current.issuer}
	for _, accepted := range k.Accepted {
		if k.Now().Before(accepted.Until) {
			all = append(all, accepted.Issuer)
		}
	}
	return all
}

// RuleOut makes sure that the cluster's key with the given ID is known if there is one: it refreshes
// the keys when it sees an unknown ID for the first time. It is for tokens that another issuer's key
// verifies, so that an issuer with the cluster's URL can't use the cluster's keys before they are
// known here. A token of an issuer with another URL needs no refresh.
//
// Errors: clientassertion.ErrNoKeys if the API server can't be asked.
func (k *Keys) RuleOut(ctx context.Context, issuer, id string) error {
	current := k.current.Load()
	if current != nil && (!slices.Contains(k.issuers(current), issuer) || current.has(id)) {
		return nil
	}
	k.mu.Lock()
	absent := k.absent[id]
	k.mu.Unlock()
	if absent {
		return nil
	}
	err := k.refreshOnDemand(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	// Keys that were loaded less than a second ago are current.
	if k.current.Load() == nil || k.failed || err != nil && !errors.Is(err, errTooSoon) {
		return clientassertion.ErrNoKeys
	}
	if len(k.absent) >= maxAbsent {
		clear(k.absent)
	}
	k.absent[id] = true
	return nil
}

var (
	errTooSoon        = errors.New("the keys were refreshed less than a second ago")
	errPaused         = errors.New("the last refresh failed recently")
	errTooManyWaiting = errors.New("too many requests wait for a refresh")
)

// refreshOnDemand refreshes the keys for a request, unless too many requests already wait. Otherwise,
// requests with unknown keys could use all places while the API server doesn't respond.
func (k *Keys) refreshOnDemand(ctx context.Context) error {
	if k.paused() {
		return errPaused
	}
	select {
	case k.waiting <- struct{}{}:
	default:
		return errTooManyWaiting
	}
	defer func() { <-k.waiting }()
	return k.refresh(ctx)
}

// paused reports whether the last refresh failed less than retryInterval ago.
func (k *Keys) paused() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	since := k.Now().Sub(k.failedAt)
	return since >= 0 && since < retryInterval
}

// refresh fetches the keys once for all concurrent callers. Canceling a caller's context doesn't
// cancel the shared request.
func (k *Keys) refresh(ctx context.Context) error {
	result := k.flight.DoChan("", func() (any, error) {
		if !k.due() {
			return nil, errTooSoon
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.failed = err != nil; k.failed {
			k.failedAt = k.Now()
		}
		return nil, err
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r := <-result:
		return r.Err
	}
}

// due reports whether at least minInterval has passed since the last refresh started. If so, it
// records the current time as the start of the next one.
func (k *Keys) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	if since := now.Sub(k.attempted); since >= 0 && since < minInterval {
		return false
	}
	k.attempted, k.failedAt = now, time.Time{}
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
		k.Logger.Info("Loaded cluster keys", "issuer", next.issuer, "keys", len(next.keys), "notSupported", skipped)
	}
	return nil
}
