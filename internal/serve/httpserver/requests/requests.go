// Package requests limits the requests that a server processes at the same time, and receives their
// bodies before they are processed. It receives one byte of a body beyond the limit, so that the handler
// can reject the request.
package requests

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/connections"
)

// Why a request was rejected. These are values of a metric's label.
const (
	// ReasonBusy means that too many requests were in progress (503).
	ReasonBusy = "busy"
	// ReasonDisplaced means that too many requests were in progress, and this one had waited longest
	// for its body (503).
	ReasonDisplaced = "displaced"
	// ReasonUnsent means that too many responses could not be sent (the HTTP/2 stream is reset).
	ReasonUnsent = "unsent"
	// ReasonBodyTimeout means that the body was not complete in time (408).
	ReasonBodyTimeout = "body_timeout"
	// ReasonHeaders means that the request had too many or too large headers (431).
	ReasonHeaders = "headers"
)

// Reasons lists all reasons.
var Reasons = []string{ReasonBusy, ReasonDisplaced, ReasonUnsent, ReasonBodyTimeout, ReasonHeaders}

// maxHeaders is the maximum number of different headers. Many short ones take much more memory than
// their bytes. Requests through proxies have some 30.
const maxHeaders = 100

// Options configures a Limiter. All fields except Streams, Open, OpenPerSource, and Rejected are required.
type Options struct {
	// Handler processes requests within the limits.
	Handler http.Handler
	// InFlight is the maximum number of requests in progress.
	InFlight int
	// Streams is the maximum number of concurrent requests on a connection. A source can have as many in
	// progress, up to half of InFlight, or a quarter of InFlight if that is more.
	Streams int
	// Open is the maximum number of HTTP/2 requests whose responses have not been sent, in total, and
	// OpenPerSource from one source. How long sending takes is up to the client. If 0, there is no limit.
	Open, OpenPerSource int
	// HeaderBytes is the largest size of the request line and the headers, as in HTTP/1.1.
	HeaderBytes int
	// BodyBytes is the largest body that the handler accepts. Only one byte more is read.
	BodyBytes int64
	// BodyTimeout bounds the time for a body to arrive.
	BodyTimeout time.Duration
	// Reject writes a response with the status: 408, 431, or 503 with a Retry-After header.
	Reject func(w http.ResponseWriter, status int)
	// Rejected is called with the reason for each rejected request. It is optional.
	Rejected func(reason string)
}

// Limiter is a handler that limits the requests in progress. A request is in progress while its
// body arrives and while the handler processes it, until the handler begins to answer.
//
// A request beyond the limit takes the place of the one that has waited longest for its body. If
// none waits, it is rejected before its body is read. Clients that send slowly can therefore not
// keep others out.
type Limiter struct {
	options Options

	mu       sync.Mutex
	inFlight tally     // requests in progress
	open     tally     // HTTP/2 requests whose responses have not been sent
	waiting  list.List // of *body, the longest waiting first
}

// tally counts requests, in total and by source. An invalid source doesn't count.
type tally struct {
	total   int
	sources map[netip.Addr]int
}

func (t *tally) add(from netip.Addr) {
	t.total++
	if from.IsValid() {
		t.sources[from]++
	}
}

func (t *tally) remove(from netip.Addr) {
	t.total--
	if !from.IsValid() {
		return
	}
	if t.sources[from]--; t.sources[from] == 0 {
		delete(t.sources, from)
	}
}

// New returns a Limiter without requests.
func New(o Options) *Limiter {
	return &Limiter{options: o, inFlight: tally{sources: map[netip.Addr]int{}}, open: tally{sources: map[netip.Addr]int{}}}
}

// InFlight returns the number of requests in progress.
func (l *Limiter) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight.total
}

// ServeHTTP receives the body of a request and passes the request to the handler, or rejects it.
func (l *Limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && connections.From(r.Context()).CountRequest() {
		// The next request of a pipeline is in memory already. Without this, its connection would keep
		// the processor until the runtime takes it away, which takes 10 ms.
		runtime.Gosched()
	}
	if r.ProtoMajor == 1 {
		l.serve(w, r)
		return
	}
	from := connections.From(r.Context()).LimitedSource()
	if !l.begin(from) {
		if l.options.Rejected != nil {
			l.options.Rejected(ReasonUnsent)
		}
		panic(http.ErrAbortHandler) // It resets the stream. A response would wait as well.
	}
	defer l.finish(from)
	l.serve(w, r)
	forget(r)
	_ = http.NewResponseController(w).Flush() // It waits until the client lets it send.
}

