//go:build !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes starts a detached process in a new session. Only Linux can kill an attached process
// with its parent; on other systems it survives if the parent is killed by SIGKILL. Only Linux
// supports Isolate.
func attributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: c.Detach}
}

func keepThread() (unlock func()) { return func() {} }

// startOf identifies a running process by its start time.
func startOf(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("ps: %w", err)
	}
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return "", fmt.Errorf("process %d has exited", pid)
	}
	return strings.TrimSpace(start), nil
}
