package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// stopwatch measures the time in which the cores were this process's to use: what it used,
// and what nobody did. What other processes took doesn't count, so that a busy machine
// doesn't blur a ratio; on an idle one it is the time on the clock.
type stopwatch struct {
	started  time.Time
	used     time.Duration // by this process, on all cores
	idle     time.Duration // all cores together
	haveIdle bool
}

func startStopwatch() stopwatch {
	idle, ok := idleTime()
	return stopwatch{started: time.Now(), used: cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID), idle: idle, haveIdle: ok}
}

// elapsed returns how long the measured process had all cores for itself, as it were.
func (s stopwatch) elapsed() time.Duration {
	// Reading the idle time may have to wait for a core, so it stands outside of the interval.
	clock, used := time.Since(s.started), cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)-s.used
	idle, ok := idleTime()
	if !ok || !s.haveIdle {
		return clock
	}
	all := used + max(0, idle-s.idle)
	return min(clock, all/time.Duration(runtime.GOMAXPROCS(0)))
}

// others returns the share of the cores' time that other processes had; 0 where the kernel doesn't tell.
func (s stopwatch) others() float64 {
	whole := time.Since(s.started) * time.Duration(runtime.NumCPU())
	used := cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - s.used
	idle, ok := idleTime()
	if !ok || !s.haveIdle {
		return 0
	}
	return max(0, 1-float64(used+idle-s.idle)/float64(whole))
}

// cpuTime returns how long the process or the calling thread has run.
func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // these two clocks exist wherever Go runs on Unix
	}
	return time.Duration(t.Nano())
}

// idleTime returns how long the machine's cores have been idle, where the kernel tells.
func idleTime() (time.Duration, bool) {
	const tick = time.Second / 100 // USER_HZ, the same on all platforms of Linux that Go knows
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line) // cpu user nice system idle iowait ...
	if len(fields) < 6 {
		return 0, false
	}
	idle, err1 := strconv.ParseInt(string(fields[4]), 10, 64)
	wait, err2 := strconv.ParseInt(string(fields[5]), 10, 64)
	return time.Duration(idle+wait) * tick, err1 == nil && err2 == nil
}

// machine says what the figures were taken on.
func machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := bytes.Cut(info, []byte("model name")); ok {
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			model = string(bytes.Trim(line, "\t :"))
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.GOMAXPROCS(0), runtime.Version())
}

// load returns the load averages, where the kernel tells.
func load() string {
	averages, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return string(bytes.Join(bytes.Fields(averages)[:3], []byte(" ")))
}
