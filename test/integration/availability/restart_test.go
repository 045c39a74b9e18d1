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
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A token server that is killed while the API server is away comes back with all that it
// had acknowledged, revocations included.
func TestRestartedServerServesWithoutTheAPIServer(t *testing.T) {
	cluster := env.Start(t)
	inst, _, c := scenario.InUse(t, cluster)
	consumer := inst.ConsumerSecret(t, c)
	revoked := install.ApiClient(c.Namespace, "revoked", "acme")
	inst.Create(t, revoked)
	scenario.AwaitUsable(t, inst, revoked)
	refused := inst.ConsumerSecret(t, revoked)
	inst.Delete(t, revoked)
	inst.AwaitTokens(t, refused, false)

	cluster.StopAPIServer(t)
	for range 2 { // what was kept is kept by who was restored too
		for _, s := range inst.Servers() {
			s.KillAndRestart(t)
			s.AwaitReady(t)
		}
		inst.AwaitTokens(t, consumer, true)
		inst.AwaitTokens(t, refused, false)
	}

	cluster.StartAPIServer(t)
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	inst.AwaitTokens(t, consumer, false)
}

// The last good state of a damaged record outlives the process too.
func TestRestartedServerKeepsTheLastGoodState(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	consumer := inst.ConsumerSecret(t, c)
	inst.StopOperator(t)
	damaged := &corev1.Secret{}
	damaged.Namespace, damaged.Name = inst.Namespace, record.SecretName(record.KindRealm, realm.UID)
	install.Change(t, inst, damaged, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("damaged") })

	for _, s := range inst.Servers() {
		install.Eventually(t, s.Name+" to see the damage", func() error {
			if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != "1" {
				return fmt.Errorf("it counts %s unreadable records", got)
			}
			return nil
		})
		s.KillAndRestart(t)
		s.AwaitReady(t)
	}
	inst.AwaitTokens(t, consumer, true)
}

// A server that drains answers everything, and sends its clients elsewhere as it answers.
func TestDrainingServerFailsNoRequest(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.DrainDelay = 5 * time.Second
	inst.StartOperator(t, "")
	server := inst.StartTokenServer(t)
	realm, c := install.Realm("acme"), install.ApiClient(cluster.Namespace(t), "billing", "acme")
	inst.Create(t, realm, c)
	scenario.AwaitUsable(t, inst, c)
	consumer := inst.ConsumerSecret(t, c)

	var before, all sync.WaitGroup
	for range 8 {
		before.Add(1)
		all.Go(func() {
			first := sync.OnceFunc(before.Done)
			defer first()
			httpClient := keepAlive(t, server)
			for {
				told, err := askedToLeave(t, httpClient, consumer)
				if err != nil {
					t.Errorf("A request on a connection that was kept alive: %v", err)
					return
				}
				if told {
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

// keepAlive returns a client of one HTTP/1.1 connection at a time.
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

var errRefused = errors.New("no token")

// askedToLeave gets a token and reports whether the server ended the connection with it.
func askedToLeave(t *testing.T, httpClient *http.Client, consumer *corev1.Secret) (bool, error) {
	url := string(consumer.Data[v1alpha1.SecretKeyTokenURL]) + "?grant_type=client_credentials"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		return false, err
	}
	req.SetBasicAuth(string(consumer.Data[v1alpha1.SecretKeyClientID]), string(consumer.Data[v1alpha1.SecretKeyClientSecret]))
	answer, err := httpClient.Do(req)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return false, err
	}
	if answer.StatusCode != http.StatusOK {
		return false, errRefused
	}
	return answer.Close, nil
}
