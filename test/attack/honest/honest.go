// Package honest calls a server as its users do, at a steady rate, and counts how many calls
// succeed.
package honest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// callTimeout is how long a call may take.
const callTimeout = 10 * time.Second

// Options configures a Load. All fields are required.
type Options struct {
	// Address is the host:port to connect to, and HostName the host name in the certificate.
	Address, HostName string
	Roots             *x509.CertPool
	// Source is the IP address to connect from.
	Source string
	// Rate is the number of calls per second. One half reuses a connection, and the other half opens
	// one for each call.
	Rate int
	Call Call
}

// Call makes one call and returns why it failed, or nil. The number of the call starts at 0.
type Call func(ctx context.Context, client *http.Client, number int) error

// Result is the result of a Load.
type Result struct {
	Calls, Failed int
	// Errors contains the number of calls by their error.
	Errors map[string]int
	times  []time.Duration // of the successful calls
}

// Success returns the share of the calls that succeeded, from 0 to 1.
func (r Result) Success() float64 {
	if r.Calls == 0 {
		return 0
	}
	return 1 - float64(r.Failed)/float64(r.Calls)
}

// Percentile returns the time within which the given share of the successful calls was complete.
func (r Result) Percentile(share float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	slices.Sort(r.times)
	return r.times[min(len(r.times)-1, int(share*float64(len(r.times))))]
}

// Load is a running load.
type Load struct {
	Options
	stop  context.CancelFunc
	calls sync.WaitGroup

	mu     sync.Mutex
	result Result
}

// Start starts calls. A call starts on time even if others have not ended, as with independent
// users.
func Start(t testing.TB, o Options) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &Load{Options: o, stop: stop, result: Result{Errors: map[string]int{}}}
	kept := l.client()
	l.calls.Go(func() {
		defer kept.CloseIdleConnections()
		tick := time.NewTicker(time.Second / time.Duration(o.Rate))
		defer tick.Stop()
		for number := 0; ; number++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if number%2 == 0 {
				l.calls.Go(func() { l.call(kept, number) }) //nolint:contextcheck // A call that has started counts.
				continue
			}
			l.calls.Go(func() { //nolint:contextcheck // As above.
				fresh := l.client()
				defer fresh.CloseIdleConnections()
				l.call(fresh, number)
			})
		}
	})
	t.Cleanup(func() { l.Stop() })
	return l
}

// Stop starts no more calls, waits for those that run, and returns the result.
func (l *Load) Stop() Result {
	l.stop()
	l.calls.Wait()
	return l.result
}

// call runs to its end even if the load is stopped, because it counts.
func (l *Load) call(client *http.Client, number int) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	began := time.Now()
	err := l.Call(ctx, client, number)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Calls++
	if err != nil {
		l.result.Failed++
		l.result.Errors[cause(err)]++
		return
	}
	l.result.times = append(l.result.times, took)
}

// cause returns the text of an error without what differs in each call, such as port numbers.
func cause(err error) string {
	for {
		var op *net.OpError
		if errors.As(err, &op) && op.Err != nil {
			return op.Op + ": " + op.Err.Error()
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// client returns a client that connects from Source to Address.
func (l *Load) client() *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(l.Source)}}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: l.Roots, ServerName: l.HostName, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, l.Address)
		},
	}}
}

// StatusError is the error of a call with an unexpected HTTP status.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("status %d", int(e)) }
