package beacon

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// readTimeout limits each read of the beacon.
	readTimeout = 5 * time.Second
	// retryInterval is the time until the next read after a failed one.
	retryInterval = 2 * time.Second
	// grace is how long a beacon that was read may take to arrive. It is usually on its way, and a watch
	// that an outage has broken is resumed within this time.
	grace = 5 * time.Second
	// listTimeout is how long a list of all records may take until another one is started.
	listTimeout = 5 * time.Minute
)

// Options configures a Monitor. All fields except Recovered are required.
type Options struct {
	// Read returns the current resource version of the beacon, or an empty string if there is none. It
	// must not read from a cache, neither here nor in the API server.
	Read func(context.Context) (string, error)
	// List is called if the watch delivers nothing. It must make the watch start again with a consistent
	// list, and must not wait for it.
	List func()
	// RolledBack is called instead of List if the API server has lost a beacon that the watch delivered.
	RolledBack func()
	// Recovered is called, in a goroutine of its own, when changes arrive again after an outage.
	Recovered func()
	Now       func() time.Time
}

// Monitor decides whether changes of the records reach this process. It is safe for concurrent use.
type Monitor struct {
	Options

	mu      sync.Mutex
	loaded  bool   // whether a list from the API server has arrived
	known   string // resource version of the last beacon that arrived; empty if there is none
	waiting bool   // whether the beacon with the version awaited was read and has not arrived yet
	awaited string
	fresh   bool      // whether changes reach this process
	current time.Time // when the records were last known to be current
	due     time.Time // when the beacon must be read
}

// NewMonitor returns a monitor of records that have not been loaded yet.
func NewMonitor(o Options) *Monitor { return &Monitor{Options: o, current: o.Now()} }

// Listed records that a consistent list of the records has arrived, with the given version of the beacon,
// or an empty one if there is none.
func (m *Monitor) Listed(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = version
	m.prove(m.Now())
	m.loaded = true
}

// Arrived records that the watch delivered a beacon.
func (m *Monitor) Arrived(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = version
	if m.loaded && (!m.waiting || compare(m.known, m.awaited) != newer) {
		m.prove(m.Now())
	}
}

// Deleted records that the watch delivered the deletion of the beacon.
func (m *Monitor) Deleted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = ""
}

// Restore records that the records come from a previous process, which last knew at the given time that
// they were current.
func (m *Monitor) Restore(current time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded && current.Before(m.current) {
		m.current = current
	}
}

// Staleness returns how long ago the records were last known to be current, or 0 while changes reach
// this process.
func (m *Monitor) Staleness() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fresh {
		return 0
	}
	return max(0, m.Now().Sub(m.current))
}

// Current returns when the records were last known to be current.
func (m *Monitor) Current() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

func (m *Monitor) prove(now time.Time) {
	if m.loaded && !m.fresh && m.Recovered != nil {
		go m.Recovered()
	}
	m.fresh, m.current, m.due, m.waiting = true, now, now.Add(Overdue), false
}

// Run reads overdue beacons until ctx is done.
func (m *Monitor) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(m.remaining(), Overdue)): // A list may have arrived before the read is due.
		}
		if m.remaining() <= 0 {
			m.check(ctx)
		}
	}
}

// remaining returns the time until the beacon must be read.
func (m *Monitor) remaining() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded {
		return Overdue
	}
	return m.due.Sub(m.Now())
}

func (m *Monitor) check(ctx context.Context) {
	timeout, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	started := m.Now()
	version, err := m.Read(timeout)
	if ctx.Err() != nil {
		return
	}
	if then := m.judge(started, version, err); then != nil {
		then()
	}
}

// judge decides what follows from a read of the beacon that was sent at the given time.
func (m *Monitor) judge(started time.Time, version string, err error) (then func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	if m.due.After(now) {
		return nil // A beacon or a list has arrived in the meantime.
	}
	if err != nil {
		m.fresh, m.waiting, m.due = false, false, now.Add(retryInterval)
		return nil
	}
	order := compare(m.known, version)
	switch {
	case order == same:
		m.prove(started)
		return nil
	case !m.waiting:
		m.waiting, m.awaited, m.due = true, version, now.Add(grace)
		return nil
	}
	m.fresh, m.due = false, now.Add(listTimeout)
	if order == older {
		return m.RolledBack
	}
	return m.List
}

// RolledBack reports whether the API server has lost a beacon. Both versions are resource versions; current
// is that of the beacon in the API server, and empty if there is none.
func RolledBack(known, current string) bool { return compare(known, current) == older }

// order is how a version of the beacon relates to the one that is known.
type order int

const (
	same order = iota
	newer
	older
)

// compare returns how current relates to known. Both can be empty, which means that there is no beacon.
func compare(known, current string) order {
	switch {
	case known == current:
		return same
	case current == "":
		return older
	case known == "":
		return newer
	}
	// Versions that can't be compared are those of another API server.
	if sign, err := resourceversion.CompareResourceVersion(current, known); err != nil || sign > 0 {
		return newer
	}
	return older
}
