//go:build nightly

package availability_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// load connects to all token servers again and again, always with a new connection.
type load struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	count    int
	failures []string
}

// pause between the connections of a worker leaves enough CPU time for the other tests.
const pause = 100 * time.Millisecond

// connect starts a load with a worker for each function that returns the CAs to trust. The functions
// run before each connection.
func (s *site) connect(t *testing.T, trust ...func(context.Context) (*x509.CertPool, error)) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	servers := s.Servers()
	for _, roots := range trust {
		l.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.try(ctx, servers[n%len(servers)], roots)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	t.Cleanup(func() { l.cancel(); l.running.Wait() })
	return l
}

func (l *load) try(ctx context.Context, s *install.TokenServer, trust func(context.Context) (*x509.CertPool, error)) {
	roots, err := trust(ctx)
	if err == nil {
		_, err = handshake(ctx, s, roots)
	}
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if err != nil {
		l.failures = append(l.failures, fmt.Sprintf("%s %s: %v", time.Now().Format(time.StampMilli), s.Name, err))
	}
}

// stop ends the load, and fails the test if a connection failed.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	l.running.Wait()
	if len(l.failures) > 0 || l.count == 0 {
		t.Errorf("%d of %d connections failed, want none: %q", len(l.failures), l.count, l.failures[:min(len(l.failures), 5)])
	}
}

// following returns the CAs that a workload trusts if it loads ca.crt of its mounted credentials Secret
// only every half overlap, first after the given part of this time.
func (s *site) following(t *testing.T, c *v1beta1.ApiClient, part float64) func(context.Context) (*x509.CertPool, error) {
	t.Helper()
	every := s.overlap / 2
	roots := poolOf(parse(t, s.CredentialsSecret(t, c).Data["ca.crt"])...)
	next := time.Now().Add(time.Duration(part * float64(every)))
	return func(context.Context) (*x509.CertPool, error) {
		if now := time.Now(); now.After(next) {
			roots, next = poolOf(parse(t, s.CredentialsSecret(t, c).Data["ca.crt"])...), now.Add(every)
		}
		return roots, nil
	}
}
