package authority_test

import (
	"context"
	"crypto/x509"
	"flag"
	"testing"
	"time"
)

const defaultRenewals = 2

// renewals is the number of renewals under load. By default, a new configuration causes each renewal. If
// there are more, as in `make soak`, each CA lives for 24 seconds. That needs an idle machine, because
// serving certificates live for 6 seconds then.
var renewals = flag.Int("renewals", defaultRenewals, "Number of renewals of the CA under load")

// The CA is renewed again and again while workloads connect. The workloads load ca.crt only every half
// overlap. No handshake fails. Clients that trust only the old or only the new CA can connect from the
// publication of the new one until the old one expires.
func TestRenewalsUnderLoad(t *testing.T) {
	t.Parallel()
	soak := *renewals > defaultRenewals
	l := life{lifetime: 2 * time.Minute, overlap: 3 * time.Second} // can grow twice
	if soak {
		l = short
	}
	s := newSite(t, l)
	clients := s.start(t, "", 2, "billing", "orders")
	var trust []func(context.Context) (*x509.CertPool, error)
	for n, part := range []float64{0, 0.25, 0.5, 0.75} {
		trust = append(trust, s.following(t, clients[n%len(clients)], part))
	}
	workloads := s.connect(t, trust...)
	began := time.Now()
	var pinned int
	for range *renewals {
		// On a busy machine, the overlap can be over before the test sees the next CA.
		current := s.current(t)
		onlyOld := s.connect(t, trusting(current))
		onlyOld.awaitIssuer(t, current)
		workloads.awaitIssuer(t, current)
		if !soak {
			s.renewNow(t)
		}
		old, next := s.awaitPublished(t)
		onlyNext := s.connect(t, trusting(next))
		_, to := s.awaitMove(t, old)
		if !to.Equal(next) {
			t.Errorf("%s signs, want the published %s", to.Subject, next.Subject)
		}
		s.awaitServed(t, next)
		for _, l := range []*load{workloads, onlyOld, onlyNext} {
			l.awaitIssuer(t, next)
		}
		if soak {
			await(t, old.NotAfter.Add(-time.Second)) // the last second in which both clients can connect
		} else {
			await(t, time.Now().Add(s.overlap/2))
		}
		pinned += onlyOld.stop(t, "clients that trust only the old CA") + onlyNext.stop(t, "clients that trust only the next CA")
	}
	connections := workloads.stop(t, "workloads")
	t.Logf("%d renewals in %s: %d connections of workloads and %d of clients that trust only one CA",
		*renewals, time.Since(began).Round(time.Second), connections, pinned)
	s.wantTokens(t, clients)
}

// await waits until the given time.
func await(t *testing.T, at time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(at)):
	case <-t.Context().Done():
	}
}
