package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/version"
)

const (
	// fieldOwner is the field manager of the heartbeat Leases.
	fieldOwner = "realmkeeper-token-server"
	// writeTimeout limits each write, so that a hanging write doesn't block the next one.
	writeTimeout = 5 * time.Second
	// maxLoad is how long the first load may take. After heartbeat.MaxJoin, the operator no longer waits
	// for this server; the difference allows for clocks that differ.
	maxLoad = heartbeat.MaxJoin - 2*time.Minute
	// maxRenewal is the staleness beyond which the server doesn't renew its Lease if Options don't limit
	// the staleness.
	maxRenewal = 5 * time.Minute
)

// backoff returns the delays after failed writes. They grow from MinInterval to at most MaxInterval
// and are random, so that the token servers don't all return at the same time after an outage.
func backoff() wait.Backoff {
	return wait.Backoff{
		Duration: heartbeat.MinInterval, Factor: 2, Steps: 10, Cap: heartbeat.MaxInterval * 4 / 5, Jitter: 0.25,
	}
}

// publisher writes this server's heartbeat Lease.
type publisher struct {
	// These don't change, and are safe for concurrent use.
	Options
	progress    *progress
	requests    *keyRequests
	keys        *keyring
	unreadable  func() []string
	staleness   func() time.Duration
	lastContact prometheus.Gauge

	// writing contains a value during a write of the Lease, which must not overlap with another one, and since the
	// Lease was removed. Who has put it there owns all fields below: the goroutine of run, or one of the reflector.
	writing chan struct{}
	// joined reports whether the Lease was written, so that the records can be listed. began is the first
	// attempt, which may have created the Lease even if it failed.
	joined bool
	began  time.Time
	// previous is the report in the Lease that a previous process left; empty if there was none, and nil
	// until that is known. The Lease contains it until the records are loaded.
	previous *heartbeat.Heartbeat
	// uncounted means that the previous process left a Lease without a version, for which the operator may
	// not wait any more.
	uncounted bool
}

func newPublisher(o Options, p *progress, r *keyRequests, k *keyring, unreadable func() []string, staleness func() time.Duration) *publisher {
	lastContact := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "realmkeeper_heartbeat_last_success_timestamp_seconds",
		Help: "Time at which this server last wrote its heartbeat. If it is older than 30 seconds, the API server is unavailable and this server keeps serving its current records.",
	})
	o.Metrics.MustRegister(lastContact, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_heartbeat_lag_seconds",
		Help: "How long the heartbeat has been behind the records that this server serves. The operator waits until it has caught up. 0 if it is not behind.",
	}, func() float64 { return p.lag(o.Now()).Seconds() }))
	return &publisher{Options: o, progress: p, requests: r, keys: k, unreadable: unreadable, staleness: staleness, lastContact: lastContact, writing: make(chan struct{}, 1)}
}

// run writes the heartbeat after each change of the version, each new request for keys, and each
// realm whose keys have been decrypted, at most every MinInterval and at least every MaxInterval. After
// a failure, it waits for the delays of backoff instead, or until the watch delivers something. It
// ends when ctx is done.
func (p *publisher) run(ctx context.Context) {
	next, delays := heartbeat.MaxInterval, backoff()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.progress.changed:
			delays = backoff()
		case <-time.After(next):
		}
		written, err := p.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.Logger.Warn("Failed to write heartbeat Lease, will retry", "error", err)
			next = delays.Step()
		case !written:
			continue
		default:
			next, delays = heartbeat.MaxInterval, backoff()
		}
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat.MinInterval):
		}
	}
}

// renew writes the heartbeat, unless the server has not joined yet, or its records are so stale that no
// other process should wait for it.
func (p *publisher) renew(ctx context.Context) (written bool, err error) {
	p.writing <- struct{}{}
	defer func() { <-p.writing }()
	if !p.joined {
		return false, nil
	}
	if stale, limit := p.unrenewed(); stale > limit {
		p.Logger.Warn("Stale records, not renewing heartbeat Lease", "staleness", stale.Round(time.Second).String(), "limit", limit.String())
		return false, nil
	}
	return true, p.write(ctx)
}

// unrenewed returns how stale the records are, and the staleness beyond which the Lease is not renewed. A
// server without records is as stale as it is slow.
func (p *publisher) unrenewed() (stale, limit time.Duration) {
	switch {
	case !p.Registry.Loaded():
		return p.Now().Sub(p.began), heartbeat.MaxJoin
	case p.MaxStaleness > 0:
		return p.staleness(), p.MaxStaleness
	default:
		return p.staleness(), maxRenewal
	}
}

