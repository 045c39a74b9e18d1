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

// model has the true time and clocks with an offset from it.
type model struct {
	elapsed      time.Duration
	wall, server time.Duration // offsets of these clocks from the true time
	clock        *clock.Clock
}

func newModel() *model {
	m := &model{}
	m.clock = clock.New(clock.Machine{
		Wall:    func() time.Time { return m.now().Add(m.wall) },
		Elapsed: func() time.Duration { return m.elapsed },
	})
	return m
}

func (m *model) now() time.Time { return start.Add(m.elapsed) }

// observe delivers a response from the API server with a Date header, which has one-second
// resolution.
func (m *model) observe() { m.clock.Observe(m.now().Add(m.server).Truncate(time.Second)) }

// offset returns how far the clock is ahead of the true time.
func (m *model) offset() time.Duration { return m.clock.Now().Sub(m.now()) }

func TestClock(t *testing.T) {
	type step struct {
		what         string
		pass         time.Duration
		wall, server time.Duration // steps of these clocks
		unavailable  bool          // the API server
		want         time.Duration
	}
	for name, steps := range map[string][]step{
		"all clocks are right": {
			{what: "first", pass: time.Minute},
			{what: "later", pass: time.Hour},
		},
		"machine's clock steps and is corrected": {
			{what: "first"},
			{what: "ahead", wall: time.Hour, pass: time.Second},
			{what: "a day later", pass: 24 * time.Hour},
			{what: "behind", wall: -2 * time.Hour, pass: time.Second},
			{what: "corrected", wall: time.Hour, pass: time.Minute},
		},
		"API server's clock steps and is corrected": {
			{what: "first"},
			{what: "ahead", server: time.Hour, pass: time.Second},
			{what: "a day later", pass: 24 * time.Hour},
			{what: "behind", server: -2 * time.Hour, pass: time.Second},
			{what: "corrected", server: time.Hour, pass: time.Minute},
		},
		"API server becomes unavailable": {
			{what: "first"},
			{what: "unavailable", unavailable: true, pass: time.Hour},
			{what: "ahead", unavailable: true, wall: time.Hour, pass: time.Hour},
			{what: "behind", unavailable: true, wall: -2 * time.Hour, pass: time.Hour},
		},
		"machine's clock is wrong at the start and is corrected": {
			{what: "before the first observation", wall: -time.Hour, unavailable: true, want: -time.Hour},
			{what: "first", pass: time.Second},
			{what: "later", pass: time.Hour},
			{what: "corrected", wall: time.Hour, pass: time.Second},
		},
		"API server's clock is wrong at the start and is corrected": {
			{what: "first", server: -time.Hour, want: -time.Hour},
			{what: "later", pass: time.Hour, want: -time.Hour},
			{what: "corrected", server: time.Hour, pass: time.Second},
			{what: "steps again", server: time.Hour, pass: time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			for _, s := range steps {
				m.elapsed += s.pass
				m.wall += s.wall
				m.server += s.server
				if !s.unavailable {
					m.observe()
				}
				if got := m.offset(); got != s.want {
					t.Fatalf("%s: the clock is off by %s, want %s", s.what, got, s.want)
				}
			}
		})
	}
}

// If one clock steps, the result is off by at most the uncertainty of the API server's time. While
// the machine's clock is right, the result is exact.
func TestToleratesOneSteppingClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		m.elapsed = time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "start"))
		m.observe()
		wrong := rapid.SampledFrom([]*time.Duration{&m.wall, &m.server}).Draw(t, "wrong clock")
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			m.elapsed += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "pause"))
			*wrong = time.Duration(rapid.Int64Range(int64(-time.Hour), int64(time.Hour)).Draw(t, "off"))
			checkOffset(t, m)
			m.observe()
			checkOffset(t, m)
		}
	})
}

func checkOffset(t *rapid.T, m *model) {
	got := m.offset()
	if got >= 2*time.Second || got <= -time.Second || m.wall == 0 && got != 0 {
		t.Fatalf("the clock is off by %s, the machine's clock by %s, the API server's clock by %s", got, m.wall, m.server)
	}
}

func TestTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		date  string
		takes time.Duration
		want  time.Duration
	}{
		"date":           {date: start.Add(-time.Hour).Format(http.TimeFormat), want: -time.Hour},
		"no date":        {date: ""},
		"malformed date": {date: "yesterday"},
		"late response":  {date: start.Add(-time.Hour).Format(http.TimeFormat), takes: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				m.elapsed += tc.takes
				rw.Header()["Date"] = nil // net/http must not add its own
				if tc.date != "" {
					rw.Header().Set("Date", tc.date)
				}
			}))
			defer server.Close()
			client := &http.Client{Transport: m.clock.Transport(http.DefaultTransport)}
			response, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if got := m.offset(); got != tc.want {
				t.Errorf("the clock is off by %s, want %s", got, tc.want)
			}
			server.Close()
			if response, err := client.Get(server.URL); err == nil {
				response.Body.Close()
				t.Error("got a response from a closed server")
			}
		})
	}
}

func TestThisMachine(t *testing.T) {
	c := clock.New(clock.ThisMachine())
	before := time.Now().Round(0)
	got := c.Now()
	if after := time.Now().Round(0); got.Before(before) || got.After(after) {
		t.Errorf("the clock returned %s, want a time between %s and %s", got, before, after)
	}
	c.Observe(time.Now())
	if d := time.Since(c.Now()).Abs(); d > time.Minute {
		t.Errorf("the clock is off by %s", d)
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
