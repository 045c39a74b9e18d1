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

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// viewerPermissions tests that a user with read-only access sees no enabled actions and that direct
// requests are denied.
func viewerPermissions(t *testing.T, i *instance, b *browser) {
	team := i.Env.Namespace(t)
	billing := install.ApiClient(team, "billing", "acme", func(c *v1beta1.ApiClient) { c.Spec.Secret = hashed(t, "a") })
	i.Create(t, billing)
	b.signIn(i.viewer)
	b.open("/clients?namespace=" + team)
	b.wantText("billing")
	b.wantNoText("Create client")
	b.wantText("You don't have permission to create clients in namespace " + team)
	b.open("/clients/" + team + "/billing")
	b.wantText("You need the role Manage api credentials in namespace " + team)
	b.wantText("kubectl create rolebinding NAME --namespace=" + team + " --clusterrole=manage-api-credentials --serviceaccount=" + i.Namespace + ":viewer")
	if n := evaluate[int](b, `document.querySelectorAll(".toolbar button:not(.unavailable), .choices button:not([popovertarget]), td button").length`); n != 0 {
		t.Errorf("Page has %d available actions, want none", n)
	}

	i.get(t, billing)
	seen := url.Values{"uid": {string(billing.UID)}, "generation": {strconv.FormatInt(billing.Generation, 10)}}
	path := "/clients/" + team + "/billing"
	for target, form := range map[string]url.Values{
		path + "/suspend": {}, path + "/resume": {}, path + "/rotate": {"overlap": {"1h"}}, path + "/revoke-secret": {"id": {"a"}},
		path + "/expiry": {"expires": {"2031-01-01T00:00"}}, path + "/delete": {"confirm": {"billing"}},
		"/clients": {"realm": {"acme"}, "namespace": {team}, "name": {"other"}},
	} {
		maps.Copy(form, seen)
		if status := b.post(target, form); status != http.StatusForbidden {
			t.Errorf("POST %s: status %d, want 403", target, status)
		}
	}
	after := billing.DeepCopy()
	i.get(t, after)
	if after.Generation != billing.Generation {
		t.Error("Client was changed")
	}
	install.Eventually(t, "audit events", func() error {
		denied := 0
		for _, event := range i.changes(t) {
			if strings.HasPrefix(event.ClientID, team+".") && event.Outcome == audit.Refused && event.Reason == audit.ReasonForbidden {
				denied++
			}
		}
		if denied != 7 {
			return fmt.Errorf("%d denied requests, want 7", denied)
		}
		return nil
	})
}

// namespacedRole tests that a role binding in one namespace grants access only to the clients in
// this namespace.
func namespacedRole(t *testing.T, i *instance, b *browser) {
	mine, theirs := i.Env.Namespace(t), i.Env.Namespace(t)
	i.Create(t, install.ApiClient(mine, "mine", "acme"), install.ApiClient(theirs, "theirs", "acme"))
	b.signIn(i.user(t, "local", "manage-api-credentials", mine))
	b.wantText("You don't have permission to list clients in")
	b.fill("#namespace", mine)
	b.press("Show clients")
	b.wantText("Overview of namespace " + mine)
	b.open("/clients?namespace=" + mine)
	b.wantText("mine")
	b.wantNoText("theirs")
	for _, path := range []string{"/?namespace=" + theirs, "/clients/" + theirs + "/theirs", "/clients?namespace=" + theirs, "/realms"} {
		b.open(path)
		b.wantText("You need the role Manage api credentials")
	}
	// Creating a client doesn't require permission to read realms.
	b.open("/clients/new?namespace=" + mine)
	b.fill("#realm", "acme")
	b.press("Continue")
	b.fill("#name", "own")
	b.fill("#scope", "orders.read orders.write")
	b.press("Create client")
	i.wantTokens(t, mine, "own", b.secret(), true)
}

// crossSiteRequests tests that requests without a session and requests from other sites are
// rejected.
func crossSiteRequests(t *testing.T, i *instance, _ *browser) {
	team := i.Env.Namespace(t)
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var cookies []*http.Cookie // a cookie jar would send them over HTTPS only
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
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if policy := response.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q", path, policy)
		}
		if response.StatusCode != http.StatusOK || !strings.HasPrefix(path, "/assets/") {
			if got := response.Header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("%s: Cache-Control is %q, want no-store", path, got)
			}
		}
		return response
	}
	create := url.Values{"realm": {"acme"}, "namespace": {team}, "name": {"forged"}}
	for _, path := range []string{"/", "/clients", "/choices/realm", "/realms", "/clients/a/b", "/realms/acme", "/nowhere"} {
		if got := send(http.MethodGet, path, "none", nil); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/sign-in" {
			t.Errorf("GET %s without a session: status %s, want a redirect to /sign-in", path, got.Status)
		}
	}
	if got := send(http.MethodPost, "/clients", "same-origin", create); got.StatusCode != http.StatusSeeOther {
		t.Errorf("Create without a session: status %s, want 303", got.Status)
	}
	if got := send(http.MethodPost, "/sign-in", "cross-site", url.Values{"token": {i.admin}}); got.StatusCode != http.StatusForbidden {
		t.Errorf("Cross-site sign-in: status %s, want 403", got.Status)
	}
	if got := send(http.MethodPost, "/sign-in", "same-origin", url.Values{"token": {"nonsense"}}); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("Sign-in with an invalid token: status %s, want 401", got.Status)
	}
	cookies = send(http.MethodPost, "/sign-in", "same-origin", url.Values{"token": {i.admin}}).Cookies()
	for _, site := range []string{"cross-site", "same-site"} {
		if got := send(http.MethodPost, "/clients", site, create); got.StatusCode != http.StatusForbidden {
			t.Errorf("Create from a %s page: status %s, want 403", site, got.Status)
		}
	}
	err := i.Env.Client.Get(t.Context(), types.NamespacedName{Namespace: team, Name: "forged"}, &v1beta1.ApiClient{})
	if err == nil {
		t.Error("Cross-site request created a client")
	}
	if got := send(http.MethodPost, "/clients", "same-origin", create); got.StatusCode != http.StatusOK {
		t.Errorf("Create from the portal: status %s, want 200", got.Status)
	}
}
