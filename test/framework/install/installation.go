// Package install runs Realmkeeper for tests as users do: the operator and token server binaries
// against a real API server.
package install

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
	"github.com/realmkeeper/realmkeeper/internal/operator/tokenservice"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

const (
	// Domain is the instance domain of an installation.
	Domain = "realmkeeper.localhost"
	// grace limits how long a process may take to shut down.
	grace = 30 * time.Second
	// timeout limits every wait. It is generous because the machine may be busy.
	timeout = 3 * time.Minute
)

// Installation is an instance of Realmkeeper with its own system namespace. Realms are
// cluster-scoped, so only one installation can run at a time. At the end of the test, it is stopped
// and the Instance and all Realms and ApiClients are deleted.
type Installation struct {
	Env *env.Env
	// Namespace is the system namespace.
	Namespace string
	// RecordsNamespace is the namespace of the records and the heartbeat Leases.
	RecordsNamespace string
	// LeaderElection enables leader election for operators. Without it, a new operator doesn't have to
	// wait until the Lease of a killed one expires.
	LeaderElection bool
	// AcceptedIssuers are values of --accepted-service-account-issuer for token servers that are started after it is
	// set.
	AcceptedIssuers []string
	// OperatorEnv is added to the environment of operators that are started after it is set.
	OperatorEnv []string
	// MaxStaleness is the --max-staleness of token servers that are started after it is set.
	MaxStaleness time.Duration
	// KMSSocket is the --kms-socket of operators and token servers that are started after it is set.
	KMSSocket string
	// Binaries is the directory of the operators and token servers that are started after it is set. If it
	// is empty, they are those of this version.
	Binaries string
	// Pod is passed as the Pod name to operators that are started after it is set. If it is empty,
	// operators run as if outside a cluster.
	Pod string

	dir     string
	config  string
	speedUp int                // of the configuration
	tls     string             // the Secret with the serving certificate
	front   *controlplane.Port // the port in the service's address, used by the first token server
	shared  bool               // front belongs to another installation
	metrics *controlplane.Port // of the operator
	servers []*TokenServer

	mu       sync.Mutex
	operator *process.Process
}

// Settings contains the fields of the instance configuration that tests change.
type Settings struct {
	WatchNamespaces      []string // defaults to all namespaces
	NoCredentialsSecrets bool     // disables credentialsSecrets
	DefaultTokenLifetime string   // defaults to 1h
	MaximumTokenLifetime string   // defaults to 24h
	SpeedUp              int      // speeds up rotation by this factor; defaults to 1
	LocalIssuers         bool     // allows trusted issuers at local addresses
	CALifetime           string   // of the managed CA, before it is sped up; defaults to 87600h
	CAOverlap            string   // how long the next CA is published, before it is sped up; defaults to 8760h
	ClusterTrustBundle   bool     // also publishes the managed CA as a ClusterTrustBundle
	TLSSecret            string   // the Secret with the serving certificate and its CA, instead of a managed CA

	// Replaces is an installation, in another cluster, whose address this one takes over. No token
	// server of it may still run.
	Replaces *Installation

	KeyEncryption bool   // enables keyEncryption.kms
	Decrypt       bool   // sets keyEncryption.kms.decrypt
	LogLevel      string // defaults to info

	ProtectRealms bool // installs the policy that denies the deletion of Realms that have clients
}

// New returns an installation without running processes.
func New(t testing.TB, cluster *env.Env, settings Settings) *Installation {
	t.Helper()
	i := In(t, cluster, cluster.Namespace(t), settings)
	i.grantPermissions(t, settings)
	return i
}

// In returns an installation in an existing namespace without running processes. The caller must
// create the records namespace and the permissions.
func In(t testing.TB, cluster *env.Env, namespace string, settings Settings) *Installation {
	t.Helper()
	var front *controlplane.Port
	var err error
	if settings.Replaces != nil {
		front = settings.Replaces.front
	} else if front, err = controlplane.ReservePort(); err != nil {
		t.Fatal(err)
	}
	metrics, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	i := &Installation{
		Env: cluster, Namespace: namespace, RecordsNamespace: namespace + "-records",
		dir: t.TempDir(), front: front, shared: settings.Replaces != nil, metrics: metrics,
	}
	i.config = filepath.Join(i.dir, "config.yaml")
	i.Configure(t, settings)
	t.Cleanup(func() { i.cleanUp(t) })
	return i
}

