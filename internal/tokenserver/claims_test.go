package tokenserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// startWithClaims runs a token server with the client "claiming", which has fixed claims.
func startWithClaims(t *testing.T, claims string) *server {
	t.Helper()
	s := startLoaded(t)
	s.registry.SetClient(newClient(t, "acme", "claiming", func(c *registry.Client) {
		c.Scopes, c.Claims = []string{"stock"}, []byte(claims)
	}))
	return s
}

const mixedClaims = `,"plan_name":"free \"trial\",ä","regions":["eu","us,ca"],"seats":25,"tenant":"acme"`

// A token has the claims of its client in addition to those that every token has, and introspection
// returns all of them. Other clients don't have them.
func TestFixedClaims(t *testing.T) {
	s := startWithClaims(t, mixedClaims)
	token := issued(t, s, "claiming", "")
	got := payload(t, token)
	plain := payload(t, issued(t, s, "billing", "&scope=stock"))
	for name := range plain {
		if got[name] == nil {
			t.Errorf("claim %s is missing", name)
		}
	}
	if plain["tenant"] != nil {
		t.Errorf("a token of another client has the claims %v", plain)
	}
	static := map[string]any{"plan_name": `free "trial",ä`, "regions": []any{"eu", "us,ca"}, "seats": 25.0, "tenant": "acme"}
	for name, want := range static {
		testkit.Diff(t, "claim "+name, want, got[name])
	}
	introspection := s.send(t, s.direct(), request{path: introspectPath, body: "token=" + token, authorization: basic("gateway", secret)})
	var introspected map[string]any
	testkit.Do(t, json.Unmarshal([]byte(introspection.body), &introspected))
	got["active"], got["token_type"] = true, "bearer"
	testkit.Diff(t, "introspection", got, introspected)
}

// A token with the largest claims that the API allows can be issued, verified and introspected.
func TestLargestFixedClaims(t *testing.T) {
	var claims strings.Builder
	for i := range 16 {
		fmt.Fprintf(&claims, `,"claim%02d":"%s"`, i, strings.Repeat("a", 115))
	}
	claims.WriteString(strings.Repeat(" ", 2048-claims.Len()))
	s := startWithClaims(t, claims.String())
	checkValid(t, s, issued(t, s, "claiming", ""), true)
}

// The requirements of a gateway can also be in the query. A claim that the token doesn't have is no
// reason to reject it, and a rejected request gets no claims.
func TestVerificationRepeatsClaimsOnlyOfAcceptedTokens(t *testing.T) {
	s := startWithClaims(t, mixedClaims)
	for name, test := range map[string]struct {
		client, query string
		wantStatus    int
		want          []string
	}{
		"accepted":             {"claiming", "claims=plan_name+seats&scope=stock", http.StatusOK, []string{`free%20"trial"%2C%C3%A4`}},
		"client without them":  {"billing", "claims=plan_name", http.StatusOK, []string{""}},
		"claims not asked for": {"claiming", "scope=stock", http.StatusOK, nil},
		"scope missing":        {"claiming", "claims=plan_name&scope=admin", http.StatusForbidden, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), request{
				method: http.MethodGet, path: verifyPath, query: test.query, authorization: "Bearer " + issued(t, s, test.client, ""),
			})
			if diff := cmp.Diff(test.want, got.header.Values("X-Auth-Claim-Plan-Name")); got.status != test.wantStatus || diff != "" {
				t.Errorf("got %d, want %d; header (-want +got):\n%s", got.status, test.wantStatus, diff)
			}
		})
	}
}
