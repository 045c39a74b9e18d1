package federation_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// seldom makes the operator get keys every 10 seconds, so that a key that isn't published ahead is
// unknown at first.
const seldom = 60

// unscaled makes TestUnannouncedKey get keys as rarely as in production.
var unscaled = flag.Bool("unscaled", false, "Get keys of issuers as rarely as in production")

// A foreign cluster rotates its key while its Pods request tokens. The key is published one refresh
// before it signs. No request fails.
func TestForeignKeyRotation(t *testing.T) {
	c := newClusters(t, "https://edge.example.com", seldom, byURL)
	load := startLoad(t, c)
	before, next := c.foreign.key, newKey(t)
	c.foreign.setKeys(t, before, next)
	c.awaitRefresh(t)
	c.foreign.setKeys(t, next, before)
	load.use(c.token(t))
	load.awaitCalls(t)
	c.foreign.setKeys(t, next)
	c.awaitRefresh(t)
	load.awaitCalls(t)
	load.stop()
	calls, failed, first := load.result()
	t.Logf("%d requests, %d failed", calls, failed)
	if failed > 0 {
		t.Errorf("%d of %d requests failed; the first one: %s", failed, calls, first)
	}
}

// A foreign cluster signs with a key that it has just published. The first token makes the token
// servers ask for the key. The test reports how long that takes.
func TestUnannouncedKey(t *testing.T) {
	factor := seldom
	if *unscaled {
		factor = 1
	}
	c := newClusters(t, "https://edge.example.com", factor, byURL)
	for _, s := range c.inst.Servers() {
		c.awaitAccepted(t, s, c.token(t))
	}
	c.foreign.setKeys(t, newKey(t))
	token, began := c.token(t), time.Now()
	for _, s := range c.inst.Servers() {
		c.awaitAccepted(t, s, token)
	}
	t.Logf("accepted after %s, with intervals that are %d times shorter than in production", time.Since(began).Round(time.Millisecond), factor)
}

func byURL(_ *testing.T, f *foreignCluster) v1alpha1.IssuerKeys { return f.url() }

// awaitRefresh waits until the operator has got the issuer's keys twice, so that the second request
// began after this call.
func (c *clusters) awaitRefresh(t *testing.T) {
	t.Helper()
	before := c.fetches(t)
	install.Eventually(t, "the operator to get the keys of the issuer twice", func() error {
		if n := c.fetches(t) - before; n < 2 {
			return fmt.Errorf("it got them %d times", n)
		}
		return nil
	})
}

func (c *clusters) fetches(t *testing.T) int {
	t.Helper()
	n, _ := strconv.Atoi(c.inst.OperatorMetric(t, `realmkeeper_issuer_fetches_total{issuer="edge",outcome="success",realm="acme"}`))
	return n
}

func (c *clusters) awaitAccepted(t *testing.T, s *install.TokenServer, token string) {
	t.Helper()
	httpClient := s.Client(t)
	await(t, 5*time.Minute, s.Name+" to accept the new key", func() error {
		got, err := install.RequestTokenByGrant(t, s, httpClient, c.realm.Status.TokenEndpoint, "", token)
		if err == nil && got.Status != http.StatusOK {
			err = fmt.Errorf("the response is %+v", got)
		}
		return err
	})
}

// await waits until condition returns nil. With unscaled times, install.Eventually gives up too
// early.
func await(t *testing.T, limit time.Duration, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("Timed out waiting for %s: %v", what, err)
		}
	}
}

// podLoad continuously requests tokens from every token server, in both ways.
type podLoad struct {
	token  atomic.Pointer[string]
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu            sync.Mutex
	calls, failed int
	first         string // the first failure
}

func startLoad(t *testing.T, c *clusters) *podLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &podLoad{cancel: cancel}
	t.Cleanup(p.stop)
	for _, s := range c.inst.Servers() {
		c.awaitAccepted(t, s, c.token(t))
	}
	p.use(c.token(t))
	url := c.realm.Status.TokenEndpoint // The test reads the realm again meanwhile.
	for _, s := range c.inst.Servers() {
		for _, way := range presentations {
			httpClient := s.Client(t)
			p.done.Go(func() {
				tick := time.NewTicker(80 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					got, err := way.request(t, s, httpClient, url, "", *p.token.Load())
					p.note(fmt.Sprintf("%s by %s: %+v, %v", s.Name, way.name, got, err), err == nil && got.Status == http.StatusOK)
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
			})
		}
	}
	return p
}

// use makes the Pods present this token from now on.
func (p *podLoad) use(token string) { p.token.Store(&token) }

func (p *podLoad) stop() {
	p.cancel()
	p.done.Wait()
}

func (p *podLoad) note(what string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if !ok {
		p.failed++
		if p.first == "" {
			p.first = what
		}
	}
}

func (p *podLoad) result() (calls, failed int, first string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, p.failed, p.first
}

// awaitCalls waits until the Pods have made 100 more requests.
func (p *podLoad) awaitCalls(t *testing.T) {
	t.Helper()
	before, _, _ := p.result()
	install.Eventually(t, "the Pods to make more requests", func() error {
		if now, _, _ := p.result(); now-before < 100 {
			return fmt.Errorf("%d requests", now-before)
		}
		return nil
	})
}
