// Package process starts the programs that the tests and the demo need and ensures that they
// are stopped.
//
// A process is either attached or detached. An attached process is killed when the process
// that started it exits, even by SIGKILL. A detached process keeps running. It is recorded in
// a directory, so that a later process can stop it.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Command describes a program to run and where to write its log and record.
type Command struct {
	// Name is the name of the process in errors, in its log <Dir>/<Name>.log and, if it is
	// detached, in its record <Dir>/<Name>.pid.
	Name string

	// Path is the executable. Args are its arguments without the program name.
	Path string
	Args []string

	// Env is appended to the environment inherited from this process.
	Env []string

	// Dir contains the log and the record. It must exist.
	Dir string

	// Detach keeps the process running after this process exits.
	Detach bool

	// Isolate runs the process as the first process in new PID, mount and network
	// namespaces. When it exits, the kernel kills all other processes in the namespaces and
	// then reports the exit. It requires Linux and root.
	Isolate bool

	// Inherit lists files that the process inherits, starting at file descriptor 3. The
	// kernel releases a lock on such a file when the process exits.
	Inherit []*os.File
}

// Process is a started program.
type Process struct {
	name    string
	log     string
	record  string // empty unless detached
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // the exit error; read it only after done is closed
	stopped atomic.Bool
}

// Start starts the command and returns when the program is executing. Output is appended to
// the log, so that a restart keeps earlier output.
//
// Start fails for a detached command if the recorded process is still running.
func Start(c Command) (*Process, error) {
	p := &Process{
		name: c.Name,
		log:  filepath.Join(c.Dir, c.Name+".log"),
		cmd:  exec.Command(c.Path, c.Args...),
		done: make(chan struct{}),
	}
	if c.Detach {
		p.record = filepath.Join(c.Dir, c.Name+recordSuffix)
		if running, err := readRecord(p.record); err == nil && running.alive() {
			return nil, fmt.Errorf("start %s: already running as process %d, recorded in %s", c.Name, running.pid, p.record)
		}
	}

	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", c.Name, err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.ExtraFiles = c.Inherit
	p.cmd.SysProcAttr = attributes(c)

	if err := p.run(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	if p.record != "" {
		if err := writeRecord(p.record, p.PID()); err != nil {
			err = fmt.Errorf("start %s: %w; end of %s:\n%s", c.Name, err, p.log, p.LogTail())
			return nil, errors.Join(err, p.Kill())
		}
	}
	return p, nil
}

// run starts the program and a goroutine that waits for it to exit.
func (p *Process) run() error {
	started := make(chan error)
	go func() {
		// The kernel kills an attached process when the thread that started it exits, so
		// keep the thread until the process exits.
		unlock := keepThread()
		defer unlock()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// The record stays, because it may already be that of a successor.
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return <-started
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns the path of the log file.
func (p *Process) Log() string { return p.log }

// Done returns a channel that is closed when the process has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited returns an error with the end of the log if the process has exited unexpectedly. It
// returns nil while the process runs and after Stop or Kill.
func (p *Process) Exited() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.stopped.Load() {
		return nil
	}
	how := "without an error"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s exited (%s); end of %s:\n%s", p.name, how, p.log, p.LogTail())
}

// Stop sends SIGTERM, kills the process if it is still running after grace, and returns when
// it has exited. It returns the error of Exited if the process had already exited.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Exited(); err != nil {
		return err
	}
	p.stopped.Store(true)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		return p.Kill()
	}
}

// Kill sends SIGKILL and returns when the process has exited.
func (p *Process) Kill() error {
	p.stopped.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// LogTail returns the end of the log: at most 4 KiB, complete lines.
func (p *Process) LogTail() string {
	const limit = 4 << 10
	log, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil && info.Size() > limit {
		if _, err := log.Seek(-limit, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	tail, err := io.ReadAll(log)
	if err != nil {
		return err.Error()
	}
	if _, rest, cut := bytes.Cut(tail, []byte("\n")); cut && len(tail) == limit {
		tail = rest
	}
	return string(bytes.TrimSpace(tail))
}
