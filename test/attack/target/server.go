package target

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"debug/buildinfo"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/test/attack/confine"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const (
	grace = 30 * time.Second
	// restartDelay is how long a server is down after it was killed. The kubelet takes at least as
	// long.
	restartDelay = time.Second
)

// Server is an attacked server within a limit of memory. If it exits, it is started again, as the
// kubelet does.
type Server struct {
	// Name is the name of the program.
	Name string
	// Address is the host:port of its public port, with HTTPS for HostName.
	Address string
	// Roots verify its certificate.
	Roots *x509.CertPool
	// Group has its limit of memory.
	Group *confine.Group

	operations string // base URL
	command    process.Command

	mu       sync.Mutex
	process  *process.Process
	restarts int
	stopping bool
	running  sync.WaitGroup
}

// start starts the program with the given flags in a group with the given limit, and waits until it
// is ready. It adds the flags of the ports and of the certificate.
func start(t testing.TB, cluster *env.Env, name string, limit int64, flags ...string) *Server {
	t.Helper()
	s := &Server{Name: name, Roots: x509.NewCertPool()}
	dir := t.TempDir()
	s.Address = reserve(t)
	operations := reserve(t)
	s.operations = "http://" + operations
	cert, key := s.certificate(t, dir)
	path := install.Binary(t, cluster, name)
	rejectRaceDetector(t, path)
	s.command = process.Command{
		Name: name, Path: path, Dir: dir,
		Args: append([]string{"--listen", s.Address, "--operations-listen", operations, "--tls-cert-file", cert, "--tls-key-file", key}, flags...),
	}
	s.Group = confine.NewGroup(t, limit)
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	install.Eventually(t, name+" to be ready", func() error { return s.ready(t.Context()) })
	return s
}

// rejectRaceDetector fails the test if a program was built with the race detector, which takes
// several times the memory.
func rejectRaceDetector(t testing.TB, path string) {
	t.Helper()
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range info.Settings {
		if setting.Key == "-race" && setting.Value == "true" {
			t.Fatalf("%s was built with the race detector; unset REALMKEEPER_BINARIES or name a directory with ordinary binaries", path)
		}
	}
}

// launch starts the program, unless stop was called. It starts again whenever it exits.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	started, err := s.Group.Start(s.command)
	if err != nil {
		return err
	}
	s.process = started
	s.running.Go(func() {
		<-started.Done()
		if s.countExit() {
			time.Sleep(restartDelay)
			_ = s.launch() // on error, the server remains down and all calls fail
		}
	})
	return nil
}

// countExit counts an exit that stop didn't cause, and reports whether there was one.
func (s *Server) countExit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.restarts++
	}
	return !s.stopping
}

func (s *Server) stop(t testing.TB) {
	s.mu.Lock()
	s.stopping = true
	current := s.process // none starts after this
	s.mu.Unlock()
	_ = current.Stop(grace) // if it has exited, that counts already
	s.running.Wait()
	if t.Failed() {
		t.Logf("End of the log of %s:\n%s", s.Name, current.LogTail())
	}
}

// Restarts returns how many times the program has exited and was started again.
func (s *Server) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

// Peak returns the most memory in bytes that the server has used. See confine.Group.
func (s *Server) Peak() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Group.Peak(s.process.PID())
}

func (s *Server) ready(ctx context.Context) error {
	s.mu.Lock()
	err := s.process.Exited()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	response, err := s.operation(ctx, "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz responded with %s", response.Status)
	}
	return nil
}

func (s *Server) operation(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.operations+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return (&http.Client{Timeout: 10 * time.Second}).Do(req)
}

// certificate writes a serving certificate and its key to dir, and returns their paths.
func (s *Server) certificate(t testing.TB, dir string) (cert, key string) {
	t.Helper()
	authority, err := pki.NewCA(nil, 24*time.Hour, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue([]string{HostName}, 24*time.Hour, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.Roots.AppendCertsFromPEM(authority.Certificate)
	return writeFile(t, dir, "tls.crt", pair.Certificate), writeFile(t, dir, "tls.key", pair.Key)
}

func writeFile(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func reserve(t testing.TB) string {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port.Address()
}
