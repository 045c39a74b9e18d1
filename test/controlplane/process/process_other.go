//go:build !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes gives a detached process a session of its own. Only Linux can tie an
// attached process's life to its parent's; elsewhere one survives its parent's SIGKILL.
// Nor can others isolate one.
func attributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: c.Detach}
}

func keepThread() (unlock func()) { return func() {} }

// startOf identifies a live process by the time at which it started.
func startOf(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("ps: %w", err)
	}
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return strings.TrimSpace(start), nil
}
