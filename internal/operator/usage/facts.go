package usage

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/usage"
)

// Uses maps credentials to the time of their last use.
type Uses map[usage.Credential]time.Time

// facts is what the objects in the records namespace say about uses.
type facts struct {
	// reports are the valid reports by the name of their ConfigMap.
	reports map[string]report
	// rejected are the other ConfigMaps with the label of reports.
	rejected map[string]rejection
	// servers are the heartbeats of the token servers by the name of their Lease.
	servers map[string]server
	// lost is the time before which uses may be missing.
	lost time.Time
	// state is the state that the operator has persisted; nil if there is none.
	state *state
}

// report is a ConfigMap with a valid report. Its data is only in the report.
type report struct {
	object  *corev1.ConfigMap
	content *usage.Report
}

// rejection is a ConfigMap without a valid report.
type rejection struct {
	object *corev1.ConfigMap
	reason metrics.RejectionReason
}

// server is the heartbeat of a token server.
type server struct {
	renewed time.Time
	created time.Time
	// published is the time before which all uses are in reports. It is zero if that isn't known.
	published time.Time
	// untrusted means that the server's times of uses are wrong, and skewed that its clock is.
	untrusted, skewed bool
	// reported means that this was logged.
	reported bool
}

func newFacts() facts {
	return facts{reports: map[string]report{}, rejected: map[string]rejection{}, servers: map[string]server{}}
}

// lose records that uses before a time may be missing.
func (f *facts) lose(at time.Time) {
	f.lost = later(f.lost, at)
}

func (f *facts) uses(client types.UID) Uses {
	var uses Uses
	for _, r := range f.reports {
		for credential, at := range r.content.Uses[client] {
			if uses == nil {
				uses = Uses{}
			}
			uses[credential] = later(uses[credential], at)
		}
	}
	return uses
}

// quiet implements Store.Quiet.
func (f *facts) quiet(client types.UID, credential usage.Credential, recorded time.Time, resolution time.Duration, now time.Time) (since, until time.Time, ok bool) {
	if len(f.servers) == 0 || f.state == nil {
		return time.Time{}, time.Time{}, false
	}
	for _, r := range f.reports {
		recorded = later(recorded, r.content.Uses[client][credential])
	}
	if since = f.lost; !recorded.IsZero() {
		since = later(since, recorded.Add(resolution))
	}
	until = now
	oldest := now
	for _, server := range f.servers {
		if server.published.Before(until) {
			until = server.published
		}
		if server.created.Before(oldest) {
			oldest = server.created
		}
	}
	// A workload can't have used its credential while there was no token server.
	since = later(since, oldest)
	return since, until, true
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
