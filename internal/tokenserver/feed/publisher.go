package feed

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

const (
	// fieldOwner is the field manager of the heartbeat Leases.
	fieldOwner = "realmkeeper-token-server"
	// writeTimeout limits each write, so that a hanging write doesn't block the next one.
	writeTimeout = 5 * time.Second
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
	Options
	progress    *progress
	contact     *contact
	requests    *keyRequests
	keys        *keyring
	lastContact prometheus.Gauge
}

func newPublisher(o Options, p *progress, c *contact, r *keyRequests, k *keyring) *publisher {
	lastContact := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "realmkeeper_heartbeat_last_success_timestamp_seconds",
		Help: "Time at which this server last wrote its heartbeat. If it is older than 30 seconds, the API server is unavailable and this server keeps serving its current records.",
	})
	o.Metrics.MustRegister(lastContact, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_heartbeat_lag_seconds",
		Help: "How long the heartbeat has been behind the records that this server serves. The operator waits until it has caught up. 0 if it is not behind.",
	}, func() float64 { return p.lag(o.Now()).Seconds() }))
	return &publisher{Options: o, progress: p, contact: c, requests: r, keys: k, lastContact: lastContact}
}

// run writes the heartbeat after each change of the version, each new request for keys, and each
// realm whose keys have been decrypted, at most every MinInterval and at least every MaxInterval. After
// a failure, it waits for the delays of backoff instead, or until the watch delivers something. It
// starts after the first load. When ctx is done, it removes the Lease.
func (p *publisher) run(ctx context.Context) {
	p.continueUsage(ctx)
	next, delays := heartbeat.MaxInterval, backoff()
	for {
		select {
		case <-ctx.Done():
			p.remove(context.WithoutCancel(ctx))
			return
		case <-p.progress.changed:
			delays = backoff()
		case <-time.After(next):
		}
		version := p.progress.reached()
		if version == "" {
			continue
		}
		if p.write(ctx, version) {
			next, delays = heartbeat.MaxInterval, backoff()
		} else {
			next = delays.Step()
		}
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat.MinInterval):
		}
	}
}

// write reports whether it has written the heartbeat.
func (p *publisher) write(ctx context.Context, version string) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now := p.Now()
	beat := heartbeat.Heartbeat{
		Server: p.Server, Version: version, Renewed: now, Refresh: p.requests.current(now),
		Undecrypted: p.keys.undecrypted(), // of at least the records up to version
	}
	if p.Usage != nil {
		beat.UsageUntil, beat.UsageResolution = p.Usage.Until(), p.Usage.Resolution
	}
	_, err := p.Client.CoordinationV1().Leases(p.Namespace).
		Apply(ctx, beat.Lease(p.Namespace), metav1.ApplyOptions{FieldManager: fieldOwner, Force: true})
	if answered(err) {
		p.contact.answer(now)
	}
	if err != nil {
		p.Logger.Warn("Failed to write heartbeat Lease, will retry", "error", err)
		return false
	}
	p.lastContact.Set(float64(now.UnixMilli()) / 1000)
	p.progress.report(version, now)
	return true
}

// answered reports whether the API server is reachable and works. A rejected request, such as one
// without permission, is an answer.
func answered(err error) bool {
	if err == nil {
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.Status().Code < http.StatusInternalServerError
}

// remove reports the remaining uses of credentials and then deletes the Lease. If the report fails,
// remove keeps the Lease. The operator deletes the Lease once it is stale, and records that uses
// may be missing.
func (p *publisher) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if p.Usage != nil {
		if err := p.Usage.Report(ctx); err != nil {
			p.Logger.Warn("Failed to report the last use of credentials; the operator will treat all credentials as used until now", "error", err)
			return
		}
	}
	err := p.Client.CoordinationV1().Leases(p.Namespace).Delete(ctx, heartbeat.LeaseName(p.Server), metav1.DeleteOptions{})
	if err != nil {
		p.Logger.Warn("Failed to delete heartbeat Lease; the operator will delete it once it is stale", "error", err)
	}
}

// continueUsage checks how the previous process with this name ended. If its Lease still exists, it was
// killed and may not have reported all uses of credentials, and a report must say so before the first
// heartbeat. If that report fails, the heartbeats contain no usage time until a report succeeds.
func (p *publisher) continueUsage(ctx context.Context) {
	if p.Usage == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := p.Client.CoordinationV1().Leases(p.Namespace).Get(ctx, heartbeat.LeaseName(p.Server), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		p.Usage.Continue()
		return
	}
	if err := p.Usage.Report(ctx); err != nil {
		p.Logger.Warn("Failed to report that uses of credentials may be missing, will retry", "error", err)
	}
}