// begin counts an HTTP/2 request until finish, and reports whether there are few enough.
func (l *Limiter) begin(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.options.Open > 0 && (l.open.total >= l.options.Open || l.open.sources[from] >= l.options.OpenPerSource) {
		return false
	}
	l.open.add(from)
	return true
}

func (l *Limiter) finish(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.remove(from)
}

func (l *Limiter) serve(w http.ResponseWriter, r *http.Request) {
	if len(r.Header) > maxHeaders || headerBytes(r) > l.options.HeaderBytes {
		l.reject(w, r, ReasonHeaders)
		return
	}
	conn := connections.From(r.Context())
	from := conn.LimitedSource()
	if !l.enter(from) {
		l.reject(w, r, ReasonBusy)
		return
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// net/http also reads a part of what the handler leaves.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * l.options.BodyTimeout))
	}
	// The handler rejects larger bodies without reading them.
	if r.ContentLength != 0 && r.ContentLength <= l.options.BodyBytes {
		received, reason := l.receive(w, r, from)
		if reason != "" {
			l.reject(w, r, reason)
			return
		}
		r = received
	}
	end := conn.Begin()
	answer := &response{ResponseWriter: w, answered: func() {
		end()
		l.leave(from)
	}}
	defer answer.begin()
	l.options.Handler.ServeHTTP(answer, r)
}

// headerBytes returns the size that the request line and the headers have in HTTP/1.1, without Host.
func headerBytes(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI) + len(r.Proto) + len("  \r\n")
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// forget releases the memory of an answered HTTP/2 request. net/http would keep it until the
// response has been sent, which is up to the client.
func forget(r *http.Request) {
	method := http.MethodGet
	if r.Method == http.MethodHead {
		method = http.MethodHead
	}
	*r = http.Request{Method: method, ProtoMajor: r.ProtoMajor}
}

// response gives the place of its request back when the handler begins to answer. How long sending
// the response takes is up to the client.
type response struct {
	http.ResponseWriter
	answered func() // nil after the first call
}

func (w *response) begin() {
	if w.answered != nil {
		w.answered()
		w.answered = nil
	}
}

// WriteHeader begins the response.
func (w *response) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *response) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// WriteString writes a part of the body without a copy.
func (w *response) WriteString(s string) (int, error) {
	w.begin()
	return io.WriteString(w.ResponseWriter, s)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// perSource returns the maximum number of requests in progress from one source.
func (l *Limiter) perSource() int {
	return max(1, l.options.InFlight/4, min(l.options.Streams, l.options.InFlight/2))
}

// enter takes a place, if necessary that of the request which has waited longest for its body, and
// reports whether there was one. If the source has its share already, it must be one of its own.
func (l *Limiter) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	greedy := l.inFlight.sources[from] >= l.perSource()
	if greedy || l.inFlight.total >= l.options.InFlight {
		victim := l.waiting.Front()
		for greedy && victim != nil && sourceOf(victim) != from {
			victim = victim.Next()
		}
		if victim == nil {
			return false
		}
		l.abort(victim, ReasonDisplaced)
		l.inFlight.remove(sourceOf(victim))
	}
	l.inFlight.add(from)
	return true
}

func (l *Limiter) leave(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight.remove(from)
}

// body is a body on its way. It belongs to the Limiter and its lock.
type body struct {
	control *http.ResponseController
	source  netip.Addr
	reason  string // why the Limiter stopped reading; "received" if the body is complete; empty while it arrives
}

func sourceOf(waiting *list.Element) netip.Addr {
	b, _ := waiting.Value.(*body) // the list contains nothing else
	return b.source
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
func (l *Limiter) receive(w http.ResponseWriter, r *http.Request, from netip.Addr) (*http.Request, string) {
	b := &body{control: http.NewResponseController(w), source: from}
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
		l.inFlight.remove(from)
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
	switch reason {
	case ReasonBodyTimeout:
		status = http.StatusRequestTimeout
	case ReasonHeaders:
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	unread := r.ProtoMajor == 1 && r.ContentLength != 0
	if unread {
		w.Header().Set("Connection", "close")
	}
	l.options.Reject(w, status)
	if unread { // net/http would wait for the rest of the body
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
}
