package requests_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/connections"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/requests"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an HTTPS server behind a Limiter. It counts the reasons for rejecting requests.
type server struct {
	*requests.Limiter
	url string

	mu      sync.Mutex
	reasons map[string]int
}

func start(t *testing.T, o requests.Options) *server {
	t.Helper()
	s := &server{reasons: map[string]int{}}
	o.Reject = func(w http.ResponseWriter, status int) { w.WriteHeader(status) }
	o.Rejected = func(reason string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reasons[reason]++
	}
	s.Limiter = requests.New(o)
	running := httptest.NewUnstartedServer(s.Limiter)
	running.EnableHTTP2 = true
	running.StartTLS()
	t.Cleanup(running.Close)
	s.url = running.URL
	return s
}

func (s *server) checkReasons(t *testing.T, want map[string]int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	testkit.Diff(t, "reasons", want, s.reasons)
}

// forEachProtocol runs the test with a client for each version of HTTP.
func forEachProtocol(t *testing.T, test func(t *testing.T, client *http.Client)) {
	t.Helper()
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2], func(t *testing.T) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
			t.Cleanup(transport.CloseIdleConnections)
			test(t, &http.Client{Transport: transport, Timeout: 30 * time.Second})
		})
	}
}

// slow is a request whose body doesn't end until finish is called.
type slow struct {
	body   *io.PipeWriter
	status chan int // receives the status of the response, or 0 after an error
}

// post sends a request with the beginning of a body.
func (s *server) post(t *testing.T, client *http.Client) slow {
	t.Helper()
	reader, writer := io.Pipe()
	sent := slow{writer, make(chan int, 1)}
	t.Cleanup(func() { writer.Close() })
	before := s.InFlight()
	go func() {
		response, err := client.Post(s.url, "text/plain", reader)
		if err != nil {
			sent.status <- 0
			return
		}
		response.Body.Close()
		sent.status <- response.StatusCode
	}()
	_, _ = writer.Write([]byte("begin")) // fails if the response comes first
	if before < 2 {                      // otherwise it takes the place of another
		waitFor(t, func() bool { return s.InFlight() == before+1 })
	}
	return sent
}

func (r slow) finish() int {
	r.body.Close()
	return <-r.status
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not become true")
		}
	}
}

func get(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	response := testkit.Value(client.Get(url))(t)
	response.Body.Close()
	return response
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func TestLongestWaitingBodyIsDisplaced(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		s := start(t, requests.Options{Handler: http.HandlerFunc(noContent), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute})
		first, second := s.post(t, client), s.post(t, client)
		testkit.Diff(t, "status of the request without a body", http.StatusNoContent, get(t, client, s.url).StatusCode)
		testkit.Diff(t, "status of the request that waited longest", http.StatusServiceUnavailable, <-first.status)
		testkit.Diff(t, "status of the other one", http.StatusNoContent, second.finish())
		s.checkReasons(t, map[string]int{requests.ReasonDisplaced: 1})
		waitFor(t, func() bool { return s.InFlight() == 0 })
	})
}

func TestBusyServerRejectsBeforeTheBody(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		release := make(chan struct{})
		finish := sync.OnceFunc(func() { close(release) })
		s := start(t, requests.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-release
			noContent(w, r)
		}), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute})
		t.Cleanup(finish) // before the server waits for its handlers
		var processed sync.WaitGroup
		for range 2 {
			processed.Go(func() {
				testkit.Diff(t, "status of a request in progress", http.StatusNoContent, get(t, client, s.url).StatusCode)
			})
		}
		waitFor(t, func() bool { return s.InFlight() == 2 })
		testkit.Diff(t, "status of the request with an unfinished body", http.StatusServiceUnavailable, <-s.post(t, client).status)
		testkit.Diff(t, "status of the request without a body", http.StatusServiceUnavailable, get(t, client, s.url).StatusCode)
		finish()
		processed.Wait()
		s.checkReasons(t, map[string]int{requests.ReasonBusy: 2})
		waitFor(t, func() bool { return s.InFlight() == 0 })
	})
}

func TestSlowBodyTimesOut(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		s := start(t, requests.Options{Handler: http.HandlerFunc(noContent), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: 50 * time.Millisecond})
		testkit.Diff(t, "status", http.StatusRequestTimeout, <-s.post(t, client).status)
		s.checkReasons(t, map[string]int{requests.ReasonBodyTimeout: 1})
		waitFor(t, func() bool { return s.InFlight() == 0 })
	})
}

// After the body has arrived, the request may be processed for longer than the body may take.
func TestProcessingOutlastsTheBodyTimeout(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		const timeout = 20 * time.Millisecond
		s := start(t, requests.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				w.WriteHeader(http.StatusTeapot)
			case <-time.After(5 * timeout):
				noContent(w, r)
			}
		}), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: timeout})
		response := testkit.Value(client.Post(s.url, "text/plain", strings.NewReader("body")))(t)
		response.Body.Close()
		testkit.Diff(t, "status", http.StatusNoContent, response.StatusCode)
	})
}

func TestPanicReleasesThePlace(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		s := start(t, requests.Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute})
		for range 5 {
			if response, err := client.Get(s.url); err == nil {
				response.Body.Close()
				t.Errorf("got status %d", response.StatusCode)
			}
		}
		waitFor(t, func() bool { return s.InFlight() == 0 })
		s.checkReasons(t, map[string]int{})
	})
}

