package lastuse

import (
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
)

var (
	errNotAServer = errors.New("the name does not belong to a report of a token server")
	errFuture     = errors.New("the report contains a time in the future; check the clock of the token server's node")
)

// observeReport adds a ConfigMap. If it isn't a valid report, observeReport returns the reason and an
// error.
//
// The uses in a rejected report of a token server are lost. observeReport records the loss, so that
// no used credential looks unused.
func (f *facts) observeReport(object *corev1.ConfigMap, now time.Time) (metrics.RejectionReason, error) {
	f.forgetReport(object.Name)
	metadata := &corev1.ConfigMap{ObjectMeta: object.ObjectMeta}
	if _, ok := usage.ServerOf(object.Name); !ok {
		f.rejected[object.Name] = rejection{metadata, metrics.NotAServer}
		return metrics.NotAServer, errNotAServer
	}
	content, err := usage.Parse(object)
	reason := metrics.Damaged
	if err == nil && inFuture(content, now) {
		reason, err = metrics.Future, errFuture
	}
	if err != nil {
		f.rejected[object.Name] = rejection{metadata, reason}
		f.lose(now)
		return reason, err
	}
	f.reports[object.Name] = report{metadata, content}
	f.lose(content.Lost)
	return "", nil
}

// forgetReport removes a ConfigMap that was deleted or replaced.
func (f *facts) forgetReport(name string) {
	delete(f.reports, name)
	delete(f.rejected, name)
}

func inFuture(content *usage.Report, now time.Time) bool {
	limit := now.Add(maxSkew)
	if content.Lost.After(limit) {
		return true
	}
	for _, credentials := range content.Uses {
		for _, at := range credentials {
			if at.After(limit) {
				return true
			}
		}
	}
	return false
}

// observeLease adds the heartbeat of a token server. If the times that the server reports can't be
// trusted, the server counts as not having reported any uses. That includes an older token server
// that still has another resolution during a rolling update.
func (f *facts) observeLease(lease *coordinationv1.Lease, resolution time.Duration, now time.Time) server {
	received, err := heartbeat.Parse(lease)
	current := server{renewed: received.Renewed, created: lease.CreationTimestamp.Time, published: received.UsageUntil}
	current.skewed = err == nil && now.Sub(received.Renewed).Abs() > maxSkew
	current.untrusted = err != nil || current.skewed || received.UsageResolution != resolution
	if current.untrusted {
		current.published = time.Time{}
	}
	current.reported = current.untrusted && f.servers[lease.Name].reported
	f.servers[lease.Name] = current
	return current
}
