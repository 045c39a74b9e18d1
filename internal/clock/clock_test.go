package clock_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/realmkeeper/realmkeeper/internal/clock"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world has the true time, and clocks that are off by some.
type world struct {
	elapsed      time.Duration
	wall, server time.Duration // how far they are ahead of the true time
	clock        *clock.Clock
}

func newWorld() *world {
	w := &world{}
	w.clock = clock.New(clock.Machine{
		Wall:    func() time.Time { return w.now().Add(w.wall) },
		Elapsed: func() time.Duration { return w.elapsed },
	})
	return w
}

func (w *world) now() time.Time { return start.Add(w.elapsed) }

// observe lets an answer of the API server come, whose Date is in whole seconds.
func (w *world) observe() { w.clock.Observe(w.now().Add(w.server).Truncate(time.Second)) }

// off is how far the clock is ahead of the true time.
func (w *world) off() time.Duration { return w.clock.Now().Sub(w.now()) }

func TestClock(t *testing.T) {
	type step struct {
		what         string
		pass         time.Duration
		wall, server time.Duration // steps of theirs
		silent       bool          // the API server is away
		want         time.Duration
	}
	for name, steps := range map[string][]step{
		"all go right": {
			{what: "first", pass: time.Minute},
			{what: "later", pass: time.Hour},
		},
		"the machine's clock steps, and back": {
			{what: "first"},
			{what: "ahead", wall: time.Hour, pass: time.Second},
			{what: "still", pass: 24 * time.Hour},
			{what: "behind", wall: -2 * time.Hour, pass: time.Second},
			{what: "right again", wall: time.Hour, pass: time.Minute},
		},
		"the API server's clock steps, and back": {
			{what: "first"},
			{what: "ahead", server: time.Hour, pass: time.Second},
			{what: "still", pass: 24 * time.Hour},
			{what: "behind", server: -2 * time.Hour, pass: time.Second},
			{what: "right again", server: time.Hour, pass: time.Minute},
		},
		"without the API server": {
			{what: "first"},
			{what: "away", silent: true, pass: time.Hour},
			{what: "ahead", silent: true, wall: time.Hour, pass: time.Hour},
			{what: "behind", silent: true, wall: -2 * time.Hour, pass: time.Hour},
		},
		"the machine's clock was wrong from the beginning, and is set": {
			{what: "before the API server is heard", wall: -time.Hour, silent: true, want: -time.Hour},
			{what: "first", pass: time.Second},
			{what: "later", pass: time.Hour},
			{what: "right", wall: time.Hour, pass: time.Second},
		},
		"the API server's clock was wrong from the beginning, and is set": {
			{what: "first", server: -time.Hour, want: -time.Hour},
			{what: "later", pass: time.Hour, want: -time.Hour},
			{what: "right", server: time.Hour, pass: time.Second},
			{what: "it steps", server: time.Hour, pass: time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for _, s := range steps {
				w.elapsed += s.pass
				w.wall += s.wall
				w.server += s.server
				if !s.silent {
					w.observe()
				}
				if got := w.off(); got != s.want {
					t.Fatalf("%s: the clock is off by %s, want %s", s.what, got, s.want)
				}
			}
		})
	}
}

// However one of the clocks steps, the answer is no further off than the API server's
// word is coarse, and while the machine's clock is right it is not off at all.
func TestOneClockThatStepsMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.elapsed = time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "begin"))
		w.observe()
		wrong := rapid.SampledFrom([]*time.Duration{&w.wall, &w.server}).Draw(t, "wrong clock")
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			w.elapsed += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "pause"))
			*wrong = time.Duration(rapid.Int64Range(int64(-time.Hour), int64(time.Hour)).Draw(t, "off"))
			checkOff(t, w)
			w.observe()
			checkOff(t, w)
		}
	})
}

func checkOff(t *rapid.T, w *world) {
	got := w.off()
	if got >= 2*time.Second || got <= -time.Second || w.wall == 0 && got != 0 {
		t.Fatalf("The clock is off by %s, the machine's by %s, the API server's by %s", got, w.wall, w.server)
	}
}

func TestTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		date  string
		takes time.Duration
		want  time.Duration
	}{
		"a date":               {date: start.Add(-time.Hour).Format(http.TimeFormat), want: -time.Hour},
		"no date":              {date: ""},
		"nothing like a date":  {date: "yesterday"},
		"an answer comes late": {date: start.Add(-time.Hour).Format(http.TimeFormat), takes: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				w.elapsed += tc.takes
				rw.Header()["Date"] = nil // none of net/http's own
				if tc.date != "" {
					rw.Header().Set("Date", tc.date)
				}
			}))
			defer server.Close()
			client := &http.Client{Transport: w.clock.Transport(http.DefaultTransport)}
			answer, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if got := w.off(); got != tc.want {
				t.Errorf("The clock is off by %s, want %s", got, tc.want)
			}
			server.Close()
			if answer, err := client.Get(server.URL); err == nil {
				answer.Body.Close()
				t.Error("A server that is closed answers")
			}
		})
	}
}

func TestThisMachine(t *testing.T) {
	c := clock.New(clock.ThisMachine())
	before := time.Now().Round(0)
	got := c.Now()
	if after := time.Now().Round(0); got.Before(before) || got.After(after) {
		t.Errorf("The clock shows %s between %s and %s", got, before, after)
	}
	c.Observe(time.Now())
	if d := time.Since(c.Now()).Abs(); d > time.Minute {
		t.Errorf("The clock is off by %s", d)
	}
}

func TestConcurrentUse(*testing.T) {
	c := clock.New(clock.ThisMachine())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			c.Observe(time.Now())
		}
	}()
	for range 1000 {
		c.Now()
	}
	<-done
}

func BenchmarkNow(b *testing.B) {
	c := clock.New(clock.ThisMachine())
	c.Observe(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}
