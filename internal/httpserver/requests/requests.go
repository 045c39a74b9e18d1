// Package requests limits the requests that a server processes at the same time, and receives their
// bodies before they are processed.
package requests

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/httpserver/connections"
)

// Why a request was rejected. These are values of a metric's label.
const (
	// ReasonBusy means that too many requests were in progress (503).
	ReasonBusy = "busy"
	// ReasonDisplaced means that too many requests were in progress, and this one had waited longest
	// for its body (503).
	ReasonDisplaced = "displaced"
	// ReasonBodyTimeout means that the body was not complete in time (408).
	ReasonBodyTimeout = "body_timeout"
)

// Reasons lists all reasons.
var Reasons = []string{ReasonBusy, ReasonDisplaced, ReasonBodyTimeout}

// Options configures a Limiter. All fields except Rejected are required.
type Options struct {
	// Handler processes requests within the limits.
	Handler http.Handler
	// InFlight is the maximum number of requests in progress.
	InFlight int
	// BodyBytes is the largest body that the handler accepts. Only one byte more is read.
	BodyBytes int64
	// BodyTimeout bounds the time for a body to arrive.
	BodyTimeout time.Duration
	// Reject writes a response with the status: 408, or 503 with a Retry-After header.
	Reject func(w http.ResponseWriter, status int)
	// Rejected is called with the reason for each rejected request. It is optional.
	Rejected func(reason string)
}

// Limiter is a handler that limits the requests in progress. A request is in progress while its
// body arrives and while the handler processes it.
//
// A request beyond the limit takes the place of the one that has waited longest for its body. If
// none waits, it is rejected before its body is read. Clients that send slowly can therefore not
// keep others out.
type Limiter struct {
	options Options

	mu       sync.Mutex
	inFlight int
	waiting  list.List // of *body, the longest waiting first
}

// New returns a Limiter without requests.
func New(o Options) *Limiter { return &Limiter{options: o} }

// InFlight returns the number of requests in progress.
func (l *Limiter) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

// ServeHTTP receives the body of a request and passes the request to the handler, or rejects it.
func (l *Limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.enter() {
		l.reject(w, r, ReasonBusy)
		return
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// net/http also reads a part of what the handler leaves.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * l.options.BodyTimeout))
	}
	// The handler rejects larger bodies without reading them.
	if r.ContentLength != 0 && r.ContentLength <= l.options.BodyBytes {
		received, reason := l.receive(w, r)
		if reason != "" {
			l.reject(w, r, reason)
			return
		}
		r = received
	}
	defer l.leave()
	if conn := connections.From(r.Context()); conn != nil {
		defer conn.Begin()()
	}
	l.options.Handler.ServeHTTP(w, r)
	if r.ProtoMajor == 2 {
		// A peer that doesn't read its responses would keep its requests in memory. net/http needs
		// the headers no longer.
		clear(r.Header)
	}
}

// enter takes a place, if necessary that of the request which has waited longest for its body, and
// reports whether there was one.
func (l *Limiter) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight < l.options.InFlight {
		l.inFlight++
		return true
	}
	if oldest := l.waiting.Front(); oldest != nil {
		l.abort(oldest, ReasonDisplaced)
		return true
	}
	return false
}

func (l *Limiter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
}

// body is a body on its way. It belongs to the Limiter and its lock.
type body struct {
	control *http.ResponseController
	reason  string // why the Limiter stopped reading; empty if it didn't
}

// abort stops reading a body that waits. The response controller must not be used after the request,
// but the request can't end before it gets the lock.
//
// Deadlines in the future would do the same, but for HTTP/2 their timers keep closed connections in
// memory.
func (l *Limiter) abort(waiting *list.Element, reason string) {
	b, _ := waiting.Value.(*body) // the list contains nothing else
	if b.reason != "" {
		return
	}
	b.reason = reason
	l.waiting.Remove(waiting)
	_ = b.control.SetReadDeadline(time.Unix(1, 0)) // fails only in tests without a connection
}

// receive reads the body of a request and returns the request with the body in memory. If reading
// fails, the handler gets the error when it reads the body. If the request has lost its place, the
// result is only the reason.
func (l *Limiter) receive(w http.ResponseWriter, r *http.Request) (*http.Request, string) {
	b := &body{control: http.NewResponseController(w)}
	l.mu.Lock()
	waiting := l.waiting.PushBack(b)
	l.mu.Unlock()
	timer := time.AfterFunc(l.options.BodyTimeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.abort(waiting, ReasonBodyTimeout)
	})
	defer timer.Stop()

	content, err := l.read(r)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch b.reason {
	case "":
		b.reason = "received" // too late for the timer
		l.waiting.Remove(waiting)
	case ReasonBodyTimeout:
		l.inFlight--
		return nil, b.reason
	default: // another request has its place
		return nil, b.reason
	}
	if r.ProtoMajor == 1 && err == nil && int64(len(content)) <= l.options.BodyBytes {
		// Otherwise the request would end if it is processed for longer.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	// net/http must find its own body in the request that it passed.
	r = r.WithContext(r.Context())
	r.Body = &received{bytes.NewReader(content), err, r.Body}
	return r, ""
}

// read reads at most one byte more than the largest body.
func (l *Limiter) read(r *http.Request) ([]byte, error) {
	limited := io.LimitReader(r.Body, l.options.BodyBytes+1)
	if r.ContentLength < 0 {
		return io.ReadAll(limited)
	}
	content := bytes.NewBuffer(make([]byte, 0, r.ContentLength+bytes.MinRead))
	_, err := content.ReadFrom(limited)
	return content.Bytes(), err
}

// received is a body in memory, followed by the error that ended it, if any.
type received struct {
	content *bytes.Reader
	err     error
	io.Closer
}

// Read reads from memory.
func (b *received) Read(p []byte) (int, error) {
	n, err := b.content.Read(p)
	if err != nil && b.err != nil {
		err = b.err
	}
	return n, err
}

// reject responds to a request that has no place.
func (l *Limiter) reject(w http.ResponseWriter, r *http.Request, reason string) {
	if l.options.Rejected != nil {
		l.options.Rejected(reason)
	}
	status := http.StatusServiceUnavailable
	if reason == ReasonBodyTimeout {
		status = http.StatusRequestTimeout
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // don't wait for the rest of the body
	}
	l.options.Reject(w, status)
	if r.ProtoMajor == 2 {
		clear(r.Header)
	}
}
