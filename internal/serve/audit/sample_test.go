package audit_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

// address returns a different IPv4 address for each i.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// event returns an event as the token server writes it for a request from the source.
func event(reason audit.Reason, clientUID string, source netip.Addr) audit.Event {
	e := audit.Event{
		Time: now, Action: audit.ActionToken, Outcome: audit.Refused, Reason: reason,
		Realm: "acme", ClientUID: clientUID, Source: source,
	}
	if reason == "" {
		e.Outcome = audit.Granted
	}
	return e
}

func TestEventsAnyoneCanCauseAreSampled(t *testing.T) {
	const sent = 5000
	source := netip.MustParseAddr("192.0.2.1")
	tests := map[string]struct {
		event func(i int) audit.Event
		want  int // lines for each period
	}{
		"granted":          {func(int) audit.Event { return event("", "uid", source) }, sent},
		"wrong secret":     {func(int) audit.Event { return event(audit.ReasonWrongSecret, "uid", source) }, sent},
		"denied to a user": {func(int) audit.Event { e := event(audit.ReasonForbidden, "", source); e.Actor = "user"; return e }, sent},

		"unknown client from one source":    {func(int) audit.Event { return event(audit.ReasonUnknownClient, "", source) }, 20},
		"unknown client from many sources":  {func(i int) audit.Event { return event(audit.ReasonUnknownClient, "", address(i)) }, 1000},
		"different reasons share":           {func(i int) audit.Event { return event(audit.Reasons[i%2], "", source) }, 20},
		"exposed credentials of a client":   {func(int) audit.Event { return event(audit.ReasonCredentialsExposed, "uid", source) }, 20},
		"exposed credentials, many sources": {func(i int) audit.Event { return event(audit.ReasonCredentialsExposed, "", address(i)) }, 1000},
		"IPv6 addresses of one network": {func(i int) audit.Event {
			return event(audit.ReasonUnknownClient, "", netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i)))
		}, 20},

		"repeated failures":               {func(int) audit.Event { return event(audit.ReasonTooManyFailures, "uid", source) }, 1},
		"repeated failures, many sources": {func(i int) audit.Event { return event(audit.ReasonTooManyFailures, "uid", address(i)) }, 4096},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &sink{}
				l := open(out)
				for period := range 2 {
					for i := range sent {
						l.Write(tc.event(i))
					}
					time.Sleep(audit.SamplePeriod)
					synctest.Wait()
					checkCounts(t, l, out, (period+1)*tc.want, (period+1)*sent)
				}
				closeLog(t, l)
				checkCounts(t, l, out, 2*tc.want, 2*sent)
			})
		})
	}
}

// checkCounts checks the number of lines about requests, and that every event sent was written,
// reported as suppressed or reported as lost.
func checkCounts(t *testing.T, l *audit.Log, out *sink, wantWritten, sent int) {
	t.Helper()
	events, partial := out.events(t)
	var written int
	var suppressed, lost uint64
	for _, e := range events {
		if e.Action != audit.ActionAudit {
			written++
			continue
		}
		suppressed += e.Suppressed
		lost += e.Lost
	}
	if written != wantWritten || partial > 0 {
		t.Errorf("got %d lines and %d partial ones, want %d", written, partial, wantWritten)
	}
	if suppressed != l.Suppressed() || lost != l.Lost() {
		t.Errorf("lines report %d suppressed and %d lost events, the log counted %d and %d", suppressed, lost, l.Suppressed(), l.Lost())
	}
	testkit.Diff(t, "written, suppressed and lost events", uint64(sent), uint64(written)+suppressed+lost)
}

// An event that one flood causes doesn't use up the allowance of other events or sources.
func TestSampledEventsHaveSeparateAllowances(t *testing.T) {
	out := &sink{}
	l := open(out)
	flood, other := address(1), address(2)
	for range 100 {
		l.Write(event(audit.ReasonUnknownClient, "", flood))
		l.Write(event(audit.ReasonTooManyFailures, "victim", flood))
	}
	want := []audit.Event{
		event(audit.ReasonCredentialsExposed, "", flood),
		event(audit.ReasonUnknownClient, "", other),
		event(audit.ReasonTooManyFailures, "other", flood),
		event(audit.ReasonTooManyFailures, "victim", other),
		event(audit.ReasonBusy, "victim", flood),
		{Time: now, Action: audit.ActionAudit, Outcome: audit.Refused, Reason: audit.ReasonTooManyFailures, Suppressed: 99},
		{Time: now, Action: audit.ActionAudit, Outcome: audit.Refused, Reason: audit.ReasonUnknownClient, Suppressed: 80},
	}
	for _, e := range want[:5] {
		l.Write(e)
	}
	closeLog(t, l)
	got, _ := out.events(t)
	testkit.Diff(t, "the last lines", want, got[max(0, len(got)-len(want)):], compareAddresses)
}

