package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"
)

// loadTimeout limits each load, and so how long a request waits for one.
const loadTimeout = 5 * time.Second

var (
	errStatusCode = errors.New("unexpected response")
	errTooLarge   = errors.New("response is too large")
	errClosed     = errors.New("verifier is closed")
)

// document says what a response must be.
type document struct {
	mediaType    string
	limit        int64 // in bytes after HTTP decompression
	errTooLarge  error
	errMediaType error // nil if another media type is accepted, because some servers use others for JSON
}

var (
	metadataDocument = document{"application/json", 64 << 10, errTooLarge, nil}
	keysDocument     = document{"application/json", 256 << 10, errTooLarge, nil}
	listDocument     = document{listMediaType, maxListResponse, ErrListTooLarge, ErrListType}
)

// source loads documents of the issuer.
type source struct {
	client  http.Client
	metrics Metrics
	now     func() time.Time
}

func newSource(options Options) *source {
	s := &source{client: *options.Client, metrics: options.Metrics, now: options.Now}
	// Realms don't redirect, and a redirect could lead to an unencrypted connection.
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

// load gets a document, parses it, and reports the outcome. HTTP caching is ignored.
func (s *source) load(ctx context.Context, url string, d document, parse func([]byte) error) error {
	start := s.now()
	body, err := s.get(ctx, url, d)
	if err == nil {
		err = parse(body)
	}
	if err != nil {
		err = fmt.Errorf("load %s: %w", url, err)
	}
	s.metrics.loaded(url, s.now().Sub(start), err)
	return err
}

func (s *source) get(ctx context.Context, url string, d document) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", d.mediaType)
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s", errStatusCode, response.Status)
	}
	if got, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); d.errMediaType != nil && (err != nil || got != d.mediaType) {
		return nil, d.errMediaType
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, d.limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > d.limit {
		return nil, d.errTooLarge
	}
	return body, nil
}

// lifetime is that of a Verifier. It limits all background work.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

func newLifetime() *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run runs f in the background. It reports false if the lifetime has ended.
func (l *lifetime) run(f func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Go(func() { f(l.ctx) })
	}
	return !l.closed
}

func (l *lifetime) end() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
}

// flight runs a load in the background, at most one at a time. Callers can wait for it, but one that
// gives up doesn't stop it for the others.
type flight struct {
	life *lifetime
	load func(context.Context)

	mu      sync.Mutex
	running chan struct{} // closed when the running load ends; nil if none runs
	started time.Time     // start of the last load that has ended
}

// landed is for callers that don't have to wait.
var landed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// start returns a channel that is closed when the running load ends. It starts one if none runs and the
// last one was started at least interval ago.
func (f *flight) start(now time.Time, interval time.Duration) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != nil {
		return f.running
	}
	if age := now.Sub(f.started); !f.started.IsZero() && age >= 0 && age < interval {
		return landed
	}
	done := make(chan struct{})
	started := f.life.run(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		f.load(ctx)
		f.mu.Lock()
		f.running, f.started = nil, now
		f.mu.Unlock()
		close(done)
	})
	if !started {
		return landed
	}
	f.running = done
	return done
}

// age returns the time since the start of the last load that has ended, so that what it loaded isn't older. It
// is negative if there was none, or if the clock was set back.
func (f *flight) age(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started.IsZero() {
		return -1
	}
	return now.Sub(f.started)
}

// wait waits until the channel is closed, or returns the error of ctx.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
