//go:build scale

package scale_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// maxIdleWait limits how long a measurement waits, because other programs can keep the machine busy.
const maxIdleWait = time.Minute

// awaitQuiet waits until the machine is mostly idle. After many deletions, the garbage collector of
// Kubernetes keeps the API server busy for a while, and the next measurement would include that.
func awaitQuiet(t testing.TB) {
	t.Helper()
	began := time.Now()
	idle, total := processorTime(t)
	for range time.Tick(time.Second) {
		idleBefore, totalBefore := idle, total
		idle, total = processorTime(t)
		if (idle-idleBefore)*10 >= (total-totalBefore)*9 {
			return
		}
		if time.Since(began) > maxIdleWait {
			t.Log("The machine is busy with other work, which falsifies the figures")
			return
		}
	}
}

// processorTime returns the time that all processors were idle, and their total time, in ticks.
func processorTime(t testing.TB) (idle, total int) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("/proc/stat: %v", err)
		}
		total += ticks
		if i == 3 || i == 4 { // idle, waiting for a disk
			idle += ticks
		}
	}
	return idle, total
}
