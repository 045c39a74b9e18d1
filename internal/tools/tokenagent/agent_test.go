package tokenagent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tools/tokenagent"
)

const lifetime = 5 * time.Minute

var errNoResponse = errors.New("no response")

// endpoint is a token endpoint without a network.
type endpoint struct {
	mu       sync.Mutex
	failing  error
	requests []time.Time
	slept    atomic.Int64 // nanoseconds
}

// now returns the time of the wall clock. Only that clock moves while the machine is suspended.
func (e *endpoint) now() time.Time { return time.Now().Add(time.Duration(e.slept.Load())) }

func (e *endpoint) request(context.Context) (tokenagent.Token, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.requests = append(e.requests, now)
	if e.failing != nil {
		return tokenagent.Token{}, e.failing
	}
	return tokenagent.Token{Value: fmt.Sprintf("token-%d", len(e.requests)), Expires: now.Add(lifetime), Lifetime: lifetime}, nil
}

// fail makes all requests fail from now on, or succeed again if err is nil.
func (e *endpoint) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failing = err
}

// intervals returns the times between requests.
func (e *endpoint) intervals() (all []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, at := range e.requests[1:] {
		all = append(all, at.Sub(e.requests[i]))
	}
	return all
}

// harness is an agent that runs in a bubble of synctest.
type harness struct {
	tokenagent.Agent
	endpoint *endpoint
	log      *bytes.Buffer
	stop     func()
}

func newHarness(dir string, seed uint64) *harness {
	h := &harness{endpoint: &endpoint{}, log: &bytes.Buffer{}}
	h.Agent = tokenagent.Agent{
		Request: h.endpoint.request, File: tokenagent.File{Path: filepath.Join(dir, "token"), Mode: 0o640, Format: tokenagent.FormatToken},
		Logger: slog.New(slog.NewTextHandler(h.log, nil)), Metrics: &tokenagent.Metrics{}, Random: rand.New(rand.NewPCG(seed, seed)).Float64,
		Now: h.endpoint.now,
	}
	return h
}

// start runs the agent until the end of the test or stop.
func (h *harness) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	h.stop = func() {
		cancel()
		running.Wait()
	}
	synctest.Wait()
}

// token returns the content of the file, or "" if there is none.
func (h *harness) token(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(h.File.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// run runs a test in a bubble. The directory of the file is made outside of it.
func run(t *testing.T, test func(t *testing.T, h *harness)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(dir, 1)
		test(t, h)
		if h.stop != nil {
			h.stop()
		}
	})
}

func TestRenewsAfterTwoThirdsOfTheLifetime(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		if got := h.token(t); got != "token-1" {
			t.Fatalf("the file has %q, want the first token", got)
		}
		info := testkit.Value(os.Stat(h.File.Path))(t)
		if mode := info.Mode(); mode != 0o640 {
			t.Errorf("the file has mode %v", mode)
		}
		pass(10 * time.Hour)
		intervals := h.endpoint.intervals()
		if len(intervals) < 150 {
			t.Fatalf("%d renewals in 10 hours", len(intervals))
		}
		if first := intervals[0]; first > lifetime*2/3 {
			t.Errorf("the first renewal was after %s", first)
		}
		for _, interval := range intervals[1:] {
			if interval < lifetime*2/3 || interval > lifetime*17/24 {
				t.Errorf("a renewal was after %s", interval)
			}
		}
		if want := fmt.Sprintf("token-%d", len(intervals)+1); h.token(t) != want {
			t.Errorf("the file has %q, want %q", h.token(t), want)
		}
		if lines := strings.Count(h.log.String(), "\n"); lines != 1 {
			t.Errorf("the log is not one line:\n%s", h.log)
		}
	})
}

func TestKeepsTheTokenUntilItExpires(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		pass(10 * time.Hour)
		h.endpoint.fail(errNoResponse)
		expires := h.File.Expires()
		pass(time.Until(expires) - time.Nanosecond)
		last := h.token(t)
		if last == "" {
			t.Error("the file was removed before the token expired")
		}
		pass(time.Nanosecond)
		if got := h.token(t); got != "" {
			t.Errorf("the file still has %q, which has expired", got)
		}
		pass(time.Hour)
		for _, want := range []string{"Failed to renew the token", "no response", "Removed the token because it has expired"} {
			if n := strings.Count(h.log.String(), want); n != 1 {
				t.Errorf("the log says %q %d times, want once:\n%s", want, n, h.log)
			}
		}
		if got := gauge(t, h); got != 0 {
			t.Errorf("the token of the metric expires in %v s, want 0", got)
		}
		h.endpoint.fail(nil)
		pass(time.Minute)
		if got := h.token(t); got == "" || got == last {
			t.Errorf("after the outage, the file has %q", got)
		}
		if got := gauge(t, h); got < lifetime.Seconds()-60 || got > lifetime.Seconds() {
			t.Errorf("the token of the metric expires in %v s", got)
		}
	})
}

