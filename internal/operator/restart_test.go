package operator_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A token server that is killed while the API server is away comes back with all that it
// had acknowledged, revocations included.
func TestRestartedServerServesWithoutTheAPIServer(t *testing.T) {
	env := testenv.Start(t)
	install, _, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)
	revoked := testinstall.ApiClient(c.Namespace, "revoked", "acme")
	install.Create(t, revoked)
	converges(t, install, revoked)
	refused := install.ConsumerSecret(t, revoked)
	install.Delete(t, revoked)
	install.AwaitTokens(t, refused, false)

	env.StopAPIServer(t)
	for range 2 { // what was kept is kept by who was restored too
		for _, s := range install.Servers() {
			s.KillAndRestart(t)
			s.AwaitReady(t)
		}
		install.AwaitTokens(t, consumer, true)
		install.AwaitTokens(t, refused, false)
	}

	env.StartAPIServer(t)
	testinstall.Change(t, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	install.AwaitTokens(t, consumer, false)
}

// The last good state of a damaged record outlives the process too.
func TestRestartedServerKeepsTheLastGoodState(t *testing.T) {
	env := testenv.Start(t)
	install, realm, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)
	install.StopOperator(t)
	damaged := &corev1.Secret{}
	damaged.Namespace, damaged.Name = install.Namespace, record.SecretName(record.KindRealm, realm.UID)
	testinstall.Change(t, install, damaged, func(s *corev1.Secret) { s.Data[record.DataKey] = []byte("damaged") })

	for _, s := range install.Servers() {
		testinstall.Eventually(t, s.Name+" to see the damage", func() error {
			if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != "1" {
				return errorf("it counts %s unreadable records", got)
			}
			return nil
		})
		s.KillAndRestart(t)
		s.AwaitReady(t)
	}
	install.AwaitTokens(t, consumer, true)
}

// A server that drains answers everything, and sends its clients elsewhere as it answers.
func TestDrainingServerFailsNoRequest(t *testing.T) {
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{})
	install.DrainDelay = 5 * time.Second
	install.StartOperator(t, "")
	server := install.StartTokenServer(t)
	realm, c := testinstall.Realm("acme"), testinstall.ApiClient(env.Namespace(t), "billing", "acme")
	install.Create(t, realm, c)
	converges(t, install, c)
	consumer := install.ConsumerSecret(t, c)

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
func keepAlive(t *testing.T, server *testinstall.TokenServer) *http.Client {
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