// A client that reads its response slowly takes no place.
func TestAnswerGivesThePlaceBack(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		release := make(chan struct{})
		finish := sync.OnceFunc(func() { close(release) })
		s := start(t, requests.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
			if r.URL.Path == "/slow" {
				<-release
			}
		}), InFlight: 1, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute})
		t.Cleanup(finish)
		for range 3 {
			response := testkit.Value(client.Get(s.url + "/slow"))(t)
			t.Cleanup(func() { response.Body.Close() })
			testkit.Diff(t, "status", http.StatusOK, response.StatusCode)
		}
		testkit.Diff(t, "requests in progress", 0, s.InFlight())
		finish()
		s.checkReasons(t, map[string]int{})
	})
}

// Clients decide when an HTTP/2 response can be sent. Until then, it takes memory.
func TestUnsentResponsesAreLimited(t *testing.T) {
	s := start(t, requests.Options{
		Open: 2, OpenPerSource: 2, InFlight: 10, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for { // more than the client's window
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}),
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	first := testkit.Value(client.Get(s.url))(t)
	second := testkit.Value(client.Get(s.url))(t)
	defer second.Body.Close()
	if response, err := client.Get(s.url); err == nil {
		response.Body.Close()
		t.Error("a third response has begun")
	}
	s.checkReasons(t, map[string]int{requests.ReasonUnsent: 1})
	first.Body.Close() // cancels it
	waitFor(t, func() bool {
		response, err := client.Get(s.url)
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
}

func TestManyHeadersAreRejected(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, client *http.Client) {
		s := start(t, requests.Options{Handler: http.HandlerFunc(noContent), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute})
		for count, want := range map[int]int{80: http.StatusNoContent, 101: http.StatusRequestHeaderFieldsTooLarge} {
			r := testkit.Value(http.NewRequest(http.MethodGet, s.url, nil))(t)
			for i := range count {
				r.Header.Set(fmt.Sprintf("X-%d", i), "")
			}
			response := testkit.Value(client.Do(r))(t)
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%d headers: got status %d, want %d", count, response.StatusCode, want)
			}
		}
		s.checkReasons(t, map[string]int{requests.ReasonHeaders: 1})
	})
}

// net/http refers to an HTTP/2 request until the client has read its response.
func TestAnsweredRequestIsForgotten(t *testing.T) {
	l := requests.New(requests.Options{Handler: http.HandlerFunc(noContent), InFlight: 2, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute})
	r := httptest.NewRequest(http.MethodHead, "/a/long/path", nil)
	r.ProtoMajor = 2
	r.Header.Set("X-Fill", "many bytes")
	header := r.Header
	l.ServeHTTP(httptest.NewRecorder(), r)
	if r.Header != nil || r.URL != nil || r.Method != http.MethodHead {
		t.Errorf("the request is still %s %v with %v, had %v", r.Method, r.URL, r.Header, header)
	}
}

// A source can have a quarter of the places, and its own slow bodies make room for its requests.
// The requests of a pipeline are in memory when the first one has been processed. A connection may
// nevertheless not process all of them before other connections have their turn.
func TestPipelinesTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const each = 100
	var (
		mu    sync.Mutex
		order []string
	)
	l := requests.New(requests.Options{InFlight: 10, HeaderBytes: 1 << 10, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.URL.Path)
	})})
	var running sync.WaitGroup
	for _, connection := range []string{"/a", "/b"} {
		running.Go(func() {
			for range each {
				l.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, connection, nil))
			}
		})
	}
	running.Wait()
	if first := order[:each]; !slices.Contains(first, "/a") || !slices.Contains(first, "/b") {
		t.Errorf("%s was served %d times before any other connection", first[0], each)
	}
}

func TestSourceHasAShare(t *testing.T) {
	release := make(chan struct{})
	finish := sync.OnceFunc(func() { close(release) })
	l := requests.New(requests.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		noContent(w, r)
	}), InFlight: 8, HeaderBytes: 1 << 10, BodyBytes: 100, BodyTimeout: time.Minute, Reject: func(w http.ResponseWriter, status int) { w.WriteHeader(status) }})
	inner := testkit.Value(net.Listen("tcp", "0.0.0.0:0"))(t)
	server := &http.Server{Handler: l, ConnContext: connections.WithConn}
	go func() { _ = server.Serve(connections.New(inner, connections.Options{Total: 20, PerSource: 20})) }()
	t.Cleanup(func() { server.Close() })
	t.Cleanup(finish)
	var running sync.WaitGroup
	defer running.Wait()
	defer finish()
	// get sends a request from a loopback address and returns the channel that gets its status.
	get := func(from string) <-chan int {
		status := make(chan int, 1)
		running.Go(func() {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
			response, err := (&http.Client{Transport: transport}).Get(fmt.Sprintf("http://127.0.0.1:%d", inner.Addr().(*net.TCPAddr).Port))
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			response.Body.Close()
			status <- response.StatusCode
		})
		return status
	}
	get("127.0.0.2")
	get("127.0.0.2")
	waitFor(t, func() bool { return l.InFlight() == 2 })
	testkit.Diff(t, "status of a source beyond its share", http.StatusServiceUnavailable, <-get("127.0.0.2"))
	get("127.0.0.3")
	waitFor(t, func() bool { return l.InFlight() == 3 })
	finish()
	waitFor(t, func() bool { return l.InFlight() == 0 })
}
