package lastuse

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Uses maps credentials to the time of their last use.
type Uses map[usage.Credential]time.Time

// facts is the information about uses in the objects of the records namespace.
type facts struct {
	// reports are the valid reports by the name of their ConfigMap.
	reports map[string]report
	// rejected are the ConfigMaps with the label of reports that don't contain a valid report.
	rejected map[string]rejection
	// servers are the heartbeats of the token servers by the name of their Lease.
	servers map[string]server
	// lost is the time before which uses may be missing.
	lost time.Time
	// state is the persisted state of the operator; nil until it is known.
	state *state
}

// report is a valid report and the metadata of its ConfigMap.
type report struct {
	object  *corev1.ConfigMap
	content *usage.Report
}

// rejection is the metadata of a ConfigMap without a valid report, and the reason.
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
	// untrusted means that the times that the server reports can't be trusted: the Lease is invalid,
	// the clock is wrong, or the resolution differs. skewed means that the clock is wrong.
	untrusted, skewed bool
	// reported means that the problem was logged.
	reported bool
}

func newFacts() facts {
	return facts{reports: map[string]report{}, rejected: map[string]rejection{}, servers: map[string]server{}}
}

// lose records that uses before a time may be missing.
func (f *facts) lose(at time.Time) {
	f.lost = timestamp.Latest(f.lost, at)
}

func (f *facts) uses(client types.UID) Uses {
	var uses Uses
	for _, r := range f.reports {
		for credential, at := range r.content.Uses[client] {
			if uses == nil {
				uses = Uses{}
			}
			uses[credential] = timestamp.Latest(uses[credential], at)
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
		recorded = timestamp.Latest(recorded, r.content.Uses[client][credential])
	}
	if since = f.lost; !recorded.IsZero() {
		since = timestamp.Latest(since, recorded.Add(resolution))
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
	since = timestamp.Latest(since, oldest)
	return since, until, true
}
