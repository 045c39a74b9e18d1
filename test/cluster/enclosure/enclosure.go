// Package enclosure keeps what a node does to its machine away from this machine: the
// programs in it have process ids, mounts and a network of their own. All of it is gone
// when its first process ends, however that ends.
//
// Inside, /run, /var/lib and /var/log are other directories than outside, so that what
// container runtimes leave there meets nobody else's. All other files are those of this
// machine.
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

// Where things are inside.
const (
	Dir = "/run/realmkeeper"     // Enclosure.Dir
	Bin = "/run/realmkeeper-bin" // Options.BinDir
)

// Directories of Enclosure.Dir.
const (
	libDir   = "lib" // /var/lib inside
	logDir   = "log" // /var/log inside
	stageDir = "mnt" // where the /run of the inside is made
)

const (
	// first names the first process, its log and its record.
	first = "enclosure"
	// grace is how long the end of everything may take: the kernel kills it.
	grace = 30 * time.Second
)

// path is all that the programs inside see of the environment, with HOME: a proxy or a
// token of the user's shell is none of theirs.
const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Enclosure is one, started or not.
type Enclosure struct {
	// Dir is an existing directory for what it writes. It must be absolute and
	// without symbolic links.
	Dir string
}

// Options say how to start one.
type Options struct {
	Program []string // calls Serve
	BinDir  string   // a directory that is Bin inside
	Lock    *os.File // held open as long as it runs
}

// Start starts the first process and returns when the mounts are made. The network has
// nothing but a loopback interface that is down.
func (e Enclosure) Start(ctx context.Context, o Options) error {
	for _, dir := range []string{libDir, logDir, stageDir} {
		if err := os.MkdirAll(filepath.Join(e.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	recorded, tellRecorded, err := os.Pipe()
	if err != nil {
		return err
	}
	defer tellRecorded.Close()
	arranged, tellArranged, err := os.Pipe()
	if err != nil {
		return err
	}
	defer arranged.Close()

	p, err := process.Start(process.Command{
		Name: first, Path: o.Program[0], Args: append(o.Program[1:], e.Dir, o.BinDir),
		Dir: e.Dir, Detach: true, Isolate: true,
		Inherit: []*os.File{recordedFD - 3: recorded, arrangedFD - 3: tellArranged, 2: o.Lock},
	})
	recorded.Close()
	tellArranged.Close()
	if err != nil {
		return err
	}
	if _, err := tellRecorded.WriteString(done); err != nil {
		return errors.Join(p.Kill(), fmt.Errorf("start the enclosure: %w; %s", err, p.LogTail()))
	}
	stop := context.AfterFunc(ctx, func() { arranged.Close() })
	defer stop()
	answer, err := io.ReadAll(arranged)
	if string(answer) != done {
		return errors.Join(context.Cause(ctx), err, p.Kill(), fmt.Errorf("start the enclosure: %s", p.LogTail()))
	}
	return nil
}

// Made tells whether Start was ever called, whatever came of it.
func (e Enclosure) Made() bool {
	_, err := os.Stat(filepath.Join(e.Dir, stageDir))
	return err == nil
}

// Running tells whether it runs.
func (e Enclosure) Running() bool { return process.Running(e.Dir, first) }

// PID is the id of the first process outside.
func (e Enclosure) PID() (int, error) { return process.RecordedPID(e.Dir, first) }

// Command is one to run inside, in the root directory. Its context ends only the waiting
// for it: the command itself ends with the enclosure.
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

// Stop ends everything inside and returns when it has ended. It is no error that nothing
// runs.
func (e Enclosure) Stop() error { return process.StopNamed(e.Dir, first, grace) }
