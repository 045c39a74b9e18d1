// Package usereport remembers when credentials were last used, and reports it to the operator in
// ConfigMaps; see package usage.
//
// A request usually only compares the number of the current period with the number in the client. The
// first use of a credential in a period also adds an entry to a map. The next report removes the entry.
package usereport

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// MaxPending is the maximum number of credentials whose use is not reported yet. They need about 25
// MiB. Uses of further credentials are lost, and the next report says so.
const MaxPending = 1 << 17

// ConfigMaps accesses the ConfigMaps with reports.
type ConfigMaps interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error)
	Create(ctx context.Context, report *corev1.ConfigMap, o metav1.CreateOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, report *corev1.ConfigMap, o metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// Options configures a Recorder. All fields are required.
type Options struct {
	ConfigMaps ConfigMaps // those in the records namespace
	Namespace  string     // the records namespace
	Server     string     // this server's name, unique among token servers
	// Resolution is the length of a period. Reports contain the beginning of the period of a use.
	Resolution time.Duration
	Logger     *slog.Logger
	Metrics    prometheus.Registerer
	Now        func() time.Time
}

// Recorder remembers the last use of credentials until it is reported. It is safe for concurrent use.
type Recorder struct {
	Options
	maxPending int

	writing sync.Mutex // held while a report is written

	mu       sync.Mutex
	pending  uses      // not reported yet, without those that are being written
	writes   bool      // whether a report is being written
	lost     bool      // whether uses may be missing and no report says so yet
	reported time.Time // all uses before this time are reported; zero until the first report
}

// uses are times of the last use in seconds since the Unix epoch, truncated to the resolution.
type uses map[use]int64

type use struct {
	client     string // UID of the ApiClient
	credential usage.Credential
}

// add adds a use. Of two times for the same credential, it keeps the later one.
func (u uses) add(which use, at int64) { u[which] = max(u[which], at) }

// New returns a Recorder. Until Continue is called, it assumes that an earlier process with the same
// name was killed before it reported all uses.
func New(o Options) *Recorder {
	r := &Recorder{Options: o, maxPending: MaxPending, pending: uses{}, lost: true}
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_usage_pending_credentials",
		Help: "Credentials that were used and whose last use is not reported to the operator yet.",
	}, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.pending))
	}))
	return r
}

// Continue records that no uses were lost before this process started.
func (r *Recorder) Continue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = false
}

// Record records that a credential has authenticated a client at the given time.
func (r *Recorder) Record(client *registry.Client, credential usage.Credential, now time.Time) {
	last := client.LastUse(credential)
	// Compare for equality, not for order. If the clock was ahead, its time must not hide later uses.
	if last == nil || last.Load() == number(r.truncate(now)) || !reportable(credential) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Use the current time, because Until may already have returned a time after that of the request.
	at := r.truncate(r.Now())
	which := use{client.UID, credential}
	if _, ok := r.pending[which]; !ok && len(r.pending) >= r.maxPending {
		r.lost = true // the next use in the same period tries again
		return
	}
	r.pending.add(which, at)
	last.Store(number(at))
}

// reportable reports whether a report can contain a credential. The ID of a secret in a record can be empty or too
// long if someone with the operator's credentials wrote it.
func reportable(credential usage.Credential) bool {
	return credential.ID != "" && len(credential.ID) <= usage.MaxIDLength
}

// Until returns the time before which all uses are reported, or zero if no such time is known yet.
func (r *Recorder) Until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 && !r.writes && !r.lost {
		r.reported = r.Now()
	}
	return r.reported
}

// truncate returns the beginning of the period of t, in seconds since the Unix epoch.
func (r *Recorder) truncate(t time.Time) int64 { return usage.Truncate(t, r.Resolution).Unix() }

// number returns the number of a period for registry.Client.LastUse. It needs less memory than the
// time, and is ambiguous only after 136 years.
func number(beginning int64) uint32 { return uint32(beginning) }