func gauge(t *testing.T, h *harness) float64 {
	t.Helper()
	return testkit.Value(strconv.ParseFloat(metric(t, h.Metrics, "realmkeeper_token_agent_expires_in_seconds"), 64))(t)
}

// metric returns the value of a metric, and checks all of them.
func metric(t *testing.T, metrics *tokenagent.Metrics, name string) string {
	t.Helper()
	response := httptest.NewRecorder()
	metrics.ServeHTTP(response, nil)
	text := response.Body.String()
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v in\n%s", problems, err, text)
	}
	_, value, _ := strings.Cut("\n"+text, "\n"+name+" ")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// A restart renews the token. It never removes a valid one, and neither does the end of the agent.
func TestRestart(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		h.stop()
		if h.token(t) != "token-1" {
			t.Fatalf("after the end, the file has %q", h.token(t))
		}
		h.start(t)
		if h.token(t) != "token-2" {
			t.Errorf("after a restart, the file has %q, want the second token", h.token(t))
		}
		h.stop()
		h.endpoint.fail(errNoResponse)
		pass(time.Minute)
		h.start(t)
		pass(lifetime - time.Minute - time.Nanosecond)
		if h.token(t) != "token-2" {
			t.Errorf("after a restart without a token endpoint, the file has %q before the token expires", h.token(t))
		}
		pass(time.Nanosecond)
		if h.token(t) != "" {
			t.Errorf("after a restart without a token endpoint, the file has %q after the token expired", h.token(t))
		}
	})
}

// While a machine is suspended, monotonic time and timers stand still, and tokens expire.
func TestMachineSleeps(t *testing.T) {
	const noticed = 30 * time.Second // within this time
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		pass(10 * time.Hour)
		pass(time.Until(h.File.Expires()) - lifetime/4) // There is a new token.
		before := h.token(t)
		h.endpoint.slept.Add(int64(lifetime * 17 / 24))
		pass(noticed)
		after := h.token(t)
		if after == before {
			t.Errorf("the file still has %q, whose renewal is due", after)
		}
		h.endpoint.fail(errNoResponse)
		h.endpoint.slept.Add(int64(lifetime))
		pass(noticed)
		if got := h.token(t); got != "" {
			t.Errorf("the file still has %q, which has expired", got)
		}
		h.endpoint.fail(nil)
		pass(time.Minute)
		if got := h.token(t); got == "" || got == after {
			t.Errorf("after the outage, the file has %q", got)
		}
	})
}

func TestRemovesAnExpiredTokenAtStart(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		h.stop()
		pass(lifetime)
		h.endpoint.fail(errNoResponse)
		h.start(t)
		if h.token(t) != "" {
			t.Errorf("the file has %q, which has expired", h.token(t))
		}
	})
}

func TestLeavesAnEmptyDirectory(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		testkit.Do(t, os.Mkdir(h.File.Path, 0o700))
		h.start(t)
		if _, err := os.Stat(h.File.Path); err != nil {
			t.Error(err)
		}
	})
}

func TestTriesAgainToRemoveAnExpiredToken(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		h.endpoint.fail(errNoResponse)
		testkit.Do(t, os.Remove(h.File.Path))
		testkit.Do(t, os.MkdirAll(filepath.Join(h.File.Path, "that cannot be removed"), 0o700))
		pass(2 * lifetime)
		if n := strings.Count(h.log.String(), "Failed to remove the expired token"); n != 1 {
			t.Errorf("the log says %d times that the token isn't removed, want once:\n%s", n, h.log)
		}
		testkit.Do(t, os.RemoveAll(h.File.Path))
		testkit.Do(t, h.File.Write(tokenagent.Token{Value: "expired", Expires: time.Now().Add(-lifetime)}))
		pass(time.Minute)
		if got := h.token(t); got != "" {
			t.Errorf("the file still has %q", got)
		}
	})
}

// An agent doesn't remove the token of another, such as during a rolling update with a shared volume.
func TestKeepsTheTokenOfAnotherAgent(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.start(t)
		h.endpoint.fail(errNoResponse)
		testkit.Do(t, h.File.Write(tokenagent.Token{Value: "other", Expires: time.Now().Add(2 * lifetime)}))
		pass(2*lifetime - time.Nanosecond)
		if got := h.token(t); got != "other" {
			t.Errorf("the file has %q, want the token of another agent", got)
		}
		pass(time.Nanosecond)
		if got := h.token(t); got != "" {
			t.Errorf("the file still has %q, which has expired", got)
		}
	})
}

