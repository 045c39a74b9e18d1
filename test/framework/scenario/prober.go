package scenario

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
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// credentials returns what the workloads of a client have now, the oldest first: of these
// one must be accepted, at every token server.
type CredentialSource func(context.Context) ([]*corev1.Secret, error)

// prober tries what clients have all the time, as workloads with mounted Secrets do.
type Prober struct {
	calls atomic.Int64
	done  func()

	mu      sync.RWMutex // held for reading during a try, so that none outlives forget
	clients map[string]CredentialSource
}

// pause is how long each prober rests between two rounds: two cores are all there is.
const pause = 50 * time.Millisecond

// startProber tries at each token server what watch is told, until stop or the end of the test.
func StartProber(t *testing.T, inst *install.Installation) *Prober {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	p := &Prober{clients: map[string]CredentialSource{}, done: func() { cancel(); running.Wait() }}
	t.Cleanup(p.done)
	for _, s := range inst.Servers() {
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

// Watch has a client tried from now on.
func (p *Prober) Watch(name string, of CredentialSource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[name] = of
}

// Forget has a client tried no more.
func (p *Prober) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, name)
}

// Stop ends the tries and tells how many there were.
func (p *Prober) Stop(t *testing.T) {
	t.Helper()
	p.done()
	if p.calls.Load() == 0 {
		t.Error("the prober has tried nothing")
	}
	t.Logf("The prober has made %d calls", p.calls.Load())
}

func (p *Prober) round(ctx context.Context, t *testing.T, s *install.TokenServer, httpClient *http.Client) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, of := range p.clients {
		if err := p.try(ctx, t, s, httpClient, of); err != nil && ctx.Err() == nil {
			t.Errorf("%s has no valid credential at %s: %v", name, s.Name, err)
		}
	}
}

// try asks for a token. What is refused and was replaced meanwhile proves nothing.
func (p *Prober) try(ctx context.Context, t *testing.T, s *install.TokenServer, httpClient *http.Client, of CredentialSource) error {
	for {
		had, err := of(ctx)
		if err != nil {
			return err
		}
		refusal := fmt.Errorf("there is none")
		for _, credential := range had {
			p.calls.Add(1)
			a, err := install.RequestToken(t, s, httpClient, credential)
			if err == nil && a.Status == http.StatusOK {
				return nil
			}
			refusal = fmt.Errorf("%d %s %s, %v", a.Status, a.Error, a.Description, err)
		}
		has, err := of(ctx)
		if err != nil {
			return err
		}
		if slices.EqualFunc(had, has, func(a, b *corev1.Secret) bool { return ClientSecret(a) == ClientSecret(b) }) {
			return refusal
		}
	}
}

// mountedBy returns what is in the consumer Secret of a client.
func MountedCredentials(inst *install.Installation, c *v1alpha1.ApiClient) CredentialSource {
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.EffectiveSecretName()}
	return func(ctx context.Context) ([]*corev1.Secret, error) {
		consumer := &corev1.Secret{}
		err := inst.Env.Client.Get(ctx, key, consumer)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return []*corev1.Secret{consumer}, nil
	}
}

// awaitPublished waits until every token server publishes just the keys that the realm shows.
func AwaitPublishedKeys(t *testing.T, inst *install.Installation, realm *v1alpha1.Realm, consumer *corev1.Secret) {
	t.Helper()
	var want []string
	for _, k := range realm.Status.SigningKeys {
		want = append(want, k.KeyID)
	}
	slices.Sort(want)
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, s.Name+" to publish the realm's keys", func() error {
			got, err := published(t, httpClient, string(consumer.Data[v1alpha1.SecretKeyJWKSURL]))
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("it publishes %v, want %v", got, want)
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
