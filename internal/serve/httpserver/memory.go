package httpserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// liveShare is the part of the Go runtime's memory that may be in use. Beyond it, connections are
	// closed. It is only reached if a connection or a request takes more than its share below.
	liveShare = 0.8
	// memoryInterval is the time between two checks of the memory in use.
	memoryInterval = 100 * time.Millisecond

	// heapShare is the part of the memory limit for the Go runtime. The rest is for what it doesn't
	// know: the kernel's buffers and page tables, and files in memory.
	heapShare = 0.75
	// unlimited is assumed if neither a control group nor GOMEMLIMIT limits the memory.
	unlimited = 1 << 30

	// connectionBytes is the most that a connection needs beyond its requests: the TLS records that
	// it sends and receives, the tables and windows of HTTP/2, the messages of the handshake,
	// its goroutines, and the sockets of the kernel.
	connectionBytes = 128 << 10
	// requestBytes is the most that a request needs until its response has been sent: headers twice,
	// while they are decoded, the body, the response, and the goroutine.
	requestBytes = 64 << 10

	// minConnections and maxConnections bound the derived numbers.
	minConnections = 64
	maxConnections = 20_000
)

// Memory divides the memory of a process among everything that clients can make it keep. The shares
// are fixed at start.
type Memory struct {
	// Limit is the memory limit in bytes: that of the control group, or the one that GOMEMLIMIT implies
	// if it is lower.
	Limit int64
	// Connections and PerSource are the maximum numbers of connections to the public port: a
	// quarter of the memory, in total and from one source.
	Connections, PerSource int
	// InFlight is the maximum number of requests in progress, for a sixteenth of the memory.
	InFlight int
	// SlowHashes is the memory for hashing secrets slowly in bytes: a quarter of the memory.
	SlowHashes int64
}

// LimitMemory makes the Go runtime keep to the memory limit of the control group, unless GOMEMLIMIT
// is set, and returns the shares of the memory.
func LimitMemory() (Memory, error) {
	heap, err := memlimit.Set(memlimit.WithRatio(heapShare))
	if err != nil && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		return Memory{}, fmt.Errorf("limiting the memory of this process: %w", err)
	}
	limit, err := memlimit.FromCgroup()
	switch {
	case err == nil && limit < math.MaxInt64:
		return Divide(min(int64(limit), limitOf(heap))), nil
	case heap < math.MaxInt64:
		return Divide(limitOf(heap)), nil
	}
	return Divide(unlimited), nil
}

// limitOf returns the memory limit whose share for the Go runtime is heap.
func limitOf(heap int64) int64 {
	if heap > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return int64(float64(heap) / heapShare)
}

// watchMemory calls relieve after each garbage collection that leaves too much memory in use, until ctx is
// done. Only a collection shows what relieve has released.
func watchMemory(ctx context.Context, relieve func()) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	var seen heap
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(samples)
		now := heap{live: samples[0].Value.Uint64(), collections: samples[1].Value.Uint64()}
		if now.short(seen, debug.SetMemoryLimit(-1)) {
			relieve()
		}
		seen = now
	}
}

// heap is the state of the heap: the bytes that the latest garbage collection left, and the number of
// collections.
type heap struct{ live, collections uint64 }

// short reports whether a collection since before has left too much of limit in use.
func (h heap) short(before heap, limit int64) bool {
	return h.collections != before.collections && float64(h.live) > liveShare*float64(limit)
}

// Divide returns the shares of the given memory in bytes.
func Divide(limit int64) Memory {
	connections := int(min(max(limit/4/connectionBytes, minConnections), maxConnections))
	return Memory{
		Limit:       limit,
		Connections: connections,
		PerSource:   connections / 4,
		InFlight:    int(min(max(limit/16/requestBytes, minConnections/2), maxConnections)),
		SlowHashes:  limit / 4,
	}
}
