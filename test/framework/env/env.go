// Package env runs a real API server for tests.
//
// Each test binary has one control plane. TestMain configures it, the first test that calls Start
// starts it, and it stops when the binary exits:
//
//	func TestMain(m *testing.M) { env.Main(m, env.WithControllerManager()) }
//
//	func TestSomething(t *testing.T) {
//		cluster := env.Start(t)
//		namespace := cluster.Namespace(t)
//		...
//	}
//
// Nothing remains after the binary exits, even if it is killed with SIGKILL. Several test binaries
// can run at the same time.
package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// startTimeout limits how long the control plane may take to start. On an idle machine, it takes a
// few seconds.
const startTimeout = 2 * time.Minute

// noIssuers configures no external issuers, so the API server accepts only its own tokens.
const noIssuers = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: []\n"

// Env is the running control plane of this test binary.
type Env struct {
	// Config connects to the API server as an administrator. Copy it before you change it.
	Config *rest.Config

	// Client reads and writes through Config, without a cache.
	Client client.WithWatch

	// Kubeconfig is the path of a kubeconfig with the same credentials.
	Kubeconfig string

	// BinDir contains etcd, kube-apiserver, kube-controller-manager and kubectl.
	BinDir string

	// Version is the version of Kubernetes.
	Version *version.Version

	// AuditLog is the path of the API server's audit log. It is empty without WithAuditLog.
	AuditLog string

	// AuthenticationConfig is the path of the API server's AuthenticationConfiguration, which
	// contains no issuer at first. It is empty without WithExternalIssuers.
	AuthenticationConfig string

	// RaceDetector means that the tests run binaries with the race detector. See WithRaceDetector.
	RaceDetector bool

	controlPlane *controlplane.ControlPlane
}

// shared is the control plane that all tests in this test binary share.
var shared struct {
	options *options // nil until Main
	start   sync.Once
	dir     runDir
	env     *Env
	err     error
}

// Main runs the tests of a package and exits with their exit code.
func Main(m *testing.M, opts ...Option) {
	shared.options = newOptions(opts)
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "Failed to stop the control plane of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Start returns the control plane of this test binary. The first call starts it. If it fails to
// start, the test fails immediately.
func Start(t testing.TB) *Env {
	t.Helper()
	if shared.options == nil {
		t.Fatal("env.Start requires a TestMain in this package that calls env.Main")
	}
	shared.start.Do(func() { shared.env, shared.err = start(shared.options) })
	if shared.err != nil {
		t.Fatalf("Failed to start the control plane of the tests: %v", shared.err)
	}
	return shared.env
}

// StartAnother starts another control plane with the same options in the background. The returned function
// waits until it is ready. It stops when the test ends. If snapshot is the path of a snapshot, the control
// plane starts with its data, which includes the CRDs.
func StartAnother(t testing.TB, snapshot string) (await func(testing.TB) *Env) {
	t.Helper()
	dir, err := newRunDir()
	if err != nil {
		t.Fatal(err)
	}
	var another *Env
	started := make(chan struct{})
	go func() {
		defer close(started)
		another, err = startIn(dir.path, shared.options, snapshot)
	}()
	t.Cleanup(func() {
		<-started
		if another != nil {
			if err := another.controlPlane.Stop(); err != nil {
				t.Errorf("Failed to stop another control plane: %v", err)
			}
		}
		if err := dir.remove(); err != nil {
			t.Errorf("Failed to remove the directory of another control plane: %v", err)
		}
	})
	return func(t testing.TB) *Env {
		t.Helper()
		<-started
		if err != nil {
			t.Fatalf("Failed to start another control plane: %v", err)
		}
		return another
	}
}

// SaveSnapshot returns the path of a new snapshot of etcd. It requires WithSnapshots.
func (e *Env) SaveSnapshot(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd.snapshot")
	if err := e.controlPlane.SaveSnapshot(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// RollBack replaces the data of etcd with that of a snapshot of SaveSnapshot while all other programs run.
// bumpRevision is added to the revision of etcd. No other test that needs the API server may run in the meantime.
func (e *Env) RollBack(t testing.TB, snapshot string, bumpRevision int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := e.controlPlane.RollBack(ctx, snapshot, bumpRevision); err != nil {
		t.Fatalf("Failed to roll back etcd: %v", err)
	}
}

func start(o *options) (_ *Env, err error) {
	if shared.dir, err = newRunDir(); err != nil {
		return nil, err
	}
	return startIn(shared.dir.path, o, "")
}

func startIn(dir string, o *options, snapshot string) (*Env, error) {
	// The build doesn't count toward startTimeout. It is limited by the -timeout of the test binary.
	binDir, err := controlplane.BinDir(context.Background(), os.Stderr, o.binaries()...)
	if err != nil {
		return nil, err
	}
	crds, err := o.crdPaths()
	if err != nil {
		return nil, err
	}
	if snapshot != "" {
		crds = nil
	}

	env := &Env{BinDir: binDir, RaceDetector: o.raceDetector}
	if o.auditLog {
		env.AuditLog = filepath.Join(dir, "audit.log")
	}
	if o.externalIssuers {
		env.AuthenticationConfig = filepath.Join(dir, "authentication.yaml")
		issuers := o.authentication
		if issuers == nil {
			issuers = []byte(noIssuers)
		}
		if err := os.WriteFile(env.AuthenticationConfig, issuers, 0o600); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	env.controlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Dir:                  dir,
		BinDir:               binDir,
		ControllerManager:    o.controllerManager,
		AuditLog:             env.AuditLog,
		AuthenticationConfig: env.AuthenticationConfig,
		Proxy:                o.proxy,
		Snapshot:             snapshot,
		FeatureGates:         o.featureGates,
		APIs:                 o.apis,
	})
	if err != nil {
		return nil, err
	}
	env.Config = env.controlPlane.RESTConfig()
	env.Kubeconfig = env.controlPlane.Kubeconfig()
	if env.Version, err = serverVersion(ctx, env.Config); err != nil {
		return nil, errors.Join(err, env.controlPlane.Stop())
	}
	if len(crds) > 0 {
		// The default of 10 s is too short if other test binaries share the two cores.
		install := envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true, MaxTime: time.Minute}
		if _, err := envtest.InstallCRDs(env.Config, install); err != nil {
			return nil, errors.Join(err, env.controlPlane.Stop())
		}
	}
	quiet := rest.CopyConfig(env.Config)
	quiet.WarningHandler = rest.NoWarnings{} // such as those about beta APIs
	if env.Client, err = client.NewWithWatch(quiet, client.Options{Scheme: o.scheme}); err != nil {
		return nil, errors.Join(err, env.controlPlane.Stop())
	}
	return env, nil
}

func serverVersion(ctx context.Context, config *rest.Config) (*version.Version, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	server, err := client.ServerVersionWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("get the version of Kubernetes: %w", err)
	}
	return version.ParseSemantic(server.GitVersion)
}

