package portal_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// Who may look but not change sees so, and is refused when they ask the portal for it directly.
func viewerChangesNothing(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	billing := testinstall.ApiClient(team, "billing", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, billing)
	b.signIn(i.viewer)
	b.open("/clients?namespace=" + team)
	b.wants("billing")
	b.lacks("Create a client")
	b.wants("You may look at clients here, and not create any.")
	b.open("/clients/" + team + "/billing")
	b.wants("You don't hold the role Manage api credentials here.")
	b.wants("kubectl create rolebinding NAME --namespace=" + team + " --clusterrole=manage-api-credentials --serviceaccount=" + i.Namespace + ":viewer")
	if n := evaluate[int](b, `document.querySelectorAll(".actions button:not(:disabled), td button").length`); n != 0 {
		t.Errorf("The page offers %d changes", n)
	}

	i.get(t, billing)
	seen := url.Values{"uid": {string(billing.UID)}, "generation": {strconv.FormatInt(billing.Generation, 10)}}
	path := "/clients/" + team + "/billing"
	for target, form := range map[string]url.Values{
		path + "/suspend": {}, path + "/resume": {}, path + "/rotate": {"overlap": {"1h"}}, path + "/end-secret": {"id": {"a"}},
		path + "/expiry": {"expires": {"2031-01-01T00:00"}}, path + "/delete": {"confirm": {"billing"}},
		"/clients": {"realm": {"acme"}, "namespace": {team}, "name": {"other"}},
	} {
		maps.Copy(form, seen)
		if status := b.post(target, form); status != http.StatusForbidden {
			t.Errorf("POST %s is answered with %d, want 403", target, status)
		}
	}
	after := billing.DeepCopy()
	i.get(t, after)
	if after.Generation != billing.Generation {
		t.Error("The client was changed")
	}
	testinstall.Eventually(t, "the audit lines", func() error {
		refused := 0
		for _, line := range i.changes(t) {
			if strings.HasPrefix(line.ClientID, team+".") && line.Outcome == audit.Refused && line.Reason == audit.ReasonForbidden {
				refused++
			}
		}
		if refused != 7 {
			return fmt.Errorf("%d refusals, want 7", refused)
		}
		return nil
	})
}

// The role in one namespace gives its clients and no others.
func roleInANamespace(t *testing.T, i *instance, b *browser) {
	mine, theirs := i.Env.Namespace(t), i.Env.Namespace(t)
	i.Create(t, testinstall.ApiClient(mine, "mine", "acme"), testinstall.ApiClient(theirs, "theirs", "acme"))
	b.signIn(i.person(t, "local", "manage-api-credentials", mine))
	b.wants("You may not see the clients of")
	b.fill("#namespace", mine)
	b.press("Show")
	b.wants("mine")
	b.lacks("theirs")
	for _, path := range []string{"/clients/" + theirs + "/theirs", "/clients?namespace=" + theirs, "/realms"} {
		b.open(path)
		b.wants("You don't hold the role Manage api credentials here.")
	}
	// They may not see realms, and need not.
	b.open("/clients/new?namespace=" + mine)
	b.fill("#realm", "acme")
	b.press("Go on")
	b.fill("#name", "own")
	b.fill("#scope", "orders.read orders.write")
	b.press("Create the client")
	i.wantTokens(t, mine, "own", b.secret(), true)
}

// Without a session there is nothing, and what another site sends is refused with one.
func requestsFromElsewhere(t *testing.T, i *instance, _ *browser) {
	team := i.Env.Namespace(t)
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var cookies []*http.Cookie // a jar would keep them for HTTPS
	send := func(method, path, site string, form url.Values) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, i.portal.URL+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if policy := answer.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if answer.StatusCode != http.StatusOK || !strings.HasPrefix(path, "/assets/") {
			if got := answer.Header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("%s may be cached: %q", path, got)
			}
		}
		return answer
	}
	create := url.Values{"realm": {"acme"}, "namespace": {team}, "name": {"forged"}}
	for _, path := range []string{"/clients", "/realms", "/clients/a/b", "/realms/acme", "/nowhere"} {
		if got := send(http.MethodGet, path, "none", nil); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/sign-in" {
			t.Errorf("Without a session GET %s is answered with %s", path, got.Status)
		}
	}
	if got := send(http.MethodPost, "/clients", "same-origin", create); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Without a session a creation is answered with %s", got.Status)
	}
	if got := send(http.MethodPost, "/sign-in", "cross-site", url.Values{"token": {i.admin}}); got.StatusCode != http.StatusForbidden {
		t.Errorf("A sign-in from another site is answered with %s", got.Status)
	}
	if got := send(http.MethodPost, "/sign-in", "same-origin", url.Values{"token": {"nonsense"}}); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("A token that isn't one is answered with %s", got.Status)
	}
	cookies = send(http.MethodPost, "/sign-in", "same-origin", url.Values{"token": {i.admin}}).Cookies()
	for _, site := range []string{"cross-site", "same-site"} {
		if got := send(http.MethodPost, "/clients", site, create); got.StatusCode != http.StatusForbidden {
			t.Errorf("A creation from a %s page is answered with %s", site, got.Status)
		}
	}
	err := i.Env.Client.Get(t.Context(), types.NamespacedName{Namespace: team, Name: "forged"}, &v1alpha1.ApiClient{})
	if err == nil {
		t.Error("What another site sent was done")
	}
	if got := send(http.MethodPost, "/clients", "same-origin", create); got.StatusCode != http.StatusOK {
		t.Errorf("A creation from the portal itself is answered with %s", got.Status)
	}
}
