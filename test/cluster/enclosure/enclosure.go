// Package enclosure isolates a node from this machine. Programs in an enclosure have their own PID,
// mount and network namespaces. When the first process exits or is killed, the kernel removes the
// whole enclosure.
//
// In the enclosure, /run, /var/lib and /var/log are separate directories, so that files of
// container runtimes don't conflict with those of this machine. All other files are shared.
package enclosure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// Paths in the enclosure.
const (
	Dir = "/run/realmkeeper"     // Enclosure.Dir on this machine
	Bin = "/run/realmkeeper-bin" // Options.BinDir on this machine
)

// Directories in Enclosure.Dir.
const (
	libDir   = "lib" // /var/lib in the enclosure
	logDir   = "log" // /var/log in the enclosure
	stageDir = "mnt" // where /run of the enclosure is prepared
)

const (
	// first is the name of the first process, of its log and of its record.
	first = "enclosure"
	// grace is how long the first process may take to exit. Then the kernel kills the others.
	grace = 30 * time.Second
)

// path is the PATH of the programs in the enclosure. PATH and HOME are their whole environment,
// because they must not see a proxy or a token from the user's shell.
const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Enclosure is an enclosure. It may or may not be running.
type Enclosure struct {
	// Dir is an existing directory for its files. The path must be absolute and must not
	// contain symbolic links.
	Dir string
}

// Options configure the start of an enclosure.
type Options struct {
	Program []string // a program that calls Serve
	BinDir  string   // the directory to mount at Bin
	Lock    *os.File // a file that stays open while the enclosure runs
}

// Start starts the first process and returns when everything is mounted. The network consists
// of a loopback interface that is down.
func (e Enclosure) Start(ctx context.Context, o Options) error {
	for _, dir := range []string{libDir, logDir, stageDir} {
		if err := os.MkdirAll(filepath.Join(e.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	recorded, signalRecorded, err := os.Pipe()
	if err != nil {
		return err
	}
	defer signalRecorded.Close()
	mounted, signalMounted, err := os.Pipe()
	if err != nil {
		return err
	}
	defer mounted.Close()

	p, err := process.Start(process.Command{
		Name: first, Path: o.Program[0], Args: append(o.Program[1:], e.Dir, o.BinDir),
		Dir: e.Dir, Detach: true, Isolate: true,
		Inherit: []*os.File{recordedFD - 3: recorded, mountedFD - 3: signalMounted, 2: o.Lock},
	})
	recorded.Close()
	signalMounted.Close()
	if err != nil {
		return err
	}
	if _, err := signalRecorded.WriteString(done); err != nil {
		return errors.Join(p.Kill(), fmt.Errorf("start the enclosure: %w; %s", err, p.LogTail()))
	}
	stop := context.AfterFunc(ctx, func() { mounted.Close() })
	defer stop()
	message, err := io.ReadAll(mounted)
	if string(message) != done {
		return errors.Join(context.Cause(ctx), err, p.Kill(), fmt.Errorf("start the enclosure: %s", p.LogTail()))
	}
	return nil
}

// Created reports whether Start was called, even if it failed.
func (e Enclosure) Created() bool {
	_, err := os.Stat(filepath.Join(e.Dir, stageDir))
	return err == nil
}

// Running reports whether the enclosure is running.
func (e Enclosure) Running() bool { return process.Running(e.Dir, first) }

// PID returns the process ID of the first process on this machine.
func (e Enclosure) PID() (int, error) { return process.RecordedPID(e.Dir, first) }

// Command returns a command that runs in the enclosure, in the root directory. If ctx is
// canceled, only the wait for the command ends. The command itself runs until the enclosure
// stops.
func (e Enclosure) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	pid, err := e.PID()
	if err != nil {
		return nil, err
	}
	enter := []string{"--target", strconv.Itoa(pid), "--pid", "--mount", "--net", "--wd=/", "--", name}
	command := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	command.Env = []string{path, "HOME=" + os.Getenv("HOME")}
	return command, nil
}

// Stop stops the first process and returns when it has exited. It returns no error if the
// enclosure isn't running.
func (e Enclosure) Stop() error { return process.StopNamed(e.Dir, first, grace) }