func stop() error {
	var err error
	if shared.env != nil {
		err = shared.env.controlPlane.Stop()
	}
	return errors.Join(err, shared.dir.remove())
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace creates a namespace for this test only and returns its name, which starts with the
// test's name. The namespace exists until the control plane stops.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	prefix := notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-")
	prefix = strings.Trim(prefix[:min(len(prefix), 40)], "-")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	if err := e.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("Failed to create a namespace for the test: %v", err)
	}
	return namespace.Name
}

// SetServiceAccountIssuers restarts the API server, which then accepts these issuers in addition to the default one,
// and issues tokens with the first one. The test restores the default when it ends.
func (e *Env) SetServiceAccountIssuers(t testing.TB, issuers ...string) {
	t.Helper()
	e.controlPlane.SetServiceAccountIssuers(issuers...)
	t.Cleanup(func() {
		e.controlPlane.SetServiceAccountIssuers()
		e.StopAPIServer(t)
		e.StartAPIServer(t)
	})
	e.StopAPIServer(t)
	e.StartAPIServer(t)
}

// StopAPIServer stops the API server until StartAPIServer is called or the test ends. No other test
// that needs the API server may run in the meantime.
func (e *Env) StopAPIServer(t testing.TB) {
	t.Helper()
	// Register the cleanup first, because the next test needs the API server if this call fails.
	t.Cleanup(func() { e.StartAPIServer(t) })
	if err := e.controlPlane.StopAPIServer(); err != nil {
		t.Fatalf("Failed to stop the API server: %v", err)
	}
}

// StartAPIServer starts the API server again with the same address, credentials and data, and
// returns once it is ready. It does nothing if the API server is running.
func (e *Env) StartAPIServer(t testing.TB) {
	t.Helper()
	// The test's context is canceled before cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := e.controlPlane.StartAPIServer(ctx); err != nil {
		t.Fatalf("Failed to start the API server again: %v", err)
	}
}
