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

// The CA is renewed again and again while workloads connect that load ca.crt within the overlap. No
// handshake fails.
func TestRenewalsUnderLoad(t *testing.T) {
	t.Parallel()
	soak := *renewals > defaultRenewals
	l := life{lifetime: 2 * time.Minute, overlap: 10 * time.Second} // can grow twice
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
	for range *renewals {
		workloads.awaitIssuer(t, s.current(t))
		if !soak {
			s.renewNow(t)
		}
		old, next := s.awaitNext(t)
		_, to := s.awaitSwitch(t, old)
		if !to.Equal(next) {
			t.Errorf("%s signs, want the published %s", to.Subject, next.Subject)
		}
		s.awaitServed(t, next)
		workloads.awaitIssuer(t, next)
	}
	connections := workloads.stop(t, "workloads")
	t.Logf("%d renewals in %s: %d connections of workloads", *renewals, time.Since(began).Round(time.Second), connections)
	s.wantTokens(t, clients)
}
