package slowhash_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/slowhash"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	right = "the secret of the owner"
	// hashTime is how long the fake hash takes, and pause how long a client pauses after a wrong
	// secret. The tests run in the time of testing/synctest, which is exact.
	hashTime = 20 * time.Millisecond
	pause    = 15 * hashTime
	// laterPause is the pause after ten wrong secrets.
	laterPause = 100 * hashTime
)

// inBubble runs a test in the time of testing/synctest. Secrets that still wait at its end are
// verified first.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(10 * time.Minute)
		test(t)
	})
}

// hash is a fake Verifier. It records which secrets it verified, and how many verifications ran at
// the same time.
type hash struct {
	name   string // of the client
	secret string
	memory int64
	takes  time.Duration // defaults to hashTime
	log    *log
}

type log struct {
	mu       sync.Mutex
	verified []string
	running  map[string]int // by client
	most     int            // verifications at a time
	mostOne  int            // verifications at a time of one client
	used     int64
	mostUsed int64
}

func newLog() *log { return &log{running: map[string]int{}} }

func (h *hash) Verify(secret string) bool {
	l := h.log
	l.mu.Lock()
	l.verified = append(l.verified, secret)
	l.running[h.name]++
	l.used += h.memory
	running := 0
	for _, n := range l.running {
		running += n
	}
	l.most, l.mostOne, l.mostUsed = max(l.most, running), max(l.mostOne, l.running[h.name]), max(l.mostUsed, l.used)
	l.mu.Unlock()
	time.Sleep(cmp.Or(h.takes, hashTime))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[h.name]--
	l.used -= h.memory
	return secret == h.secret
}

func (h *hash) Memory() int64  { return h.memory }
func (h *hash) String() string { return "$fake$" + h.name + "$" + h.secret }

func (l *log) count(secret string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, verified := range l.verified {
		if verified == secret {
			n++
		}
	}
	return n
}

// checker is a Checker with its metric.
type checker struct {
	*slowhash.Checker
	checks *prometheus.CounterVec
	log    *log
}

func newChecker(cores int) *checker {
	checks := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "checks"}, []string{"outcome"})
	return &checker{slowhash.NewWithCores(slowhash.Options{Checks: checks}, cores), checks, newLog()}
}

// hash returns the hash of the given client's secret.
func (c *checker) hash(client string) *hash { return &hash{name: client, secret: right, log: c.log} }

// send checks a secret of a client that has one hash.
func (c *checker) send(ctx context.Context, client, secret string) (correct bool, err error) {
	matched, err := c.Check(ctx, client, []slowhash.Verifier{c.hash(client)}, secret)
	return matched == 0, err
}

func (c *checker) expect(t *testing.T, client, secret string, want bool) {
	t.Helper()
	if got, err := c.send(t.Context(), client, secret); err != nil || got != want {
		t.Errorf("secret %q of client %s: got %t and error %v, want %t", secret, client, got, err, want)
	}
}

func (c *checker) expectOutcomes(t *testing.T, want map[string]int) {
	t.Helper()
	for _, outcome := range []string{"remembered", "verified", "rejected", "busy"} {
		testkit.Diff(t, "checks with outcome "+outcome, want[outcome], int(testutil.ToFloat64(c.checks.WithLabelValues(outcome))))
	}
}

func TestEachResultIsComputedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		for range 3 {
			c.expect(t, "a", right, true)
			c.expect(t, "a", "wrong", false)
		}
		c.expectOutcomes(t, map[string]int{"verified": 2, "remembered": 2, "rejected": 2})
		if began := time.Now(); true {
			c.expect(t, "a", "wrong", false)
			testkit.Diff(t, "time of a wrong secret that repeats", time.Duration(0), time.Since(began))
		}
		c.expect(t, "b", right, true) // a result is that of one client
		testkit.Diff(t, "verifications of the correct secret of two clients", 2, c.log.count(right))
	})
}

func TestChangedHashIsVerifiedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		old, changed := c.hash("a"), c.hash("a")
		changed.secret = "the new secret"
		for _, step := range []struct {
			verifiers []slowhash.Verifier
			secret    string
			want      int
		}{
			{[]slowhash.Verifier{old}, right, 0},
			{[]slowhash.Verifier{changed}, right, slowhash.NoMatch},
			{[]slowhash.Verifier{changed, old}, right, 1},
			{[]slowhash.Verifier{old, changed}, "the new secret", 1},
			{[]slowhash.Verifier{old}, "the new secret", slowhash.NoMatch},
		} {
			if got, err := c.Check(t.Context(), "a", step.verifiers, step.secret); err != nil || got != step.want {
				t.Errorf("%s with %v: got %d and error %v, want %d", step.secret, step.verifiers, got, err, step.want)
			}
		}
		if right, changed := c.log.count(right), c.log.count("the new secret"); right != 2 || changed != 2 {
			t.Errorf("%d and %d verifications, want 2 of each secret: one with each hash", right, changed)
		}
	})
}

