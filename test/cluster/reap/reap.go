// Package reap does what the first process of a namespace of process ids owes to the
// others: it collects those whose parents have ended.
package reap

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// UntilTerminated returns at SIGTERM or SIGINT. The caller must have no children of its
// own to wait for.
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
			collect()
		}
	}
}

// collect collects all that have ended: one signal may stand for many.
func collect() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
