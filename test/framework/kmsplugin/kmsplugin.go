// Package kmsplugin runs the KMS plugin of test/kms, which keeps its keys in SoftHSM.
package kmsplugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

const (
	// grace limits how long the plugin may take to shut down.
	grace = 10 * time.Second
	// timeout limits the build and each start of the plugin.
	timeout = 5 * time.Minute
)

// Plugin is a KMS plugin. It serves from Start until the end of the test, except after Kill.
type Plugin struct {
	// Socket is the path of the Unix socket.
	Socket string

	program string
	token   string
	command process.Command
	process *process.Process
}

// Start starts a plugin with a new token. Run make softhsm once before.
func Start(t testing.TB) *Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms-") //nolint:usetesting // The path of a Unix socket has at most 107 characters.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	token := filepath.Join(dir, "token")
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{Socket: filepath.Join(dir, "kms.sock"), program: program, token: token}
	p.command = process.Command{Name: "kms", Path: program, Args: []string{"serve", "--token", token, "--socket", p.Socket}, Dir: dir}
	p.launch(t)
	t.Cleanup(func() {
		select {
		case <-p.process.Done():
		default:
			if err := p.process.Stop(grace); err != nil {
				t.Errorf("Failed to stop the KMS plugin: %v", err)
			}
		}
		if t.Failed() {
			t.Logf("Tail of the log of the KMS plugin:\n%s", p.process.LogTail())
		}
	})
	return p
}

// Kill kills the plugin with SIGKILL, which leaves its socket.
func (p *Plugin) Kill(t testing.TB) {
	t.Helper()
	if err := p.process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// launch starts the plugin and waits until it accepts connections.
func (p *Plugin) launch(t testing.TB) {
	t.Helper()
	var err error
	if p.process, err = process.Start(p.command); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err = p.process.Await(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rotate generates a key encryption key and returns its ID. All plugins with this token encrypt with
// it from now on.
func (p *Plugin) Rotate(t testing.TB) string {
	t.Helper()
	return p.run(t, "rotate")
}

// Prune destroys all key encryption keys except for the current one.
func (p *Plugin) Prune(t testing.TB) {
	t.Helper()
	p.run(t, "prune")
}

func (p *Plugin) run(t testing.TB, command string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), p.program, command, "--token", p.token).CombinedOutput()
	if err != nil {
		t.Fatalf("kms %s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Log returns the log of the plugin, which contains a line for each request to encrypt or decrypt.
func (p *Plugin) Log(t testing.TB) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.command.Dir, "kms.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// build builds the plugin once for each test binary.
var build = sync.OnceValues(func() (string, error) {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".test", "kms")
	// Another test binary may run the program, so it must be replaced as a whole.
	staged := fmt.Sprintf("%s.%d", path, os.Getpid())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", staged, "./kms")
	command.Dir = filepath.Join(root, "test")
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the KMS plugin: %w\n%s", err, out)
	}
	return path, os.Rename(staged, path)
})