// Concurrent requests with the same secret share one verification, and a request that is canceled
// doesn't stop it.
func TestRequestsShareAVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		canceled, cancel := context.WithCancel(t.Context())
		var requests sync.WaitGroup
		requests.Go(func() {
			if _, err := c.send(canceled, "a", right); !errors.Is(err, oauth.ErrBusy) {
				t.Errorf("canceled request: got error %v, want %v", err, oauth.ErrBusy)
			}
		})
		synctest.Wait()
		for range 5 {
			requests.Go(func() { c.expect(t, "a", right, true) })
		}
		synctest.Wait()
		cancel()
		requests.Wait()
		c.expectOutcomes(t, map[string]int{"verified": 1, "busy": 1})
	})
}

func TestConcurrentVerificationsAreLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		cores    int
		memory   int64 // of each verification
		want     int
		wantUsed int64
	}{
		"three cores":               {3, 19 << 20, 2, 38 << 20},
		"many cores":                {64, 19 << 20, 2, 38 << 20},
		"memory for one":            {64, 40 << 20, 1, 40 << 20},
		"more memory than there is": {64, 99 << 20, 1, 99 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newChecker(tc.cores)
				var requests sync.WaitGroup
				for client := range 5 {
					for secret := range 5 {
						requests.Go(func() {
							h := c.hash(strconv.Itoa(client))
							h.memory = tc.memory
							_, _ = c.Check(t.Context(), h.name, []slowhash.Verifier{h}, fmt.Sprintf("guess %d", secret))
						})
					}
				}
				requests.Wait()
				if c.log.most != tc.want || c.log.mostOne != 1 || c.log.mostUsed != tc.wantUsed {
					t.Errorf("%d verifications at a time, %d of one client, with %d bytes; want %d, 1 and %d", c.log.most, c.log.mostOne, c.log.mostUsed, tc.want, tc.wantUsed)
				}
			})
		})
	}
}

// A client pauses after a wrong secret, and other clients don't wait for it.
func TestPauseAfterWrongSecret(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		took := func(client, secret string, want bool) time.Duration {
			t.Helper()
			began := time.Now()
			c.expect(t, client, secret, want)
			return time.Since(began)
		}
		for _, step := range []struct {
			client, secret string
			correct        bool
			want           time.Duration
		}{
			{"a", "wrong", false, hashTime},
			{"a", "wrong again", false, pause + hashTime},
			{"b", "wrong", false, hashTime},
			{"a", right, true, pause - hashTime + hashTime}, // b's verification took part of the pause
			{"a", "after a correct one", false, hashTime},
			{"c", right, true, hashTime},
		} {
			testkit.Diff(t, step.client+" with "+step.secret, step.want, took(step.client, step.secret, step.correct))
		}
	})
}

// guess sends guesses at one client, each repeated the given number of times, until the test ends.
// It returns a function that stops it.
func (c *checker) guess(ctx context.Context, client string, perSecond, repeat int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var sent sync.WaitGroup
	sent.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			sent.Go(func() { _, _ = c.send(ctx, client, fmt.Sprintf("guess %d", i/repeat)) })
			time.Sleep(time.Second / time.Duration(perSecond))
		}
	})
	return func() {
		cancel()
		sent.Wait()
	}
}

// get sends the correct secret of a client as its owner does, who obeys Retry-After, until it is
// accepted. It returns how long that took.
func (c *checker) get(t *testing.T, client string) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		correct, err := c.send(t.Context(), client, right)
		switch {
		case err == nil && correct:
			return time.Since(began)
		case err == nil:
			t.Fatal("the correct secret was rejected")
		case time.Since(began) > 10*time.Minute:
			t.Fatal("the owner is locked out")
		}
	}
}

