//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

// outage is the duration of the API server outage. It is longer than all Leases of Realmkeeper.
var outage = flag.Duration("e2e.outage", heartbeat.Duration+5*time.Second, "Duration of the outage in TestAPIServerOutage")

// TestAPIServerOutage stops the API server. Token servers must keep serving. If a token server's
// container is killed, it must serve again before the API server is back.
func TestAPIServerOutage(t *testing.T) {
	needsNode(t)
	c := inUse(t)
	servers := tokenServers(t)
	killed, others := servers[0], servers[1:]
	// Each load connects directly to one token server, because Services aren't updated during the
	// outage.
	var loads []*load
	for i, s := range others {
		loads = append(loads, startLoad(t, c.Namespace, fmt.Sprintf("others-%d", i), c.Status.SecretName, "--address", s.Status.PodIP+":8443", "--rate", "500"))
	}
	secret := &corev1.Secret{}
	get(t, c.Namespace, c.Status.SecretName, secret)

	stopAPIServer(t)
	away := time.Now()
	container := containerOf(t, &killed, "token-server")
	ctr(t, "tasks", "kill", "--signal", "SIGKILL", container)
	eventually(t, "the kubelet to restart the container", func() error {
		if now := containerOf(t, &killed, "token-server"); now == "" || now == container {
			return errNotYet
		}
		return nil
	})
	eventually(t, "the killed token server to serve again", func() error {
		return requestToken(t.Context(), killed.Status.PodIP+":8443", secret)
	})
	t.Logf("the token server served again %s after the API server was stopped", time.Since(away).Round(100*time.Millisecond))
	pause(t, time.Until(away.Add(*outage)))
	startAPIServer(t)

	for _, l := range loads {
		l.requireNoFailures(t)
	}
	awaitReady(t, c)
}

// requestToken requests a token from a token server. The Pods of the node are reachable from this
// machine.
func requestToken(ctx context.Context, address string, secret *corev1.Secret) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	config := clientcredentials.Config{
		ClientID: string(secret.Data["client_id"]), ClientSecret: string(secret.Data["client_secret"]),
		TokenURL: string(secret.Data["cluster_token_url"]),
	}
	_, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: transport, Timeout: 5 * time.Second}))
	return err
}

// containerOf returns the ID of the running container in a Pod, as reported by containerd.
func containerOf(t *testing.T, p *corev1.Pod, name string) string {
	t.Helper()
	running := ctr(t, "tasks", "list")
	for id := range strings.FieldsSeq(ctr(t, "containers", "list", "--quiet",
		`labels."io.kubernetes.pod.uid"==`+string(p.UID)+`,labels."io.kubernetes.container.name"==`+name)) {
		for line := range strings.Lines(running) {
			if strings.HasPrefix(line, id) && strings.Contains(line, "RUNNING") {
				return id
			}
		}
	}
	return ""
}

func ctr(t *testing.T, args ...string) string {
	t.Helper()
	return node(t, append([]string{"exec", "ctr", "--namespace", "k8s.io"}, args...)...)
}

func stopAPIServer(t *testing.T) {
	t.Helper()
	node(t, "stop-apiserver")
	t.Cleanup(func() {
		if _, err := try(context.Background(), tool("cluster"), "start-apiserver"); err != nil {
			t.Errorf("restart the API server: %v", err)
		}
	})
}

func startAPIServer(t *testing.T) {
	t.Helper()
	node(t, "start-apiserver")
	eventually(t, "the API server to be ready", func() error {
		_, err := try(t.Context(), tool("kubectl"), "get", "--raw", "/readyz")
		return err
	})
}
