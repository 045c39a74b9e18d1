package secrets_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// The fleet has one client whose secret was just rotated. These are the times that the protocol
// between token servers and operator depends on.
const (
	resolution = time.Hour
	quiet      = 24 * time.Hour
	maximum    = 30 * 24 * time.Hour
	maxSkew    = 5 * time.Minute
	// longestPause is the longest time between two uses of a workload that still needs its secret. It
	// allows for the clock skew of two servers.
	longestPause = quiet - 2*maxSkew
)

// fleet models the token servers, the operator with its caches, and a workload with the old secret.
// Each object in the API server has a revision, and each cache can lag behind.
type fleet struct {
	now      time.Time
	old      secret
	facts    secrets.Facts
	replaced time.Time

	servers []*fleetServer
	started int // number of servers that were ever started

	api    map[string]object // by name: leases, reports, and the operator's own object
	rev    int
	status object // the last use in the status of the ApiClient

	operator *fleetOperator
	lastUse  time.Time
}

// object is a value in the API server at a revision.
type object struct {
	kind  string // lease, report
	use   time.Time
	lost  time.Time
	until time.Time // of a lease
	rev   int
	stale time.Time // when a lease was last renewed
	made  time.Time // when a lease was created
}

// fleetServer is a running token server.
type fleetServer struct {
	name    string
	skew    time.Duration
	pending time.Time // the period of a use that is not published; zero if none
	last    time.Time // the last period with a use
}

// fleetOperator is the state of a running operator: caches of leases, reports and the status. Each
// has the revision at which it was filled.
type fleetOperator struct {
	leases, reports       map[string]object
	leasesRev, reportsRev int
	status                object
}

func (f *fleet) put(name string, o object) {
	f.rev++
	o.rev = f.rev
	f.api[name] = o
}

func (f *fleet) remove(name string) {
	f.rev++
	delete(f.api, name)
}

// lost records in the operator's own object that uses before now may be missing.
func (f *fleet) lost() {
	f.put("operator", object{kind: "report", lost: f.now})
}

func (f *fleet) start(name string, skew time.Duration) {
	if name == "" {
		f.started++
		name = string(rune('a' + f.started))
	}
	s := &fleetServer{name: name, skew: skew}
	if _, killed := f.api["lease/"+name]; killed {
		report := f.api["report/"+name]
		report.kind, report.lost = "report", f.now.Add(skew)
		f.put("report/"+name, report)
	}
	if len(f.servers) == 0 {
		f.lastUse = f.now // the workload had no server to use its secret with
	}
	f.servers = append(f.servers, s)
	f.heartbeat(s)
}

// use is a request with the old secret.
func (f *fleet) use(s *fleetServer) {
	f.lastUse = f.now
	if period := f.now.Add(s.skew).Truncate(resolution); !period.Equal(s.last) {
		s.pending, s.last = period, period
	}
}

// publish reports the pending use, and then writes the heartbeat.
func (f *fleet) publish(s *fleetServer) {
	if !s.pending.IsZero() {
		report := f.api["report/"+s.name]
		report.kind, report.use, s.pending = "report", latestOf(report.use, s.pending), time.Time{}
		f.put("report/"+s.name, report)
	}
	f.heartbeat(s)
}

func (f *fleet) heartbeat(s *fleetServer) {
	before, exists := f.api["lease/"+s.name]
	lease := object{kind: "lease", until: f.now.Add(s.skew), stale: f.now, made: f.now}
	if exists {
		lease.made = before.made
	}
	if !s.pending.IsZero() {
		lease.until = before.until
	}
	f.put("lease/"+s.name, lease)
}

// stop ends a server, either cleanly or as kill -9 does.
func (f *fleet) stop(s *fleetServer, clean bool) {
	if clean {
		f.publish(s)
		f.remove("lease/" + s.name)
	}
	f.servers = slices.DeleteFunc(f.servers, func(other *fleetServer) bool { return other == s })
}

// of returns the objects of one kind.
func of(kind string, objects map[string]object) map[string]object {
	selected := maps.Clone(objects)
	maps.DeleteFunc(selected, func(_ string, o object) bool { return o.kind != kind })
	return selected
}

// watchLeases, watchReports and watchStatus update a cache.
func (f *fleet) watchLeases() {
	f.operator.leases, f.operator.leasesRev = of("lease", f.api), f.rev
}

func (f *fleet) watchReports() {
	f.operator.reports, f.operator.reportsRev = of("report", f.api), f.rev
}

func (f *fleet) watchStatus() { f.operator.status = f.status }

// merge writes the newest reported use to the status.
func (f *fleet) merge() {
	for _, o := range f.operator.reports {
		if o.use.After(f.operator.status.use) && o.use.After(f.status.use) {
			f.rev++
			f.status = object{use: o.use, rev: f.rev}
		}
	}
}

// collect deletes the reports whose uses are in the cached status, and the leases of dead servers.
// Live servers always renew their leases. The protocol doesn't cover a live server that can't reach
// the API server for longer than the quiet time.
func (f *fleet) collect() {
	for name, o := range f.operator.reports {
		if o.lost.After(f.api["operator"].lost) {
			f.put("operator", object{kind: "report", lost: o.lost})
		}
		if name != "operator" && f.api[name].rev == o.rev && !o.use.After(f.operator.status.use) {
			f.remove(name)
		}
	}
	for name, o := range f.operator.leases {
		running := slices.ContainsFunc(f.servers, func(s *fleetServer) bool { return "lease/"+s.name == name })
		if !running && f.api[name].rev == o.rev && f.now.Sub(o.stale) > 30*time.Second {
			f.lost()
			f.remove(name)
		}
	}
}

