package portal_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
)

const attacker, elsewhere = "198.51.100.9", "192.0.2.7"

// exhaust uses up the failures of a source.
func exhaust(t *testing.T, f *fixture, source string) {
	t.Helper()
	for range ratelimit.FailureBurst {
		if got := f.browser(source).signIn(badToken); got.StatusCode != http.StatusUnauthorized {
			t.Fatalf("Status of a rejected token is %d, want 401", got.StatusCode)
		}
	}
}

// After too many failures from a source, its tokens are no longer sent to the API server. Other
// sources, and browsers in which a user has signed in before, are not affected.
func TestFailedSignInsAreThrottledPerSource(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	known := f.browser(attacker)
	for range 2 * ratelimit.FailureBurst {
		if got := known.signIn(goodToken); got.StatusCode != http.StatusSeeOther {
			t.Fatalf("Status of a good token is %d, want 303: successes must not count", got.StatusCode)
		}
	}
	exhaust(t, f, attacker)
	checked := f.api.reviews.Load()
	for _, token := range []string{badToken, goodToken, ""} {
		got := f.browser(attacker).signIn(token)
		if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "3" {
			t.Errorf("Status %d, Retry-After %q; want 429 and 3", got.StatusCode, got.Header.Get("Retry-After"))
		}
		if !strings.Contains(got.body, "Too many sign-ins from your network have failed.") {
			t.Errorf("Page doesn't say why:\n%s", got.body)
		}
	}
	if got := f.api.reviews.Load(); got != checked {
		t.Errorf("API server checked %d throttled tokens, want none", got-checked)
	}
	if got := f.browser(elsewhere).signIn(goodToken); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status from another source is %d, want 303", got.StatusCode)
	}
	if got := known.signIn(goodToken); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status of a browser with an earlier sign-in is %d, want 303", got.StatusCode)
	}
	f.pass(ratelimit.FailureInterval)
	if got := f.browser(attacker).signIn(goodToken); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status after Retry-After is %d, want 303", got.StatusCode)
	}
}

// A browser with an earlier sign-in has a limit too.
func TestKnownBrowserIsThrottled(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	known := f.browser(attacker)
	known.signIn(goodToken)
	for range ratelimit.FailureBurst {
		known.signIn(badToken)
	}
	if got := known.signIn(goodToken); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("Status is %d, want 429", got.StatusCode)
	}
	if got := f.browser(attacker).signIn(goodToken); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status of another browser at the same address is %d, want 303", got.StatusCode)
	}
}

// Whoever disconnects before the response can't check tokens without limit.
func TestDisconnectedSignInsCount(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	f.api.holdUp(isReview)
	for range ratelimit.FailureBurst {
		b := f.browser(attacker)
		ctx, disconnect := context.WithCancel(t.Context())
		var sending sync.WaitGroup
		sending.Go(func() {
			r := b.request(http.MethodPost, "/sign-in", url.Values{"token": {badToken}}).WithContext(ctx)
			r.Header.Set("X-Forwarded-For", attacker)
			if answer, err := b.client.Do(r); err == nil {
				answer.Body.Close()
			}
		})
		<-f.api.held
		disconnect()
		sending.Wait()
	}
	if got := f.browser(attacker).signIn(badToken); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("Status is %d, want 429", got.StatusCode)
	}
}