// While the sink is blocked, a flood from many sources doesn't displace a single decision.
func TestFloodDoesNotDisplaceDecisions(t *testing.T) {
	const (
		floods    = 8
		junk      = 20_000 // events per flood
		decisions = 16_000 // less than the number that may be pending
	)
	synctest.Test(t, func(t *testing.T) {
		out := &sink{block: make(chan struct{})}
		l := open(out)
		l.Write(full)
		time.Sleep(time.Second)
		synctest.Wait() // for the sink to block
		var senders sync.WaitGroup
		for flood := range floods {
			senders.Go(func() {
				for i := range junk {
					source := address(flood*junk + i)
					switch i % 4 {
					case 0:
						l.Write(event(audit.ReasonUnknownClient, "", source))
					case 1:
						l.Write(event(audit.ReasonNoCredentials, "", source))
					case 2:
						l.Write(event(audit.ReasonCredentialsExposed, "", source))
					case 3:
						l.Write(event(audit.ReasonTooManyFailures, "victim", source))
					}
				}
			})
		}
		reasons := []audit.Reason{"", audit.ReasonWrongSecret, audit.ReasonClientDisabled, audit.ReasonInvalidScope}
		senders.Go(func() {
			for i := range decisions {
				e := event(reasons[i%len(reasons)], "uid", address(0))
				e.TokenID = strconv.Itoa(i)
				l.Write(e)
			}
		})
		senders.Wait()
		close(out.block)
		closeLog(t, l)

		next := 0
		events, _ := out.events(t)
		others := 0
		for _, e := range events {
			switch {
			case e.TokenID == strconv.Itoa(next):
				next++
			case e.Action != audit.ActionAudit:
				others++
			}
		}
		if next != decisions || l.Lost() != 0 {
			t.Errorf("got the first %d decisions in order and lost %d events, want %d and 0", next, l.Lost(), decisions)
		}
		testkit.Diff(t, "other lines", 1+1000+1000+4096, others)
		checkCounts(t, l, out, decisions+others, 1+decisions+floods*junk)
	})
}

// The number of suppressed events is still reported if the sink fails at the end of a period.
func TestSuppressedEventsAreReportedAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		l := open(out)
		for range 100 {
			l.Write(event(audit.ReasonUnknownClient, "", address(1)))
		}
		synctest.Wait()
		time.Sleep(time.Second)
		out.fail(fmt.Errorf("no space left on device"))
		time.Sleep(audit.SamplePeriod)
		out.fail(nil)
		time.Sleep(audit.SamplePeriod)
		closeLog(t, l)
		events, _ := out.events(t)
		var suppressed uint64
		for _, e := range events {
			suppressed += e.Suppressed
		}
		if suppressed != 80 || l.Suppressed() != 80 {
			t.Errorf("lines report %d suppressed events and the log counted %d, want 80", suppressed, l.Suppressed())
		}
	})
}

func TestMetrics(t *testing.T) {
	l := open(&sink{})
	metrics := prometheus.NewRegistry()
	l.RegisterMetrics(metrics)
	for range 25 {
		l.Write(event(audit.ReasonUnknownClient, "", address(1)))
	}
	closeLog(t, l)
	const want = `
# HELP realmkeeper_audit_lost_total Audit events that could not be written, or not in time.
# TYPE realmkeeper_audit_lost_total counter
realmkeeper_audit_lost_total 0
# HELP realmkeeper_audit_suppressed_total Audit events about unknown clients, malformed requests and repeated failures that were not written because their source caused too many.
# TYPE realmkeeper_audit_suppressed_total counter
realmkeeper_audit_suppressed_total 5
`
	testkit.Do(t, testutil.GatherAndCompare(metrics, strings.NewReader(want)))
	var none *audit.Log
	none.RegisterMetrics(prometheus.NewRegistry())
	testkit.Diff(t, "events that a nil log suppressed", uint64(0), none.Suppressed())
}
