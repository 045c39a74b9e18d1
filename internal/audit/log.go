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
	// maxPending is how many events wait for a sink that is slow: half a second of the most
	// that a token server on two cores issues.
	maxPending = 16_384
	// gather is how long an event may wait for others to be written with.
	gather = 10 * time.Millisecond
	// maxWrite is about how much is written at once, in bytes.
	maxWrite = 64 << 10
)

// Log writes events as lines, from a goroutine of its own. Whoever has an event never waits
// for the sink: when too many are waiting, or the sink fails, events are lost. That is counted,
// and a line tells it as soon as lines can be written again.
type Log struct {
	out    io.Writer
	logger *slog.Logger
	now    func() time.Time
	wake   chan struct{} // holds one token while events are pending
	ending chan struct{}
	ended  chan struct{}
	total  atomic.Uint64 // events lost

	mu      sync.Mutex
	pending []Event

	// What follows belongs to the writing goroutine.
	spare  []Event // the other half of the double buffer
	buffer []byte
	told   uint64 // of total
	failed bool   // the last write
	torn   bool   // it ended within a line
}

// Open returns a log that writes to out until Close. Faults are told to logger.
func Open(out io.Writer, logger *slog.Logger, now func() time.Time) *Log {
	l := &Log{
		out: out, logger: logger, now: now,
		wake: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	go l.run()
	return l
}

// Write takes an event. It doesn't wait and doesn't fail; a nil log takes nothing.
func (l *Log) Write(e Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	first := len(l.pending) == 0
	full := len(l.pending) >= maxPending
	if !full {
		l.pending = append(l.pending, e)
	}
	l.mu.Unlock()
	switch {
	case full:
		l.total.Add(1)
	case first:
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Lost returns how many events were lost since the start.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.total.Load()
}

// Close writes what is pending and ends the log. No event may come after it.
//
// The error is that of ctx, when the sink takes no more until then.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	close(l.ending)
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("writing the end of the audit log: %w", ctx.Err())
	}
}

func (l *Log) run() {
	defer close(l.ended)
	for {
		select {
		case <-l.ending:
			l.flush()
			return
		case <-l.wake:
		}
		select {
		case <-l.ending:
		case <-time.After(gather):
		}
		l.flush()
	}
}

// flush writes what is pending.
func (l *Log) flush() {
	l.mu.Lock()
	events := l.pending
	l.pending = l.spare[:0]
	l.mu.Unlock()

	lines, written := l.buffer[:0], 0
	for i := range events {
		lines = events[i].appendLine(lines)
		if len(lines) < maxWrite && i < len(events)-1 {
			continue
		}
		count := uint64(i + 1 - written)
		if l.write(lines, count) != nil {
			l.total.Add(count)
		}
		lines, written = lines[:0], i+1
	}
	l.tellLost(lines)
	clear(events) // what they refer to is not kept
	l.spare, l.buffer = events, lines
}

// tellLost writes a line for the events that were lost since the last one, into buffer first.
func (l *Log) tellLost(buffer []byte) {
	lost := l.total.Load()
	if lost == l.told {
		return
	}
	e := Event{Time: l.now(), Action: ActionAudit, Outcome: Failed, Reason: ReasonLinesLost, Lost: lost - l.told}
	if l.write(e.appendLine(buffer), 0) == nil {
		l.told = lost
	}
}

// write writes whole lines. It logs the first of several failures in a row.
func (l *Log) write(lines []byte, count uint64) error {
	if l.torn {
		lines = append([]byte("\n"), lines...)
	}
	n, err := l.out.Write(lines)
	if n > 0 {
		l.torn = lines[n-1] != '\n'
	}
	if err != nil && !l.failed {
		l.logger.Error("Audit lines could not be written and are lost", "lines", count, "error", err)
	}
	l.failed = err != nil
	return err
}
