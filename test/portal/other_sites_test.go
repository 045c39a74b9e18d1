package portal_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// otherSites tests that a script on a page of another origin can read the public documents of a realm,
// with the header that clients of the Model Context Protocol send, and no response about a token.
func otherSites(t *testing.T, i *instance, b *browser) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html>") }))
	t.Cleanup(page.Close)
	b.url = page.URL
	b.open("/")
	realm := install.Realm("acme")
	i.get(t, realm)
	type request struct{ path, options string }
	const read, unreadable = `{headers: {"MCP-Protocol-Version": "2025-11-25"}}`, "TypeError"
	for r, want := range map[request]string{
		{"/oauth2/jwks", read}:                                        "200",
		{"/.well-known/jwks.json", read}:                              "200",
		{"/.well-known/oauth-authorization-server", read}:             "200",
		{"/.well-known/openid-configuration", read}:                   "200",
		{"/oauth2/resource-metadata/unknown", read}:                   "404",
		{"/oauth2/jwks", `{credentials: "include"}`}:                  unreadable,
		{"/oauth2/token?grant_type=x", `{method: "POST"}`}:            unreadable,
		{"/oauth2/introspect", `{method: "POST"}`}:                    unreadable,
		{"/oauth2/verify", `{headers: {Authorization: "Bearer x"}}`}:  unreadable,
		{"/oauth2/verify/require/c2NvcGU9c3RvY2s", `{method: "GET"}`}: unreadable,
	} {
		script := fmt.Sprintf(`fetch(%q, %s).then(r => String(r.status), e => e.name)`, realm.Status.Issuer+r.path, r.options)
		if diff := cmp.Diff(want, evaluate[string](b, script)); diff != "" {
			t.Errorf("fetch of %s with %s (-want +got):\n%s", r.path, r.options, diff)
		}
	}
}
