package portal_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

const statePath = "/clients/team/billing/state"

// A session that is used doesn't end.
func TestUseRenewsSession(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	b := f.browser(elsewhere)
	b.signIn(goodToken)
	for range 5 {
		f.pass(access.DefaultIdleTimeout - time.Minute)
		if got := b.get("/clients"); got.StatusCode != http.StatusOK || len(got.Cookies()) == 0 {
			t.Fatalf("Status %d with %d cookies, want 200 and a renewed session", got.StatusCode, len(got.Cookies()))
		}
		f.pass(59 * time.Second)
		if got := b.get("/clients"); len(got.Cookies()) > 0 {
			t.Fatal("Session was renewed twice within a minute")
		}
	}
}

// A session without use ends, and the sign-in page says why. What a page requests by itself is no
// use.
func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	f := startPortal(t)
	b := f.browser(elsewhere)
	b.signIn(goodToken)
	f.pass(access.DefaultIdleTimeout - time.Second)
	if got := b.poll(statePath); got.StatusCode == http.StatusUnauthorized || len(got.Cookies()) > 0 {
		t.Fatalf("Status of polling is %d with %d cookies, want neither 401 nor a renewed session", got.StatusCode, len(got.Cookies()))
	}
	f.pass(time.Second)
	if got := b.poll(statePath); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Hx-Redirect") != "/sign-in?idle" {
		t.Errorf("Status of polling is %d with Hx-Redirect %q, want 401 and the sign-in page", got.StatusCode, got.Header.Get("Hx-Redirect"))
	}

	b.signIn(goodToken)
	f.pass(access.DefaultIdleTimeout)
	got := b.get("/clients")
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/sign-in?idle" {
		t.Fatalf("Status is %d with Location %q, want 303 to the sign-in page", got.StatusCode, got.Header.Get("Location"))
	}
	if page := b.get(got.Header.Get("Location")); !strings.Contains(page.body, "You were signed out because you were inactive.") {
		t.Errorf("Sign-in page doesn't say why the session ended:\n%s", page.body)
	}
	if page := b.get("/sign-in"); strings.Contains(page.body, "inactive") {
		t.Error("Sign-in page says without reason that a session ended")
	}
	if got := b.get("/clients"); got.Header.Get("Location") != "/sign-in" {
		t.Errorf("Location is %q, want the sign-in page without a message because the cookies are deleted", got.Header.Get("Location"))
	}
}
