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

// attributes has the kernel kill an attached process with its parent, and gives a
// detached one a session of its own, which the terminal's Ctrl-C doesn't reach.
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

// keepThread keeps the calling goroutine on its thread, which no other goroutine then
// uses or ends: to the kernel, a process's parent is the thread that started it.
func keepThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// startOf identifies a live process by the boot it belongs to and the clock tick at
// which it started. A zombie has ended and only waits to be collected.
func startOf(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name in parentheses and may hold anything;
	// state is the first field behind it and the start the twentieth (proc(5)).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", errors.New("unexpected form of /proc/<pid>/stat")
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(string(boot)) + "/" + string(fields[19]), nil
}
