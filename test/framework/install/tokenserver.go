package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// TokenServer is a running token server.
type TokenServer struct {
	// Name identifies the token server.
	Name string
	// Address is the loopback host:port on which it serves HTTPS.
	Address string
	// Operations is the base URL of its operations port.
	Operations string
	// SnapshotDir is the directory of its last known good records.
	SnapshotDir string

	bundle  []byte // of the CA when the server was started
	command process.Command
	process *process.Process
	ports   []*controlplane.Port
}

// StartTokenServer starts a token server and waits until it is ready. An operator must have run
// before, because the token server needs the serving certificate that the operator creates.
func (i *Installation) StartTokenServer(t testing.TB) *TokenServer {
	t.Helper()
	s := i.LaunchTokenServer(t, "")
	s.AwaitReady(t)
	return s
}

// LaunchTokenServer starts a token server without waiting until it is ready. The token server has
// the permissions of its service account. kubeconfig is the path of its kubeconfig. If it is
// empty, the token server uses the environment's kubeconfig.
func (i *Installation) LaunchTokenServer(t testing.TB, kubeconfig string) *TokenServer {
	t.Helper()
	s := &TokenServer{Name: fmt.Sprintf("token-server-%d", len(i.servers)), bundle: i.CABundle(t)}
	address := i.front.Address()
	if len(i.servers) > 0 {
		address = s.reserve(t)
	}
	s.Address = address
	operations := s.reserve(t)
	s.Operations, s.SnapshotDir = "http://"+operations, t.TempDir()

	cert, key := i.certificateFiles(s)
	pair := i.secret(t, i.tls)
	writeFile(t, cert, pair.Data[corev1.TLSCertKey])
	writeFile(t, key, pair.Data[corev1.TLSPrivateKeyKey])

	s.command = process.Command{
		Name: s.Name, Path: i.binary(t, "token-server"), Dir: i.dir,
		Args: []string{
			"--namespace", i.RecordsNamespace, "--name", s.Name, "--kubeconfig", i.kubeconfigAs(t, tokenServerAccount, s.Name, kubeconfig),
			"--listen", address, "--operations-listen", operations, "--snapshot-dir", s.SnapshotDir,
			"--tls-cert-file", cert, "--tls-key-file", key, "--drain-delay", "0s",
			"--max-staleness", i.MaxStaleness.String(), "--usage-resolution", (usage.DefaultResolution / time.Duration(i.speedUp)).String(), "--debug",
			"--kms-socket", i.KMSSocket,
		},
	}
	for _, accepted := range i.AcceptedIssuers {
		s.command.Args = append(s.command.Args, "--accepted-service-account-issuer", accepted)
	}
	s.start(t)
	i.servers = append(i.servers, s)
	return s
}

func (s *TokenServer) start(t testing.TB) {
	t.Helper()
	var err error
	if s.process, err = process.Start(s.command); err != nil {
		t.Fatal(err)
	}
}

func (s *TokenServer) reserve(t testing.TB) string {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	s.ports = append(s.ports, port)
	return port.Address()
}

// AwaitReady waits until the server is ready.
func (s *TokenServer) AwaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, s.Name+" to be ready", func() error {
		if err := s.process.Exited(); err != nil {
			return err
		}
		return s.Ready(t.Context())
	})
}

// Ready returns nil if the server is ready, and an error otherwise.
func (s *TokenServer) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Operations+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz responded with %s: %s", response.Status, body)
	}
	return nil
}

// Client returns an HTTP client that trusts the managed CA and connects to this server regardless
// of the host name.
func (s *TokenServer) Client(t testing.TB) *http.Client {
	t.Helper()
	return s.ClientTrusting(t, s.bundle)
}

// ClientTrusting returns an HTTP client like Client that trusts the certificates in bundle instead.
func (s *TokenServer) ClientTrusting(t testing.TB, bundle []byte) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("the certificate of the managed CA is not PEM")
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, s.Address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// KillAndRestart kills the server with SIGKILL and restarts it with the same arguments, as the
// kubelet restarts a container. It doesn't wait until the server is ready.
func (s *TokenServer) KillAndRestart(t testing.TB) {
	t.Helper()
	if err := s.process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.start(t)
}

// Terminate sends SIGTERM to the server and doesn't wait for it to exit.
func (s *TokenServer) Terminate(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
}

func (s *TokenServer) stop(t testing.TB) {
	select {
	case <-s.process.Done():
	default:
		if err := s.process.Stop(grace); err != nil {
			t.Errorf("Failed to stop %s: %v", s.Name, err)
		}
	}
	for _, port := range s.ports {
		port.Release()
	}
	if t.Failed() {
		t.Logf("Tail of the log of %s:\n%s", s.Name, s.process.LogTail())
	}
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Freeze pauses the server's process until Thaw is called. A cleanup resumes the process, because
// it can't be stopped while it is paused.
func (s *TokenServer) Freeze(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { s.signal(t, syscall.SIGCONT) })
}

// Thaw resumes a paused server.
func (s *TokenServer) Thaw(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *TokenServer) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.process.PID(), signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("Failed to send %s to %s: %v", signal, s.Name, err)
	}
}
