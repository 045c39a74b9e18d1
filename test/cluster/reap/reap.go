// Package reap reaps orphaned processes, as the first process in a PID namespace must.
package reap

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// UntilTerminated reaps processes and returns on SIGTERM or SIGINT. The caller must not wait
// for children itself.
func UntilTerminated() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-signals:
			return
		case <-children:
			reapAll()
		}
	}
}

// reapAll reaps all exited processes, because one signal can announce several.
func reapAll() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
