package tokenserver_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// blockedSink doesn't accept lines before it is released.
type blockedSink struct {
	logBuffer
	released chan struct{}
}

func (s *blockedSink) Write(p []byte) (int, error) {
	<-s.released
	return s.logBuffer.Write(p)
}

// Junk from many addresses doesn't displace the line of a single real decision, even if the sink
// accepts nothing during the flood. Every event is written, or counted as suppressed.
func TestFloodOfJunkDoesNotDisplaceDecisions(t *testing.T) {
	const (
		floods    = 4
		junk      = 6000 // requests per flood, in total more than the log buffers
		decisions = 500  // of each kind
	)
	out := &blockedSink{released: make(chan struct{})}
	log := audit.Open(out, slog.New(slog.DiscardHandler), func() time.Time { return now })
	s := startLoaded(t, behindProxy, func(o *tokenserver.Options) { o.Audit = log })
	send := func(source netip.Addr, query, authorization string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+tokenPath+"?"+query, http.NoBody)
		r.RemoteAddr = "127.0.0.1:1234"
		r.Header.Set("X-Forwarded-For", source.String())
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		return w.Code
	}
	address := func(a, i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(a), byte(i >> 8), byte(i)}) }

	var senders sync.WaitGroup
	for flood := range floods {
		senders.Go(func() {
			kinds := []struct{ query, authorization string }{
				{grant, basic("unknown", canary)}, {grant, "Basic " + canary}, {grant + "&client_secret=" + canary, good},
			}
			for i := range junk {
				kind := kinds[i%len(kinds)]
				if status := send(address(flood, i), kind.query, kind.authorization); status/100 != 4 {
					t.Errorf("junk: got status %d, want a client error", status)
				}
			}
		})
	}
	senders.Go(func() {
		for i := range decisions {
			if status := send(address(100, i), grant, good); status != http.StatusOK {
				t.Errorf("correct secret: got status %d, want 200", status)
			}
			if status := send(address(101, i), grant, basic("billing", canary)); status != http.StatusUnauthorized {
				t.Errorf("wrong secret: got status %d, want 401", status)
			}
		}
	})
	senders.Wait()
	close(out.released)
	testkit.Do(t, log.Close(t.Context()))

	got := map[audit.Reason]int{}
	var written, suppressed uint64
	for line := range strings.Lines(out.String()) {
		var e audit.Event
		testkit.Do(t, json.Unmarshal([]byte(line), &e))
		if e.Action == audit.ActionAudit {
			suppressed += e.Suppressed
			continue
		}
		written++
		got[e.Reason]++
	}
	anonymous := got[audit.ReasonUnknownClient] + got[audit.ReasonNoCredentials]
	delete(got, audit.ReasonUnknownClient)
	delete(got, audit.ReasonNoCredentials)
	want := map[audit.Reason]int{"": decisions, audit.ReasonWrongSecret: decisions, audit.ReasonCredentialsExposed: 1000}
	if diff := cmp.Diff(want, got); diff != "" || anonymous != 1000 {
		t.Errorf("%d lines about unknown clients, want 1000; others by reason (-want +got):\n%s", anonymous, diff)
	}
	if sent := uint64(floods*junk + 2*decisions); written+suppressed+log.Lost() != sent || suppressed != log.Suppressed() {
		t.Errorf("%d written, %d suppressed and %d lost events of %d; the log counted %d as suppressed", written, suppressed, log.Lost(), sent, log.Suppressed())
	}
	if n := strings.Count(s.log.String(), "Received credentials in the query string"); n != 1 {
		t.Errorf("the log warns %d times within a second about credentials in the query, want once", n)
	}
}
