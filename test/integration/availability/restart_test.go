package availability_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// If a token server is killed while the API server is unavailable, it restarts with everything that
// it had acknowledged, including revocations.
func TestRestartWithoutAPIServerKeepsRecords(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)
	revoked := install.ApiClient(c.Namespace, "revoked", "acme")
	inst.Create(t, revoked)
	scenario.AwaitUsable(t, inst, revoked)
	rejected := inst.CredentialsSecret(t, revoked)
	inst.Delete(t, revoked)
	inst.AwaitTokens(t, rejected, false)

	cluster.StopAPIServer(t)
	for range 2 { // a server that was restored keeps its records, too
		for _, s := range inst.Servers() {
			s.KillAndRestart(t)
			s.AwaitReady(t)
		}
		inst.AwaitTokens(t, credentials, true)
		inst.AwaitTokens(t, rejected, false)
	}

	cluster.StartAPIServer(t)
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, credentials, false)
}

// The last known good version of a corrupt record also survives a restart.
func TestRestartKeepsLastKnownGoodRecord(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)
	inst.StopOperator(t)
	corrupt := &corev1.Secret{}
	corrupt.Namespace, corrupt.Name = inst.RecordsNamespace, record.RealmSecretName(realm.UID)
	install.Change(t, inst, corrupt, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("corrupt") })

	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to detect the corrupt record", func() error {
			if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != "1" {
				return fmt.Errorf("it reports %s unreadable records", got)
			}
			return nil
		})
		s.KillAndRestart(t)
		s.AwaitReady(t)
	}
	inst.AwaitTokens(t, credentials, true)
}

// While a server drains, it serves all requests and closes each connection after the response, so
// that clients connect to a different server.
func TestDrainingServerFailsNoRequest(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.DrainDelay = 5 * time.Second
	inst.StartOperator(t, "")
	server := inst.StartTokenServer(t)
	realm, c := install.Realm("acme"), install.ApiClient(cluster.Namespace(t), "billing", "acme")
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	credentials := inst.CredentialsSecret(t, c)

	var before, all sync.WaitGroup
	for range 8 {
		before.Add(1)
		all.Go(func() {
			first := sync.OnceFunc(before.Done)
			defer first()
			httpClient := keepAlive(t, server)
			for {
				closed, err := requestToken(t, httpClient, credentials)
				if err != nil {
					t.Errorf("A request on a persistent connection failed: %v", err)
					return
				}
				if closed {
					return
				}
				first()
			}
		})
	}
	before.Wait()
	server.Terminate(t)
	all.Wait()
}

// keepAlive returns an HTTP/1.1 client that reuses a single connection.
func keepAlive(t *testing.T, server *install.TokenServer) *http.Client {
	httpClient := server.Client(t)
	transport, ok := httpClient.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", httpClient.Transport)
	}
	transport.ForceAttemptHTTP2 = false
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return httpClient
}

var errNoToken = errors.New("no token")

// requestToken requests a token and reports whether the server closes the connection.
func requestToken(t *testing.T, httpClient *http.Client, credentials *corev1.Secret) (bool, error) {
	url := string(credentials.Data[v1alpha1.SecretKeyTokenURL]) + "?grant_type=client_credentials"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		return false, err
	}
	req.SetBasicAuth(string(credentials.Data[v1alpha1.SecretKeyClientID]), string(credentials.Data[v1alpha1.SecretKeyClientSecret]))
	response, err := httpClient.Do(req)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return false, err
	}
	if response.StatusCode != http.StatusOK {
		return false, errNoToken
	}
	return response.Close, nil
}