// While the API server hangs, only a limited number of sign-ins waits for it. Others are rejected,
// and users who are signed in are not affected.
func TestSignInsWaitingForAPIServerAreLimited(t *testing.T) {
	t.Parallel()
	f := startPortal(t, func(o *portal.Options, _ *access.Sessions) { o.Timeout = time.Minute })
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	f.api.holdUp(isReview)
	ctx, disconnect := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	const places = 16
	for k := range places {
		b := f.browser("10.0.0." + strconv.Itoa(k))
		waiting.Go(func() {
			r := b.request(http.MethodPost, "/sign-in", url.Values{"token": {goodToken}}).WithContext(ctx)
			r.Header.Set("X-Forwarded-For", b.source)
			if answer, err := b.client.Do(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	for range places {
		<-f.api.held
	}
	got := f.browser(attacker).signIn(goodToken)
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("Status %d, Retry-After %q; want 503 with Retry-After", got.StatusCode, got.Header.Get("Retry-After"))
	}
	if got := user.get("/clients"); got.StatusCode != http.StatusOK {
		t.Errorf("Status of the clients page is %d, want 200", got.StatusCode)
	}
	disconnect()
	waiting.Wait()
	f.api.holdUp(func(*http.Request) bool { return false })
	if got := f.browser(attacker).signIn(goodToken); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Status after the others disconnected is %d, want 303", got.StatusCode)
	}
}

// A request doesn't wait for a hanging API server for longer than its timeout.
func TestHangingAPIServer(t *testing.T) {
	t.Parallel()
	f := startPortal(t, func(o *portal.Options, _ *access.Sessions) { o.Timeout = 3 * time.Second })
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	f.api.holdUp(func(*http.Request) bool { return true })
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, path := range []string{"/clients", "/clients/team/billing", "/realms", "/clients/new"} {
		waiting.Go(func() {
			got := user.get(path)
			if got.StatusCode != http.StatusBadGateway || !strings.Contains(got.body, "The Kubernetes API server is unavailable") {
				t.Errorf("Status of %s is %d, want 502:\n%s", path, got.StatusCode, got.body)
			}
		})
	}
	if got := f.browser(elsewhere).signIn(goodToken); got.StatusCode != http.StatusBadGateway {
		t.Errorf("Status of a sign-in is %d, want 502", got.StatusCode)
	}
}

// Each sign-in and sign-out causes an event and is counted. Events never contain the token.
func TestSignInsAreAudited(t *testing.T) {
	f := startPortal(t, func(o *portal.Options, _ *access.Sessions) { o.Timeout = 300 * time.Millisecond })
	user := f.browser(elsewhere)
	user.signIn(goodToken)
	user.send(user.request(http.MethodPost, "/sign-out", url.Values{}))
	stranger := f.browser(elsewhere)
	stranger.send(stranger.request(http.MethodPost, "/sign-out", url.Values{})) // not signed in: no event
	f.browser(elsewhere).signIn(badToken)
	f.browser(elsewhere).signIn("not a token")
	f.api.holdUp(isReview)
	f.browser(elsewhere).signIn(goodToken)
	f.api.holdUp(func(*http.Request) bool { return false })
	exhaust(t, f, attacker)
	f.browser(attacker).signIn(badToken)

	f.closeAudit()
	events, lines := f.audited(5 + ratelimit.FailureBurst + 1)
	source := netip.MustParseAddr(elsewhere)
	want := []audit.Event{
		{Action: audit.ActionSignIn, Outcome: audit.Granted, Actor: "grace", Source: source},
		{Action: audit.ActionSignOut, Outcome: audit.Granted, Actor: "grace", Source: source},
		{Action: audit.ActionSignIn, Outcome: audit.Refused, Reason: audit.ReasonTokenRejected, Source: source},
		{Action: audit.ActionSignIn, Outcome: audit.Refused, Reason: audit.ReasonNoCredentials, Source: source},
		{Action: audit.ActionSignIn, Outcome: audit.Failed, Reason: audit.ReasonAPIServer, Source: source},
	}
	for range ratelimit.FailureBurst {
		want = append(want, audit.Event{Action: audit.ActionSignIn, Outcome: audit.Refused, Reason: audit.ReasonTokenRejected, Source: netip.MustParseAddr(attacker)})
	}
	// More events about one source than this are only counted.
	want = append(want, audit.Event{Action: audit.ActionAudit, Outcome: audit.Refused, Reason: audit.ReasonTooManyFailures, Suppressed: 1})
	testkit.Diff(t, "Events", want, events, cmpopts.IgnoreFields(audit.Event{}, "Time"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }))
	for _, token := range []string{goodToken, badToken, "not a token"} {
		if strings.Contains(lines, token) {
			t.Errorf("Audit log contains the token %q", token)
		}
	}
	const counts = `
# HELP realmkeeper_portal_sign_ins_total Sign-ins by outcome: "accepted", "rejected" because of the token or by the identity provider, "throttled" because too many from the same source failed, or "failed" because a server was unavailable or too many were in progress.
# TYPE realmkeeper_portal_sign_ins_total counter
realmkeeper_portal_sign_ins_total{outcome="accepted"} 1
realmkeeper_portal_sign_ins_total{outcome="failed"} 1
realmkeeper_portal_sign_ins_total{outcome="rejected"} 22
realmkeeper_portal_sign_ins_total{outcome="throttled"} 1
`
	if err := testutil.GatherAndCompare(f.metrics, strings.NewReader(counts)); err != nil {
		t.Error(err)
	}
}
