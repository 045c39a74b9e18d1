// Package testload asks token servers for tokens as fast as they give them, and verifies
// each as the strictest verifier would: it proves that a rotation is noticed by nobody.
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

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Options are what a load stands on. All are required.
type Options struct {
	Servers []*install.TokenServer
	// Consumer returns the consumer Secret as a workload has it mounted at that moment.
	Consumer func() *corev1.Secret
	// Workers is how many ask at once.
	Workers int
}

// Result is what came of a load.
type Result struct {
	// Tokens is how many tokens were issued, and verified at once.
	Tokens int64
	// Verified is how many of them were verified again just before they expired.
	Verified int64
	// Keys are the ids of the keys that signed, sorted.
	Keys []string
	// Failed is how many calls gave no token, or one that a verifier refused; Failures tells
	// the first of them.
	Failed   int64
	Failures []string
}

const (
	// sample is of how many tokens one is verified again.
	sample = 16
	// early is how long before its end a token is verified again.
	early = 2 * time.Second
	// told is how many failures are told.
	told = 10
)

// Load is a load that runs.
type Load struct {
	Options
	verifiers []*Verifier
	stop      context.CancelFunc
	running   sync.WaitGroup

	mu     sync.Mutex
	result Result
	keys   map[string]bool
}

// Start lets the workers ask until Stop, or until the test ends.
func Start(t testing.TB, o Options) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &Load{Options: o, stop: stop, keys: map[string]bool{}}
	data := o.Consumer().Data
	// Several verifiers, that get the keys from either server, at different times.
	for i := range 2 * len(o.Servers) {
		l.verifiers = append(l.verifiers, NewVerifier(o.Servers[i%len(o.Servers)].Client(t),
			string(data[v1alpha1.SecretKeyIssuer]), string(data[v1alpha1.SecretKeyJWKSURL])))
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

// Stop ends the load and returns what came of it.
func (l *Load) Stop() Result {
	l.stop()
	l.running.Wait()
	return l.Result()
}

// Result returns what has come of the load so far.
func (l *Load) Result() Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.result
	r.Keys = slices.Sorted(maps.Keys(l.keys))
	return r
}

// held is a token that is verified again later.
type held struct {
	token string
	until time.Time
}

// work asks one server after the other, and lets one verifier after the other verify.
func (l *Load) work(ctx context.Context, t testing.TB, worker int, clients []*http.Client) {
	var waiting []held // those that expire first come first
	for n := worker; ctx.Err() == nil; n++ {
		for len(waiting) > 0 && time.Until(waiting[0].until) < early {
			_, err := l.verifiers[n%len(l.verifiers)].Verify(ctx, waiting[0].token)
			l.note(ctx, nil, err)
			waiting = waiting[1:]
		}
		token, err := l.ask(t, n%len(clients), clients) //nolint:contextcheck // A call that has begun shall end: it counts.
		if err != nil {
			l.note(ctx, nil, err)
			continue
		}
		verified, err := l.verifiers[n/len(clients)%len(l.verifiers)].Verify(ctx, token)
		l.note(ctx, verified, err)
		if verified != nil && n%sample == 0 {
			waiting = append(waiting, held{token, verified.Expires})
		}
	}
}

func (l *Load) ask(t testing.TB, server int, clients []*http.Client) (string, error) {
	a, err := install.RequestToken(t, l.Servers[server], clients[server], l.Consumer())
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%s answers %d %s: %s", l.Servers[server].Name, a.Status, a.Error, a.Description)
	}
	return a.AccessToken, err
}

// note counts a token that was verified: when it was issued, or with verified nil again.
// What fails because the load ends doesn't count.
func (l *Load) note(ctx context.Context, verified *Verified, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		if ctx.Err() != nil {
			return
		}
		l.result.Failed++
		if len(l.result.Failures) < told {
			l.result.Failures = append(l.result.Failures, fmt.Sprintf("%s: %v", time.Now().Format(time.StampMilli), err))
		}
	case verified == nil:
		l.result.Verified++
	default:
		l.result.Tokens++
		l.keys[verified.KeyID] = true
	}
}