// Configure writes the instance configuration. The operator reads it when it starts.
func (i *Installation) Configure(t testing.TB, s Settings) {
	t.Helper()
	i.speedUp = max(1, s.SpeedUp)
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\n")
	fmt.Fprintf(&b, "instanceDomain: %s\nexternalPort: %d\n", Domain, i.front.Number())
	fmt.Fprintf(&b, "watchNamespaces: [%s]\n", strings.Join(s.WatchNamespaces, ", "))
	fmt.Fprintf(&b, "security:\n  defaultTokenLifetime: %s\n  maximumTokenLifetime: %s\n",
		orDefault(s.DefaultTokenLifetime, "1h"), orDefault(s.MaximumTokenLifetime, "24h"))
	fmt.Fprintf(&b, "credentialsSecrets:\n  enabled: %t\n", !s.NoCredentialsSecrets)
	fmt.Fprintf(&b, "tokenServer:\n  image: realmkeeper:test\n")
	if s.KeyEncryption {
		fmt.Fprintf(&b, "keyEncryption:\n  kms:\n    image: kms-plugin:test\n    timeout: 1s\n    decrypt: %t\n", s.Decrypt)
	}
	fmt.Fprintf(&b, "trustedIssuers:\n  allowLocalAddresses: %t\n", s.LocalIssuers)
	i.tls = orDefault(s.TLSSecret, pki.ServingSecretName)
	if s.TLSSecret != "" {
		fmt.Fprintf(&b, "tls:\n  secretName: %s\n", s.TLSSecret)
	} else {
		fmt.Fprintf(&b, "tls:\n  managed: {lifetime: %s, overlap: %s, clusterTrustBundle: %t}\n", orDefault(s.CALifetime, "87600h"), orDefault(s.CAOverlap, "8760h"), s.ClusterTrustBundle)
	}
	fmt.Fprintf(&b, "logging:\n  level: %s\n", orDefault(s.LogLevel, "info"))
	fmt.Fprintf(&b, "testing:\n  speedUp: %d\n", i.speedUp)
	if err := os.WriteFile(i.config, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Reconfigure writes the instance configuration and grants the permissions that the operator needs for
// it. The operator reads the configuration when it starts.
func (i *Installation) Reconfigure(t testing.TB, s Settings) {
	t.Helper()
	i.Configure(t, s)
	i.grantPermissions(t, s)
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (i *Installation) binary(t testing.TB, name string) string {
	t.Helper()
	if i.Binaries != "" {
		return filepath.Join(i.Binaries, name)
	}
	return Binary(t, i.Env, name)
}

// StopTokenServers shuts down all token servers and forgets them.
func (i *Installation) StopTokenServers(t testing.TB) {
	t.Helper()
	for _, s := range i.servers {
		s.stop(t)
	}
	i.servers = nil
}

// Servers returns all token servers that were started.
func (i *Installation) Servers() []*TokenServer { return i.servers }

// CABundle waits for the certificates that clients must trust and returns them.
func (i *Installation) CABundle(t testing.TB) []byte {
	t.Helper()
	if i.tls != pki.ServingSecretName {
		return i.secret(t, i.tls).Data[corev1.ServiceAccountRootCAKey]
	}
	bundle := &corev1.ConfigMap{}
	Eventually(t, "ConfigMap "+tokenservice.BundleName, func() error {
		return i.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: i.Namespace, Name: tokenservice.BundleName}, bundle)
	})
	return []byte(bundle.Data[corev1.ServiceAccountRootCAKey])
}

func (i *Installation) secret(t testing.TB, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	Eventually(t, "Secret "+name, func() error {
		return i.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: i.Namespace, Name: name}, secret)
	})
	return secret
}

func (i *Installation) cleanUp(t testing.TB) {
	i.StopOperator(t)
	i.StopTokenServers(t)
	if !i.shared {
		i.front.Release()
	}
	i.metrics.Release()
	ctx, stop := cleanUpContext()
	defer stop()
	i.unprotectRealms(ctx, t)
	// A test can have deleted the CRDs.
	if err := i.Env.Client.DeleteAllOf(ctx, &v1beta1.Realm{}); client.IgnoreNotFound(err) != nil {
		t.Errorf("Failed to delete Realms: %v", err)
	}
	clients := &v1beta1.ApiClientList{}
	if err := i.Env.Client.List(ctx, clients); client.IgnoreNotFound(err) != nil {
		t.Errorf("Failed to list ApiClients: %v", err)
	}
	for k := range clients.Items {
		if err := i.Env.Client.Delete(ctx, &clients.Items[k]); client.IgnoreNotFound(err) != nil {
			t.Errorf("Failed to delete ApiClients: %v", err)
		}
	}
	if err := i.Env.Client.DeleteAllOf(ctx, &v1beta1.Instance{}); client.IgnoreNotFound(err) != nil {
		t.Errorf("Failed to delete the Instance: %v", err)
	}
	i.releaseCluster(ctx, t)
	if t.Failed() {
		t.Logf("Tail of the operator log:\n%s", i.logTail("operator"))
	}
}

// Log returns the log of a token server, including processes that have ended.
func (i *Installation) Log(t testing.TB, s *TokenServer) []byte {
	t.Helper()
	return i.log(t, s.Name)
}

func (i *Installation) log(t testing.TB, name string) []byte {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(i.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func (i *Installation) logTail(name string) string {
	log, err := os.ReadFile(filepath.Join(i.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-8<<10):])
}

// KubeconfigFor writes a copy of the environment's kubeconfig that connects to the given server,
// such as a FaultProxy, and returns its path. The server's certificate is not verified.
func (i *Installation) KubeconfigFor(t testing.TB, server string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(i.Env.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = server
		cluster.CertificateAuthorityData = nil
		cluster.InsecureSkipTLSVerify = true
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
