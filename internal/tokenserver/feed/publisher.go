package feed

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
)

const (
	// fieldOwner is the field manager of the heartbeat Leases.
	fieldOwner = "realmkeeper-token-server"
	// writeTimeout bounds one write, so that a hanging one doesn't cost the next.
	writeTimeout = 5 * time.Second
)

// publisher writes the heartbeat Lease of this server.
type publisher struct {
	Options
	progress    *progress
	lastContact prometheus.Gauge
}

func newPublisher(o Options, p *progress) *publisher {
	lastContact := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "realmkeeper_heartbeat_last_success_timestamp_seconds",
		Help: "When this server last wrote its heartbeat. Older than half a minute: it has lost the API server and serves what it has.",
	})
	o.Metrics.MustRegister(lastContact, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_heartbeat_lag_seconds",
		Help: "For how long the heartbeat has been behind what this server serves: the operator waits that long already. 0: it isn't behind.",
	}, func() float64 { return p.lag(o.Now()).Seconds() }))
	return &publisher{Options: o, progress: p, lastContact: lastContact}
}

// run writes the heartbeat when the version moves, at most every MinInterval, and at
// least every MaxInterval, from the first load on. When ctx ends it removes the Lease.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			p.remove(context.WithoutCancel(ctx))
			return
		case <-p.progress.moved:
		case <-time.After(heartbeat.MaxInterval):
		}
		version := p.progress.reached()
		if version == "" {
			continue
		}
		p.write(ctx, version)
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat.MinInterval):
		}
	}
}

func (p *publisher) write(ctx context.Context, version string) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now := p.Now()
	beat := heartbeat.Heartbeat{Server: p.Server, Version: version, Renewed: now}
	_, err := p.Client.CoordinationV1().Leases(p.Namespace).
		Apply(ctx, beat.Lease(p.Namespace), metav1.ApplyOptions{FieldManager: fieldOwner, Force: true})
	if err != nil {
		p.Logger.Warn("Heartbeat not written, tried again shortly", "error", err)
		p.progress.nudge()
		return
	}
	p.lastContact.Set(float64(now.UnixMilli()) / 1000)
	p.progress.told(version, now)
}

func (p *publisher) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := p.Client.CoordinationV1().Leases(p.Namespace).Delete(ctx, heartbeat.LeaseName(p.Server), metav1.DeleteOptions{})
	if err != nil {
		p.Logger.Warn("Heartbeat not removed, the operator will in time", "error", err)
	}
}
