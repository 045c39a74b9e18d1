package confine

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// serverCore is the index, among the cores that this process may use, of the core of the attacked
// servers. Everything else uses the others.
const serverCore = 0

// cores are the cores that this process may use when it starts.
var cores = allowed()

func allowed() (numbers []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	for n := range len(set) * 64 {
		if set.IsSet(n) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// LeaveServerCore moves this process, and those that it starts later, away from the core of the
// attacked servers, unless there is only one.
func LeaveServerCore() error {
	var rest unix.CPUSet
	for i, core := range cores {
		if i != serverCore || len(cores) == 1 {
			rest.Set(core)
		}
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads { // new threads inherit from these
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, &rest); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(rest.Count())
	return nil
}

// pinned returns the start of a command line that runs the rest on one core.
func pinned(index int) []string {
	if len(cores) < 2 {
		return nil
	}
	return []string{"taskset", "-c", strconv.Itoa(cores[index])}
}
