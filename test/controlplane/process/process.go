// Package process starts the programs that tests and the demo run beside
// themselves, and makes sure that none outlives its purpose.
//
// A process is either attached or detached. An attached one dies with whoever
// started it, even when that is killed with SIGKILL. A detached one stays, and is
// on record in a directory, from which a later process can stop it.
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

// Command says what to run and where its traces go.
type Command struct {
	// Name names the process in errors, its log <Dir>/<Name>.log and, when it is
	// detached, its record <Dir>/<Name>.pid.
	Name string

	// Path is the executable, Args are its arguments without the name.
	Path string
	Args []string

	// Env is added to the environment of the starting process.
	Env []string

	// Dir holds the log and the record. It must exist.
	Dir string

	// Detach lets the process outlive the one that started it.
	Detach bool

	// Isolate gives the process namespaces of its own for process ids, mounts and
	// network. It is the first process in them: all others die with it, and only then
	// has it ended. It takes Linux and root.
	Isolate bool

	// Inherit is held open as long as the process lives, from file descriptor 3 on. A
	// lock on such a file is released by the kernel at the very moment the process
	// ends.
	Inherit []*os.File
}

// Process is a started program.
type Process struct {
	name    string
	log     string
	record  string // empty unless detached
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // how it ended; read it after done
	stopped atomic.Bool
}

// Start runs the command and returns as soon as the program is executing. Output
// is appended to the log, so that a restart keeps what was said before.
//
// A detached command whose record names a live process is refused.
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
			return nil, fmt.Errorf("start %s: %s is running already, as process %d", c.Name, p.record, running.pid)
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
			err = fmt.Errorf("start %s: %w; the end of %s:\n%s", c.Name, err, p.log, p.LogTail())
			return nil, errors.Join(err, p.Kill())
		}
	}
	return p, nil
}

// run starts the program and has a goroutine wait for its end.
func (p *Process) run() error {
	started := make(chan error)
	go func() {
		// An attached process is killed when the thread that started it ends, so
		// the thread is kept for as long as the process lives.
		unlock := keepThread()
		defer unlock()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		if p.record != "" {
			p.err = errors.Join(p.err, removeIfExists(p.record))
		}
		close(p.done)
	}()
	return <-started
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the path of the file that holds what the process wrote.
func (p *Process) Log() string { return p.log }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited tells how the process ended without being asked to, with the end of its
// log. It is nil while the process runs, and after Stop or Kill.
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
	return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, how, p.log, p.LogTail())
}

// Stop asks the process to end, kills it if it hasn't within grace, and returns when
// it is gone. If it had ended by itself before, the error says how.
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

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() error {
	p.stopped.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// LogTail is the end of the log: at most 4 KiB, in whole lines.
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