// join writes the Lease before the server lists the records for the first time. The operator therefore
// knows each server that may have listed an older version of a record than the one it writes. If a
// previous process has left a Lease, it keeps its version: the operator counts on what that process
// served. join does nothing once the Lease is written.
func (p *publisher) join(ctx context.Context) error {
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.writing }()
	if p.joined {
		return nil
	}
	if p.previous == nil {
		if err := p.readPrevious(ctx); err != nil {
			return err
		}
	}
	if p.began.IsZero() {
		p.began = p.Now()
	}
	err := p.write(ctx)
	p.joined = err == nil
	return err
}

// rejoinIfTooLate makes the server join again, and returns true, if the operator may have stopped waiting
// before the first load was complete. The records that were loaded may then be older than what the operator
// assumes. The server must list again before it serves them.
func (p *publisher) rejoinIfTooLate() bool {
	if p.progress.reached() != "" {
		return false
	}
	p.writing <- struct{}{}
	defer func() { <-p.writing }()
	if !p.joined || !p.uncounted && p.Now().Sub(p.began) <= maxLoad {
		return false
	}
	p.joined, p.began = false, time.Time{}
	return true
}

// write writes the heartbeat.
func (p *publisher) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now, reached := p.Now(), p.progress.reached()
	beat := heartbeat.Heartbeat{Server: p.Server, Software: version.Version, Renewed: now, Refresh: p.requests.current(now)}
	if reached == "" {
		beat.Version, beat.UndecryptedPending, beat.UndecryptedActive = p.previous.Version, p.previous.UndecryptedPending, p.previous.UndecryptedActive
		beat.Unreadable = p.previous.Unreadable
	} else {
		beat.Version, beat.Unreadable = reached, p.unreadable() // of at least the records up to reached
		beat.UndecryptedPending, beat.UndecryptedActive = p.keys.undecrypted()
	}
	if p.Usage != nil {
		beat.UsageUntil, beat.UsageResolution = p.Usage.Until(), p.Usage.Resolution
	}
	lease, err := json.Marshal(beat.Lease(p.Namespace))
	if err != nil {
		return fmt.Errorf("encoding Lease %s: %w", heartbeat.LeaseName(p.Server), err)
	}
	_, err = p.Client.Leases.Patch(ctx, heartbeat.LeaseName(p.Server), types.ApplyYAMLPatchType, lease,
		metav1.PatchOptions{FieldManager: fieldOwner, Force: new(true)})
	if err != nil {
		return fmt.Errorf("writing Lease %s: %w", heartbeat.LeaseName(p.Server), err)
	}
	p.lastContact.Set(float64(now.UnixMilli()) / 1000)
	p.progress.report(reached, now)
	return nil
}

// remove reports the remaining uses of credentials and then deletes the Lease. If the report fails,
// remove keeps the Lease. The operator deletes the Lease once the Pod is gone, and records that
// uses may be missing. Nothing can write the Lease afterwards, not even a list that the reflector has given up.
func (p *publisher) remove(ctx context.Context) {
	p.writing <- struct{}{}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if p.Usage != nil {
		if err := p.Usage.Report(ctx); err != nil {
			p.Logger.Warn("Failed to report the last use of credentials; the operator will treat all credentials as used until now", "error", err)
			return
		}
	}
	err := p.Client.Leases.Delete(ctx, heartbeat.LeaseName(p.Server), metav1.DeleteOptions{})
	if err != nil {
		p.Logger.Warn("Failed to delete heartbeat Lease; the operator will delete it once the Pod is gone", "error", err)
	}
}

// readPrevious reads the Lease that a previous process with this name left. If there is one, that process
// was killed and may not have reported all uses of credentials, and a report must say so before the first
// heartbeat. If that report fails, the heartbeats contain no usage time until a report succeeds.
func (p *publisher) readPrevious(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	lease, err := p.Client.Leases.Get(ctx, heartbeat.LeaseName(p.Server), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		p.previous = &heartbeat.Heartbeat{}
		if p.Usage != nil {
			p.Usage.Continue()
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", heartbeat.LeaseName(p.Server), err)
	}
	previous, err := heartbeat.Parse(lease)
	if err != nil {
		p.Logger.Warn("Ignored the heartbeat of the previous process", "error", err)
	}
	p.previous, p.uncounted = &previous, previous.Version == ""
	if p.Usage == nil {
		return nil
	}
	if err := p.Usage.Report(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.Logger.Warn("Failed to report that uses of credentials may be missing, will retry", "error", err)
	}
	return nil
}
