package audit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending is the maximum number of decisions that wait for a slow sink. A fully loaded token
	// server with two cores produces that many in half a second. Sampled events don't count, because
	// the sampler already limits them.
	maxPending = 16_384
	// batchDelay is how long an event waits to be batched with later ones.
	batchDelay = 10 * time.Millisecond
	// maxWrite is the approximate size of one write, in bytes.
	maxWrite = 64 << 10
)

// Log writes events as lines in its own goroutine. Callers never wait for the sink: if too many
// events are pending or the sink fails, events are lost. The log counts lost events and writes a
// line with the count when the sink works again.
//
// Events that anyone can cause are sampled per source, so that a flood of them neither displaces
// decisions nor fills the disk. Suppressed events are counted, and a line reports their number at
// the end of each SamplePeriod.
type Log struct {
	out        io.Writer
	logger     *slog.Logger
	now        func() time.Time
	wake       chan struct{} // signals that events are pending
	stop       chan struct{}
	done       chan struct{}
	lost       atomic.Uint64 // events
	suppressed atomic.Uint64 // events

	mu        sync.Mutex
	pending   []Event
	decisions int // in pending
	sampler   sampler

	// The following fields belong to the writing goroutine.
	spare    []Event // the other half of the double buffer
	buffer   []byte
	reported uint64 // number of lost events already reported in the log
	failed   bool   // the last write failed
	partial  bool   // the last write ended mid-line
	// unreported contains suppressed events that no line has reported yet.
	unreported map[kind]uint64
}

// Open returns a log that writes to out until Close. It logs write errors to logger.
func Open(out io.Writer, logger *slog.Logger, now func() time.Time) *Log {
	l := &Log{
		out: out, logger: logger, now: now,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		sampler: newSampler(), unreported: map[kind]uint64{},
	}
	go l.run()
	return l
}

// Write queues an event. It doesn't wait and doesn't fail. A nil log discards the event.
func (l *Log) Write(e Event) {
	if l == nil {
		return
	}
	if l.add(&e) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// add adds the event to the pending ones, unless it is suppressed or lost. It reports whether the
// event is the first pending one.
func (l *Log) add(e *Event) (first bool) {
	c := e.class()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c != decision:
		if !l.sampler.allow(e, c) {
			l.suppressed.Add(1)
			return false
		}
	case l.decisions >= maxPending:
		l.lost.Add(1)
		return false
	default:
		l.decisions++
	}
	l.pending = append(l.pending, *e)
	return len(l.pending) == 1
}

// Lost returns the number of events lost since Open.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.lost.Load()
}

// Suppressed returns the number of events suppressed by sampling since Open.
func (l *Log) Suppressed() uint64 {
	if l == nil {
		return 0
	}
	return l.suppressed.Load()
}

// Close writes the pending events and stops the log. Write must not be called after Close.
//
// If ctx is done before the sink has accepted the events, Close returns the error of ctx.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	close(l.stop)
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("writing the last audit events: %w", ctx.Err())
	}
}

func (l *Log) run() {
	defer close(l.done)
	periods := time.NewTicker(SamplePeriod)
	defer periods.Stop()
	for {
		select {
		case <-l.stop:
			l.flush()
			l.reportSuppressed()
			return
		case <-periods.C:
			l.flush()
			l.reportSuppressed()
			continue
		case <-l.wake:
		}
		select {
		case <-l.stop:
		case <-time.After(batchDelay):
		}
		l.flush()
	}
}

// flush writes the pending events.
func (l *Log) flush() {
	l.mu.Lock()
	events := l.pending
	l.pending, l.decisions = l.spare[:0], 0
	l.mu.Unlock()

	lines, written := l.buffer[:0], 0
	for i := range events {
		lines = events[i].appendLine(lines)
		if len(lines) < maxWrite && i < len(events)-1 {
			continue
		}
		count := uint64(i + 1 - written)
		if l.write(lines, count) != nil {
			l.lost.Add(count)
		}
		lines, written = lines[:0], i+1
	}
	l.reportLost(lines)
	clear(events) // releases their strings
	l.spare, l.buffer = events, lines
}

// reportLost writes a line with the number of events lost since the last such line. It reuses
// buffer.
func (l *Log) reportLost(buffer []byte) {
	lost := l.lost.Load()
	if lost == l.reported {
		return
	}
	e := Event{Time: l.now(), Action: ActionAudit, Outcome: Failed, Reason: ReasonLinesLost, Lost: lost - l.reported}
	if l.write(e.appendLine(buffer), 0) == nil {
		l.reported = lost
	}
}

// reportSuppressed starts a new SamplePeriod and writes a line for each kind of events that were
// suppressed in the last one.
func (l *Log) reportSuppressed() {
	l.mu.Lock()
	suppressed := l.sampler.reset()
	l.mu.Unlock()
	for kind, count := range suppressed {
		l.unreported[kind] += count
	}
	if len(l.unreported) == 0 {
		return
	}
	lines := l.buffer[:0]
	for _, e := range suppressedEvents(l.unreported, l.now()) {
		lines = e.appendLine(lines)
	}
	if l.write(lines, 0) == nil {
		clear(l.unreported)
	}
}

// write writes complete lines. It logs only the first of consecutive failures.
func (l *Log) write(lines []byte, count uint64) error {
	if l.partial {
		lines = append([]byte("\n"), lines...)
	}
	n, err := l.out.Write(lines)
	if n > 0 {
		l.partial = lines[n-1] != '\n'
	}
	if err != nil && !l.failed {
		l.logger.Error("Failed to write audit events; they are lost", "events", count, "error", err)
	}
	l.failed = err != nil
	return err
}
