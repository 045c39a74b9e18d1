package faults_test

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// betweenReads is the time between two reads of a credentials Secret. It leaves enough CPU time for the
// tested programs.
const betweenReads = 50 * time.Millisecond

// delivered follows the credentials Secret of a client and tries each value that it contains or has
// contained at every token server. Each must be accepted until its overlap is over.
type delivered struct {
	overlap time.Duration
	calls   atomic.Int64
	stop    func()

	trying    sync.RWMutex // held for reading during a request
	suspended bool
	paused    bool

	mu   sync.Mutex
	read map[credential]time.Time // when the latest read began that found the value
}

// credential is a secret that a client has or used to have.
type credential struct{ tokenURL, clientID, secret string }

func (c credential) asSecret() *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		v1beta1.SecretKeyTokenURL: []byte(c.tokenURL), v1beta1.SecretKeyClientID: []byte(c.clientID),
		v1beta1.SecretKeyClientSecret: []byte(c.secret),
	}}
}

func credentialIn(credentials *corev1.Secret) credential {
	return credential{string(credentials.Data[v1beta1.SecretKeyTokenURL]), string(credentials.Data[v1beta1.SecretKeyClientID]), scenario.ClientSecret(credentials)}
}

// startDelivered starts to follow the client, which must be Ready, until stop or the end of the test.
func startDelivered(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient, overlap time.Duration) *delivered {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	d := &delivered{overlap: overlap, read: map[credential]time.Time{}, stop: func() { cancel(); running.Wait() }}
	t.Cleanup(d.stop)
	repeat := func(do func()) {
		running.Go(func() {
			for ctx.Err() == nil {
				do()
				select {
				case <-ctx.Done():
				case <-time.After(betweenReads):
				}
			}
		})
	}
	key := client.ObjectKeyFromObject(c)
	repeat(func() {
		began, credentials := time.Now(), &corev1.Secret{}
		if err := inst.Env.Client.Get(ctx, key, credentials); err != nil {
			return // the test is ending, or the API server is unavailable
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.read[credentialIn(credentials)] = began
	})
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		repeat(func() {
			for value := range d.values() {
				d.try(ctx, t, s, httpClient, value)
			}
		})
	}
	return d
}

func (d *delivered) values() map[credential]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.read)
}

// pause stops the requests while the client changes. They continue with expect.
func (d *delivered) pause() {
	d.trying.Lock()
	defer d.trying.Unlock()
	d.paused = true
}

// expect continues the requests. If the client is suspended, all must be rejected.
func (d *delivered) expect(suspended bool) {
	d.trying.Lock()
	defer d.trying.Unlock()
	d.paused, d.suspended = false, suspended
}

func (d *delivered) try(ctx context.Context, t *testing.T, s *install.TokenServer, httpClient *http.Client, value credential) {
	d.trying.RLock()
	defer d.trying.RUnlock()
	if d.paused || !d.suspended && !d.due(value) {
		return
	}
	a, err := install.RequestToken(t, s, httpClient, value.asSecret())
	d.calls.Add(1)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.Errorf("%s did not respond: %v", s.Name, err)
	case d.suspended && a.Status == http.StatusOK:
		t.Errorf("%s issued a token to client %s, which is suspended", s.Name, value.clientID)
	case !d.suspended && a.Status != http.StatusOK && d.due(value):
		t.Errorf("%s responded with %d %s to client %s with a secret that was delivered and has not expired", s.Name, a.Status, a.Error, value.clientID)
	}
}

// due reports whether the overlap of a value is certainly not over.
func (d *delivered) due(value credential) bool { return time.Since(d.values()[value]) < d.overlap }

// current returns the client secret that a client's credentials Secret contains.
func current(t *testing.T, inst *install.Installation, c *v1beta1.ApiClient) string {
	t.Helper()
	return scenario.ClientSecret(inst.CredentialsSecret(t, c))
}