// Failures to connect are logged once, although their texts differ.
func TestLogsFailuresToConnectOnce(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		attempts := 0
		h.Request = func(context.Context) (tokenagent.Token, error) {
			attempts++
			return tokenagent.Token{}, tokenagent.NoResponse(fmt.Sprintf("port %d: connection reset", attempts))
		}
		h.start(t)
		pass(time.Hour)
		if lines := strings.Count(h.log.String(), "\n"); lines != 1 || attempts < 100 {
			t.Errorf("%d attempts, and the log has %d lines:\n%s", attempts, lines, h.log)
		}
	})
}

func TestKeepsAnExpiredTokenIfAsked(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.KeepExpired = true
		h.start(t)
		h.endpoint.fail(errNoResponse)
		pass(2 * lifetime)
		if last := h.token(t); !strings.HasPrefix(last, "token-") || !strings.Contains(h.log.String(), "The token in the file has expired") {
			t.Errorf("the file has %q, and the log says\n%s", last, h.log)
		}
		if err := h.File.Check(time.Now()); err == nil {
			t.Error("the check accepts the expired token")
		}
	})
}

// The delay between attempts grows to at most 45 seconds if a person must correct something. A repeated failure is
// logged once.
func TestTriesAgainMoreSlowly(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.endpoint.fail(errNoResponse)
		h.start(t)
		pass(time.Hour)
		intervals := h.endpoint.intervals()
		for i, interval := range intervals {
			least := min(time.Second<<min(i, 10), 30*time.Second)
			if interval < least || interval > least*3/2 {
				t.Errorf("attempt %d was after %s, want %s to %s", i+2, interval, least, least*3/2)
			}
		}
		if lines := strings.Count(h.log.String(), "\n"); lines != 1 {
			t.Errorf("the log is not one line:\n%s", h.log)
		}
		h.endpoint.fail(nil)
		pass(time.Minute)
		if h.token(t) == "" {
			t.Error("no token after the failures")
		}
		if got := metric(t, h.Metrics, `realmkeeper_token_agent_failures_total{code="other"}`); got != strconv.Itoa(len(intervals)+1) {
			t.Errorf("the metrics have %s failures, want %d", got, len(intervals)+1)
		}
	})
}

// A thousand agents that start in the same second, such as those of a cluster, request tokens evenly.
func TestManyAgentsSpread(t *testing.T) {
	const (
		agents   = 1000
		duration = 40 * time.Minute
		window   = 10 * time.Second
	)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		var all []*harness
		for i := range agents {
			own := filepath.Join(dir, strconv.Itoa(i))
			testkit.Do(t, os.Mkdir(own, 0o700))
			h := newHarness(own, uint64(i))
			all = append(all, h)
			h.start(t)
		}
		pass(duration)
		for _, h := range all { // an outage
			h.endpoint.fail(errNoResponse)
		}
		pass(10 * time.Minute)
		for _, h := range all {
			h.endpoint.fail(nil)
		}
		recovered := time.Now().Add(time.Minute) // Until then, all agents have tried again.
		pass(duration)
		for name, span := range map[string][2]time.Time{
			"since the start":  {started.Add(window), started.Add(duration)},
			"since the outage": {recovered, recovered.Add(duration - time.Minute)},
		} {
			counts := make([]int, span[1].Sub(span[0])/window)
			total := 0
			for _, h := range all {
				for _, at := range h.endpoint.requests {
					if i := int(at.Sub(span[0]) / window); !at.Before(span[0]) && i < len(counts) {
						counts[i]++
						total++
					}
				}
			}
			most, average := slices.Max(counts), float64(total)/float64(len(counts))
			t.Logf("%s: on average %.1f requests in %s, at most %d (%.2f times as many)", name, average, window, most, float64(most)/average)
			if float64(most) > 2*average {
				t.Errorf("%s: %d requests in %s, more than twice the average of %.1f", name, most, window, average)
			}
		}
		for _, h := range all {
			h.stop()
		}
	})
}

func TestOnce(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.endpoint.fail(errNoResponse)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		started := time.Now()
		if err := h.Once(ctx); !errors.Is(err, errNoResponse) || time.Since(started) != time.Minute {
			t.Errorf("after %s: %v, want %v after a minute", time.Since(started), err, errNoResponse)
		}
		if n := len(h.endpoint.requests); n < 4 {
			t.Errorf("%d attempts in a minute", n)
		}
		h.endpoint.fail(nil)
		if err := h.Once(t.Context()); err != nil || h.token(t) == "" {
			t.Errorf("%v, and the file has %q", err, h.token(t))
		}
		if h.log.Len() > 0 {
			t.Errorf("the log isn't empty:\n%s", h.log)
		}
	})
}