// While an attacker guesses, the owner gets the first token soon and later ones immediately. Guesses
// use less than one percent of a core.
func TestOwnerGetsThroughGuesses(t *testing.T) {
	for name, tc := range map[string]struct {
		perSecond, repeat int
		want              time.Duration
	}{
		"2,000 a second":                          {2000, 1, 5 * time.Second},
		"500 a second, each twice":                {500, 2, 7 * time.Second},
		"500 a second, each a hundred times over": {500, 100, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newChecker(2)
				stop := c.guess(t.Context(), "a", tc.perSecond, tc.repeat)
				defer stop()
				const before = 10 * time.Second
				time.Sleep(before)
				verified := testutil.ToFloat64(c.checks.WithLabelValues("verified"))
				if limit := float64(before/laterPause) + 10; verified > limit { // ten mistakes
					t.Errorf("%v guesses were verified in %s, want at most %v", verified, before, limit)
				}
				if took := c.get(t, "a"); took > tc.want {
					t.Errorf("the owner's first token took %s, want at most %s", took, tc.want)
				} else {
					t.Logf("first token after %s", took)
				}
				testkit.Diff(t, "time of a later token", time.Duration(0), c.get(t, "a"))
			})
		})
	}
}

// A client under attack delays others by one verification at most.
func TestGuessesDoNotDelayOtherClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		defer c.guess(t.Context(), "a", 500, 1)()
		time.Sleep(time.Second)
		for i := range 200 {
			if took := c.get(t, fmt.Sprintf("other %d", i)); took > 2*hashTime {
				t.Errorf("client %d waited for %s, want at most %s", i, took, 2*hashTime)
			}
			time.Sleep(7 * time.Millisecond)
		}
	})
}

// Without requests, nothing is verified any longer than necessary.
func TestWaitingSecretsAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		stop := c.guess(t.Context(), "a", 100, 1)
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Minute)
		before := testutil.ToFloat64(c.checks.WithLabelValues("verified"))
		time.Sleep(time.Hour)
		if after := testutil.ToFloat64(c.checks.WithLabelValues("verified")); after != before {
			t.Errorf("%v guesses were verified more than a minute after the last request", after-before)
		}
		c.expect(t, "a", right, true)
	})
}

func TestTooLongSecretIsWrong(t *testing.T) {
	c := newChecker(2)
	c.expect(t, "a", strings.Repeat("x", slowhash.MaxSecretBytes+1), false)
	c.expectOutcomes(t, map[string]int{"rejected": 1})
}

// A flood of the longest secrets for many clients uses no more memory than documented, and doesn't
// displace correct results.
func TestMemoryIsBounded(t *testing.T) {
	checks := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "checks"}, []string{"outcome"})
	var release atomic.Bool
	before := heapAlloc()
	c := slowhash.NewWithCores(slowhash.Options{Checks: checks}, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no request waits
	send := func(i int, secret string) {
		_, _ = c.Check(ctx, strconv.Itoa(i%1000), []slowhash.Verifier{instant{&release}}, secret)
	}
	release.Store(true)
	for i := range 33_000 { // remember many results
		_, _ = c.Check(t.Context(), strconv.Itoa(i), []slowhash.Verifier{instant{&release}}, strconv.Itoa(i))
	}
	older := strconv.Itoa(30_000) // no longer in the newer half of the table
	_, _ = c.Check(t.Context(), older, []slowhash.Verifier{instant{&release}}, older)
	testkit.Diff(t, "remembered results", 1.0, testutil.ToFloat64(checks.WithLabelValues("remembered")))
	release.Store(false)
	for i := range 20_000 { // let many wait
		send(i, strings.Repeat("x", slowhash.MaxSecretBytes-5)+strconv.Itoa(i))
	}
	// All remembered results, numbers of requests, and waiting secrets are in addition to Options.Memory.
	if used := heapAlloc() - before; used > 8<<20 {
		t.Errorf("the tables use %d bytes, want at most 8 MiB", used)
	} else {
		t.Logf("the tables use %d bytes", used)
	}
	release.Store(true)
	runtime.KeepAlive(c)
}

// instant is a hash that takes no time once it is released. Even secrets are correct.
type instant struct{ released *atomic.Bool }

func (h instant) Verify(secret string) bool {
	for !h.released.Load() {
		time.Sleep(time.Millisecond)
	}
	return (secret[len(secret)-1]-'0')%2 == 0
}

func (h instant) Memory() int64  { return 0 }
func (h instant) String() string { return "instant" }

