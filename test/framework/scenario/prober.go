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

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// CredentialSource returns the credentials that the workloads of a client currently have, oldest
// first. Every token server must accept at least one of them.
type CredentialSource func(context.Context) ([]*corev1.Secret, error)

// Prober continuously requests tokens with the credentials of the watched clients, like workloads
// with mounted Secrets.
type Prober struct {
	calls atomic.Int64
	done  func()

	mu      sync.RWMutex // held for reading during a request, so that Forget waits for it
	clients map[string]CredentialSource
}

// pause is the time between two rounds. It leaves enough CPU time for the tested programs.
const pause = 50 * time.Millisecond

// StartProber starts a prober for every token server. It runs until Stop or the end of the test.
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

// Watch starts to probe a client.
func (p *Prober) Watch(name string, of CredentialSource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[name] = of
}

// Forget stops probing a client.
func (p *Prober) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, name)
}

// Stop stops the prober and logs how many requests it sent.
func (p *Prober) Stop(t *testing.T) {
	t.Helper()
	p.done()
	if p.calls.Load() == 0 {
		t.Error("the prober made no requests")
	}
	t.Logf("The prober made %d requests", p.calls.Load())
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

// try requests a token. It ignores a rejection if the credentials have changed since they were
// read.
func (p *Prober) try(ctx context.Context, t *testing.T, s *install.TokenServer, httpClient *http.Client, of CredentialSource) error {
	for {
		had, err := of(ctx)
		if err != nil {
			return err
		}
		rejection := fmt.Errorf("it has no credentials")
		for _, credential := range had {
			p.calls.Add(1)
			a, err := install.RequestToken(t, s, httpClient, credential) //nolint:contextcheck // It uses the context of the test.
			if err == nil && a.Status == http.StatusOK {
				return nil
			}
			rejection = fmt.Errorf("%d %s %s, %w", a.Status, a.Error, a.Description, err)
		}
		has, err := of(ctx)
		if err != nil {
			return err
		}
		if slices.EqualFunc(had, has, func(a, b *corev1.Secret) bool { return ClientSecret(a) == ClientSecret(b) }) {
			return rejection
		}
	}
}

// MountedCredentials returns a source that reads a client's credentials Secret.
func MountedCredentials(inst *install.Installation, c *v1beta1.ApiClient) CredentialSource {
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.EffectiveSecretName()}
	return func(ctx context.Context) ([]*corev1.Secret, error) {
		credentials := &corev1.Secret{}
		err := inst.Env.Client.Get(ctx, key, credentials)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return []*corev1.Secret{credentials}, nil
	}
}

// AwaitPublishedKeys waits until every token server publishes exactly the keys that the realm's
// status lists.
func AwaitPublishedKeys(t *testing.T, inst *install.Installation, realm *v1beta1.Realm, credentials *corev1.Secret) {
	t.Helper()
	var want []string
	for _, k := range realm.Status.SigningKeys {
		want = append(want, k.KeyID)
	}
	slices.Sort(want)
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, s.Name+" to publish the realm's keys", func() error {
			got, err := published(t, httpClient, string(credentials.Data[v1beta1.SecretKeyJWKSURL]))
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
	response, err := httpClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("reading the keys at %s: %w", url, err)
	}
	var ids []string
	for _, k := range set.Keys {
		ids = append(ids, k.ID)
	}
	slices.Sort(ids)
	return ids, nil
}