// uses returns what the operator knows about uses of the old secret. The operator deletes a report
// only after its cached status contains the uses, so it misses none of them. Nothing is known about
// the time before the oldest running server started, because workloads may have had no server then.
func (f *fleet) uses() map[string]secrets.Use {
	o := f.operator
	if len(o.leases) == 0 || o.reportsRev < o.leasesRev {
		return nil
	}
	until, lost := f.now, f.now
	for _, lease := range o.leases {
		until, lost = earliestOf(until, lease.until), earliestOf(lost, lease.made)
	}
	last := o.status.use
	for _, report := range o.reports {
		last, lost = latestOf(last, report.use), latestOf(lost, report.lost)
	}
	if !last.IsZero() {
		last = last.Add(resolution)
	}
	return map[string]secrets.Use{f.old.ID: {Last: latestOf(last, lost), Until: until}}
}

// plan reconciles the client and reports whether the old secret is still valid.
func (f *fleet) plan(t *rapid.T) bool {
	f.facts.Uses = f.uses()
	p, err := secrets.Make(f.facts, secrets.Want{Generated: &secrets.Schedule{Overlap: maximum, UnusedFor: quiet}}, f.now, noRandom)
	if err != nil {
		t.Fatal(err)
	}
	f.facts.Recorded = p.Secrets
	return p.Secrets[0].ID == f.old.ID
}

func latestOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earliestOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// newFleet returns a fleet in which the new secret was just delivered.
func newFleet(older, newer secret) *fleet {
	f := &fleet{now: now, old: older, api: map[string]object{}, lastUse: now, replaced: now}
	f.facts = secrets.Facts{Recorded: []record.ClientSecret{older.ClientSecret, newer.ClientSecret}, Delivered: []string{newer.plaintext}}
	f.start("", 0)
	f.restartOperator()
	return f
}

// restartOperator starts an operator, which fills its caches first.
func (f *fleet) restartOperator() {
	f.operator = &fleetOperator{}
	f.watchLeases()
	f.watchReports()
	f.watchStatus()
}

// advance lets time pass. If the workload still uses the old secret, it pauses for at most longestPause.
func (f *fleet) advance(t *rapid.T, d time.Duration) {
	until := f.now.Add(d)
	for next := f.lastUse.Add(longestPause); len(f.servers) > 0 && next.Before(until); next = f.lastUse.Add(longestPause) {
		f.now = latestOf(f.now, next)
		f.use(rapid.SampledFrom(f.servers).Draw(t, "server"))
	}
	f.now = until
}

func (f *fleet) step(t *rapid.T) {
	events := []string{"time", "day", "start", "leases", "reports", "status", "merge", "collect", "restart operator"}
	if len(f.servers) > 0 {
		events = append(events, "use", "publish", "publish", "heartbeat", "kill", "kill and restart", "stop", "clock")
	}
	event := rapid.SampledFrom(events).Draw(t, "event")
	var s *fleetServer
	if len(f.servers) > 0 {
		s = rapid.SampledFrom(f.servers).Draw(t, "server")
	}
	switch event {
	case "time":
		f.advance(t, time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds"))*time.Second)
	case "day":
		f.advance(t, time.Duration(rapid.IntRange(12, 36).Draw(t, "hours"))*time.Hour)
	case "start":
		f.start("", time.Duration(rapid.IntRange(-int(maxSkew), int(maxSkew)).Draw(t, "skew")))
	case "use":
		f.use(s)
	case "publish":
		f.publish(s)
	case "heartbeat":
		f.heartbeat(s)
	case "kill":
		f.stop(s, false)
	case "kill and restart":
		f.stop(s, false)
		f.start(s.name, s.skew)
	case "stop":
		f.stop(s, true)
	case "clock":
		s.skew = time.Duration(rapid.IntRange(-int(maxSkew), int(maxSkew)).Draw(t, "skew"))
	case "leases":
		f.watchLeases()
	case "reports":
		f.watchReports()
	case "status":
		f.watchStatus()
	case "merge":
		f.merge()
	case "collect":
		f.collect()
	case "restart operator":
		f.restartOperator()
	}
}

// A workload that still uses the old secret keeps access until the maximum, even if token servers
// and the operator are killed and caches lag.
func TestLaggingWorkloadKeepsAccess(t *testing.T) {
	older, newer := newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(older, newer)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			f.step(t)
			if !f.plan(t) && f.now.Before(f.replaced.Add(maximum)) {
				t.Fatalf("the old secret ended at %s, last used at %s", f.now, f.lastUse)
			}
		}
	})
}

// After a workload has moved to the new secret, and without further faults, the old one ends after
// the quiet time.
func TestOldSecretEndsAfterWorkloadMoves(t *testing.T) {
	older, newer := newSecret(t, now.Add(-time.Hour)), newSecret(t, now)
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(older, newer)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			f.step(t)
			f.plan(t)
		}
		f.start("", 0)
		moved := f.now
		for f.plan(t) {
			f.now = f.now.Add(time.Minute)
			for _, s := range f.servers {
				f.publish(s)
			}
			f.watchLeases()
			f.watchReports()
			f.merge()
			f.watchStatus()
			f.collect()
			if d := f.now.Sub(moved); d > quiet+resolution+2*maxSkew {
				t.Fatalf("the old secret is still valid %s after its last use: %+v", d, f.facts.Uses)
			}
		}
	})
}