func heapAlloc() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Guesses at many clients don't delay a client for which nobody has sent a wrong secret.
func TestGuessesAtManyClientsLetOthersFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(1)
		ctx, cancel := context.WithCancel(t.Context())
		var stopped []func()
		for i := range 200 { // twice as many as can be verified
			stopped = append(stopped, c.guess(ctx, fmt.Sprintf("attacked-%d", i), 1, 1))
		}
		defer func() {
			cancel()
			for _, stop := range stopped {
				stop()
			}
		}()
		time.Sleep(5 * time.Second)
		const most = time.Second + 2*hashTime // if its first request finds no room to wait
		if took := c.get(t, "another"); took > most {
			t.Errorf("the first token of another client took %s, want at most %s", took, most)
		}
	})
}

// To wait for the end of each pause doesn't make it shorter.
func TestPatientGuesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(1)
		for i := range 30 {
			_, _ = c.send(t.Context(), "a", fmt.Sprintf("guess %d", i))
			time.Sleep(laterPause)
			_, _ = c.send(t.Context(), "another", fmt.Sprintf("guess %d", i)) // lets the checker forget clients
		}
		before := testutil.ToFloat64(c.checks.WithLabelValues("verified"))
		_, _ = c.send(t.Context(), "a", "one guess")
		// The pause is as long as a request waits. A verification that begins in the same instant would count.
		ctx, cancel := context.WithTimeout(t.Context(), laterPause-time.Millisecond)
		defer cancel()
		_, _ = c.send(ctx, "a", "one more")
		testkit.Diff(t, "guesses verified without the longer pause", 1.0, testutil.ToFloat64(c.checks.WithLabelValues("verified"))-before)
	})
}

// A request can have two secrets, of which the client has meant one. Both are verified in one turn. If one is
// known to be correct, the other one isn't verified.
func TestTwoPossibleSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		check := func(want int, took time.Duration, secrets ...string) {
			t.Helper()
			began := time.Now()
			got, err := c.Check(t.Context(), "a", []slowhash.Verifier{c.hash("a")}, secrets...)
			if err != nil || got != want {
				t.Errorf("secrets %q: got %d and error %v, want %d", secrets, got, err, want)
			}
			testkit.Diff(t, fmt.Sprintf("time for %q", secrets), took, time.Since(began))
		}
		check(slowhash.NoMatch, 2*hashTime, "wrong", "also wrong")
		check(slowhash.NoMatch, 0, "also wrong", "wrong")
		check(slowhash.NoMatch, 2*pause+hashTime, "as long as after two requests") // pauses first
		check(0, pause+hashTime, "wrong", right)
		check(0, 0, "never verified", right)
		check(0, 0, right, "never verified")
		testkit.Diff(t, "verifications although the other secret is known to be correct", 0, c.log.count("never verified"))
		check(slowhash.NoMatch, 0, strings.Repeat("x", slowhash.MaxSecretBytes+1), "wrong")
		c.expectOutcomes(t, map[string]int{"verified": 4, "remembered": 2, "rejected": 2})
	})
}

// If the second of two secrets is the correct one, the first one was no wrong guess: the client doesn't pause.
func TestSecondSecretIsCorrect(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		began := time.Now()
		for i := range 20 { // more than maxMistakes
			secret := fmt.Sprintf("%d and %s", i, right)
			h := c.hash("a")
			h.secret = secret
			if got, err := c.Check(t.Context(), "a", []slowhash.Verifier{h}, fmt.Sprintf("decoded %d", i), secret); got != 0 || err != nil {
				t.Fatalf("got %d and error %v", got, err)
			}
		}
		testkit.Diff(t, "time for 20 requests", 40*hashTime, time.Since(began))
	})
}

// A valid request isn't rejected because the verification of its other reading takes long.
func TestVerificationMayTakeLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		h := c.hash("a")
		h.takes = 1500 * time.Millisecond
		if got, err := c.Check(t.Context(), "a", []slowhash.Verifier{h}, "decoded", right); got != 0 || err != nil {
			t.Errorf("got %d and error %v, want 0", got, err)
		}
	})
}

// A request can wait for one of the two secrets of another request, for example because its sender doesn't encode
// it. The other request still gets the result for its second secret.
func TestRequestsShareOnlyOneOfTwoSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newChecker(2)
		go func() { _, _ = c.send(t.Context(), "a", "decoded") }()
		synctest.Wait()
		began := time.Now()
		if got, err := c.Check(t.Context(), "a", []slowhash.Verifier{c.hash("a")}, "decoded", right); got != 0 || err != nil {
			t.Errorf("got %d and error %v, want 0", got, err)
		}
		testkit.Diff(t, "time", hashTime+pause+2*hashTime, time.Since(began))
	})
}
