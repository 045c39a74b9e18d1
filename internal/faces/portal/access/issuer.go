package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// defaultIssuerTimeout is the default of ProviderOptions.Timeout.
	defaultIssuerTimeout = 5 * time.Second
	// maxIssuerResponse and maxIssuerHeader are the maximum sizes of a response in bytes.
	maxIssuerResponse = 1 << 20
	maxIssuerHeader   = 64 << 10
	// discoveryRetryDelay is the time after a failed discovery in which sign-ins get its error
	// instead of causing another request.
	discoveryRetryDelay = time.Second
)

// newIssuerClient returns a client for requests to the issuer. If roots is nil, it trusts the
// system's root certificates.
func newIssuerClient(roots *x509.CertPool, timeout time.Duration) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout:    timeout,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxIssuerHeader,
		IdleConnTimeout:        time.Minute,
	}
	return &http.Client{Timeout: timeout, Transport: limitedTransport{transport}}
}

// limitedTransport limits the size of responses. Reading more fails with http.MaxBytesError.
type limitedTransport struct{ next *http.Transport }

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxIssuerResponse)
	}
	return response, err
}

// CloseIdleConnections is called by http.Client.
func (t limitedTransport) CloseIdleConnections() { t.next.CloseIdleConnections() }

// discovery finds the endpoints of an issuer once. At most one request is in flight. A caller waits
// for it only as long as its own context allows, and doesn't block others.
type discovery struct {
	issuer string
	client *http.Client
	places *places // of callers that wait

	mu     sync.Mutex
	latest *attempt // nil before the first
}

// attempt is one attempt to find the endpoints. The other fields are set before done is closed.
type attempt struct {
	done     chan struct{}
	provider *oidc.Provider
	err      error
	retryAt  time.Time // if err is not nil
}

// get returns the issuer's endpoints. If discovery failed before, it tries again. It returns ErrBusy
// if too many callers wait.
func (d *discovery) get(ctx context.Context) (*oidc.Provider, error) {
	a := d.attempt() //nolint:contextcheck // It does not belong to one request, because others wait for it too.
	select {
	case <-a.done:
		return a.provider, a.err
	default:
	}
	if err := d.places.take(ctx); err != nil {
		return nil, err
	}
	defer d.places.leave()
	select {
	case <-a.done:
		return a.provider, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for the endpoints of issuer %s: %w", ErrIssuer, d.issuer, ctx.Err())
	}
}

// attempt returns the attempt to wait for, and starts it if necessary.
func (d *discovery) attempt() *attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.latest == nil || d.latest.outdated() {
		d.latest = &attempt{done: make(chan struct{})}
		go d.run(d.latest)
	}
	return d.latest
}

// outdated reports whether the attempt failed and a new one may start.
func (a *attempt) outdated() bool {
	select {
	case <-a.done:
		return a.err != nil && !time.Now().Before(a.retryAt)
	default:
		return false
	}
}

func (d *discovery) run(a *attempt) {
	defer close(a.done)
	// The client has a timeout.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), d.client), d.issuer)
	if err != nil {
		a.err = fmt.Errorf("%w: discovering the endpoints of issuer %s: %w", ErrIssuer, d.issuer, err)
		a.retryAt = time.Now().Add(discoveryRetryDelay)
		return
	}
	a.provider = provider
}
