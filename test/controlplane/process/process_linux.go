package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// attributes makes the kernel kill an attached process when its parent exits. A detached
// process gets a new session, so that Ctrl-C in the terminal doesn't stop it.
func attributes(c Command) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.Detach {
		a = &syscall.SysProcAttr{Setsid: true}
	}
	if c.Isolate {
		a.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
	}
	return a
}

// keepThread locks the calling goroutine to its thread, so that the thread keeps running. To
// the kernel, the parent of a process is the thread that started it.
func keepThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// startOf identifies a running process by the boot ID and the clock tick at which it started.
// It returns os.ErrProcessDone for a zombie, which has exited.
func startOf(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program name in parentheses and can contain any character.
	// After it, the first field is the state and the twentieth is the start time (proc(5)).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", errors.New("unexpected format of /proc/<pid>/stat")
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(string(boot)) + "/" + string(fields[19]), nil
}
