// Package load continuously requests tokens from token servers and strictly verifies each token. It
// shows whether a rotation affects clients or verifiers.
package load

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Options configures a load. All fields are required.
type Options struct {
	Servers []*install.TokenServer
	// Credentials returns the credentials Secret as a workload would currently see it.
	Credentials func() *corev1.Secret
	// Workers is the number of concurrent requests.
	Workers int
	// PerSecond is the maximum number of tokens per second, for all workers together.
	PerSecond float64
}

// Result is the result of a load.
type Result struct {
	// Tokens is the number of tokens that were issued and immediately verified.
	Tokens int64
	// Verified is the number of tokens that were verified again just before they expired.
	Verified int64
	// Keys contains the IDs of the keys that signed the tokens, sorted.
	Keys []string
	// Failed is the number of requests that returned no token or a token that a verifier rejected.
	// Failures describes the first few of them.
	Failed   int64
	Failures []string
}

const (
	// sample is the sampling interval. One in this many tokens is verified again.
	sample = 16
	// early is how long before its expiration a token is verified again.
	early = 2 * time.Second
	// maxFailures is the maximum number of failures that are described.
	maxFailures = 10
)

// Load is a running load.
type Load struct {
	Options
	limiter   *rate.Limiter
	verifiers []*Verifier
	stop      context.CancelFunc
	running   sync.WaitGroup

	mu     sync.Mutex
	result Result
	keys   map[string]bool
}

// Start starts the workers, which request tokens until Stop or the end of the test.
func Start(t testing.TB, o Options) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &Load{Options: o, limiter: rate.NewLimiter(rate.Limit(o.PerSecond), 1), stop: stop, keys: map[string]bool{}}
	data := o.Credentials().Data
	// The verifiers fetch the keys from different servers at different times.
	for i := range 2 * len(o.Servers) {
		l.verifiers = append(l.verifiers, NewVerifier(o.Servers[i%len(o.Servers)].Client(t),
			string(data[v1beta1.SecretKeyIssuer]), string(data[v1beta1.SecretKeyJWKSURL])))
	}
	for n := range o.Workers {
		clients := make([]*http.Client, len(o.Servers))
		for i, s := range o.Servers {
			clients[i] = s.Client(t)
		}
		l.running.Go(func() { l.work(ctx, t, n, clients) })
	}
	t.Cleanup(func() { l.Stop() })
	return l
}

// Stop stops the load and returns its result.
func (l *Load) Stop() Result {
	l.stop()
	l.running.Wait()
	return l.Result()
}

// Result returns the result so far.
func (l *Load) Result() Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.result
	r.Keys = slices.Sorted(maps.Keys(l.keys))
	return r
}

// issuedToken is a token that is to be verified again.
type issuedToken struct {
	token   string
	expires time.Time
}

// work requests tokens, alternating between servers and verifiers.
func (l *Load) work(ctx context.Context, t testing.TB, worker int, clients []*http.Client) {
	var waiting []issuedToken // ordered by expiration
	for n := worker; l.limiter.Wait(ctx) == nil; n++ {
		for len(waiting) > 0 && time.Until(waiting[0].expires) < early {
			_, err := l.verifiers[n%len(l.verifiers)].Verify(ctx, waiting[0].token)
			l.note(ctx, nil, err)
			waiting = waiting[1:]
		}
		token, err := l.request(t, n%len(clients), clients) //nolint:contextcheck // A request that has started must complete because it counts.
		if err != nil {
			l.note(ctx, nil, err)
			continue
		}
		verified, err := l.verifiers[n/len(clients)%len(l.verifiers)].Verify(ctx, token)
		l.note(ctx, verified, err)
		if verified != nil && n%sample == 0 {
			waiting = append(waiting, issuedToken{token, verified.Expires})
		}
	}
}

func (l *Load) request(t testing.TB, server int, clients []*http.Client) (string, error) {
	a, err := install.RequestToken(t, l.Servers[server], clients[server], l.Credentials())
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%s responded with %d %s: %s", l.Servers[server].Name, a.Status, a.Error, a.Description)
	}
	return a.AccessToken, err
}

// note counts a token that was verified after it was issued or, if verified is nil, once more
// before it expired. Failures caused by stopping the load don't count.
func (l *Load) note(ctx context.Context, verified *Verified, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		if ctx.Err() != nil {
			return
		}
		l.result.Failed++
		if len(l.result.Failures) < maxFailures {
			l.result.Failures = append(l.result.Failures, fmt.Sprintf("%s: %v", time.Now().Format(time.StampMilli), err))
		}
	case verified == nil:
		l.result.Verified++
	default:
		l.result.Tokens++
		l.keys[verified.KeyID] = true
	}
}
