package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// credentials returns what the workloads of a client have now, the oldest first: of these
// one must be accepted, at every token server.
type credentials func(context.Context) ([]*corev1.Secret, error)

// prober tries what clients have all the time, as workloads with mounted Secrets do.
type prober struct {
	calls atomic.Int64
	done  func()

	mu      sync.RWMutex // held for reading during a try, so that none outlives forget
	clients map[string]credentials
}

// pause is how long each prober rests between two rounds: two cores are all there is.
const pause = 50 * time.Millisecond

// startProber tries at each token server what watch is told, until stop or the end of the test.
func startProber(t *testing.T, install *testinstall.Installation) *prober {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	p := &prober{clients: map[string]credentials{}, done: func() { cancel(); running.Wait() }}
	t.Cleanup(p.done)
	for _, s := range install.Servers() {
		httpClient := s.Client(t)
		running.Go(func() {
			for ctx.Err() == nil {
				p.round(ctx, t, s, httpClient)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	return p
}

// watch has a client tried from now on.
func (p *prober) watch(name string, of credentials) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[name] = of
}

// forget has a client tried no more.
func (p *prober) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, name)
}

// stop ends the tries and tells how many there were.
func (p *prober) stop(t *testing.T) {
	t.Helper()
	p.done()
	if p.calls.Load() == 0 {
		t.Error("the prober has tried nothing")
	}
	t.Logf("The prober has made %d calls", p.calls.Load())
}

func (p *prober) round(ctx context.Context, t *testing.T, s *testinstall.TokenServer, httpClient *http.Client) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, of := range p.clients {
		if err := p.try(ctx, t, s, httpClient, of); err != nil && ctx.Err() == nil {
			t.Errorf("%s has no valid credential at %s: %v", name, s.Name, err)
		}
	}
}

// try asks for a token. What is refused and was replaced meanwhile proves nothing.
func (p *prober) try(ctx context.Context, t *testing.T, s *testinstall.TokenServer, httpClient *http.Client, of credentials) error {
	for {
		had, err := of(ctx)
		if err != nil {
			return err
		}
		refusal := errorf("there is none")
		for _, credential := range had {
			p.calls.Add(1)
			a, err := testinstall.RequestToken(t, s, httpClient, credential)
			if err == nil && a.Status == http.StatusOK {
				return nil
			}
			refusal = errorf("%d %s %s, %v", a.Status, a.Error, a.Description, err)
		}
		has, err := of(ctx)
		if err != nil {
			return err
		}
		if slices.EqualFunc(had, has, func(a, b *corev1.Secret) bool { return secretIn(a) == secretIn(b) }) {
			return refusal
		}
	}
}

// mountedBy returns what is in the consumer Secret of a client.
func mountedBy(install *testinstall.Installation, c *v1alpha1.ApiClient) credentials {
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.EffectiveSecretName()}
	return func(ctx context.Context) ([]*corev1.Secret, error) {
		consumer := &corev1.Secret{}
		err := install.Env.Client.Get(ctx, key, consumer)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return []*corev1.Secret{consumer}, nil
	}
}

// awaitPublished waits until every token server publishes just the keys that the realm shows.
func awaitPublished(t *testing.T, install *testinstall.Installation, realm *v1alpha1.Realm, consumer *corev1.Secret) {
	t.Helper()
	var want []string
	for _, k := range realm.Status.SigningKeys {
		want = append(want, k.KeyID)
	}
	slices.Sort(want)
	for _, s := range install.Servers() {
		httpClient := s.Client(t)
		testinstall.Eventually(t, s.Name+" to publish the realm's keys", func() error {
			got, err := published(t, httpClient, string(consumer.Data[v1alpha1.SecretKeyJWKSURL]))
			if err == nil && !slices.Equal(got, want) {
				err = errorf("it publishes %v, want %v", got, want)
			}
			return err
		})
	}
}

func published(t *testing.T, httpClient *http.Client, url string) ([]string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := httpClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("reading the keys at %s: %w", url, err)
	}
	var ids []string
	for _, k := range set.Keys {
		ids = append(ids, k.ID)
	}
	slices.Sort(ids)
	return ids, nil
}
