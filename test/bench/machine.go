package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tolerated is the share of the cores that other processes may use. They displace the benchmarks
// from cores and caches, which affects the token server more than the baseline.
const tolerated = 0.1

// watch measures how much other processes use the cores.
type watch struct {
	started time.Time
	idle    time.Duration
}

func startWatch() watch { return watch{time.Now(), idleTime()} }

// others returns the share of the cores used by other processes, given the CPU time that the
// measured processes used.
func (w watch) others(used time.Duration) float64 {
	whole := time.Since(w.started).Seconds() * float64(runtime.NumCPU())
	return 1 - (used+idleTime()-w.idle).Seconds()/whole
}

// idleTime returns how long the cores have been idle (proc_stat(5)).
func idleTime() (sum time.Duration) {
	const tick = time.Second / 100       // USER_HZ on Linux
	stat, _ := os.ReadFile("/proc/stat") // if it can't be read, idle time counts as used by others
	if fields := strings.Fields(string(stat)); len(fields) > 5 {
		for _, field := range fields[4:6] { // idle and iowait of all cores
			ticks, _ := strconv.ParseInt(field, 10, 64)
			sum += time.Duration(ticks) * tick
		}
	}
	return sum
}

// load returns the load averages, if the kernel reports them.
func load() string {
	averages, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(averages))[:3], " ")
}
