package tokenserver_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

func TestJWTBearerGrant(t *testing.T) {
	token := githubToken(t, nil, nil)
	// alsoBy returns a grant whose client is authenticated with a JWT, too.
	alsoBy := func(assertion string) request {
		return request{body: byGrant(token, "").body + "&" + assertionType + "&client_assertion=" + url.QueryEscape(assertion)}
	}
	tests := map[string]struct {
		request    request
		want       string // client of the token; empty if the request is rejected
		wantStatus int
		wantError  string
	}{
		"client_id":                        {request: byGrant(token, "&client_id=again"), want: "again"},
		"scope and audience":               {request: byGrant(token, "&scope=stock&audience="+url.QueryEscape(orders)), want: "deploy"},
		"client secret":                    {request: request{body: byGrant(token, "").body, authorization: basic("fedsecret", secret)}, want: "fedsecret"},
		"client's own assertion":           {request: alsoBy(assertion(t, signingkey.ES256, nil, nil)), want: "signing"},
		"same token as client assertion":   {request: alsoBy(token), want: "deploy"},
		"no assertion":                     {request: request{body: jwtBearer}, wantStatus: 400, wantError: "invalid_request"},
		"client assertion instead":         {request: request{body: strings.Replace(byAssertion(token, "").body, grant, jwtBearer, 1)}, wantStatus: 400, wantError: "invalid_request"},
		"assertion in the query":           {request: request{query: jwtBearer + "&assertion=" + token}, wantStatus: 400, wantError: "invalid_request"},
		"own assertion as the grant":       {request: byGrant(assertion(t, signingkey.ES256, nil, nil), ""), wantStatus: 400, wantError: "invalid_grant"},
		"secret of another client":         {request: request{body: byGrant(token, "").body, authorization: good}, wantStatus: 400, wantError: "invalid_grant"},
		"different client_id in Basic":     {request: request{body: byGrant(token, "&client_id=deploy").body, authorization: basic("fedsecret", secret)}, wantStatus: 400, wantError: "invalid_request"},
		"wrong secret":                     {request: request{body: byGrant(token, "").body, authorization: basic("fedsecret", canary)}, wantStatus: 401, wantError: "invalid_client"},
		"wrong client assertion":           {request: alsoBy(assertion(t, signingkey.ES256, nil, members{"exp": 1})), wantStatus: 401, wantError: "invalid_client"},
		"client assertion of another":      {request: alsoBy(edgeToken(t, nil, nil)), wantStatus: 400, wantError: "invalid_grant"},
		"other grant type with assertion":  {request: request{body: strings.Replace(byGrant(token, "").body, jwtBearer, grant, 1)}, wantStatus: 401, wantError: "invalid_client"},
		"unknown grant type, with a token": {request: request{body: strings.Replace(byAssertion(token, "").body, grant, "grant_type=password", 1)}, wantStatus: 400, wantError: "unsupported_grant_type"},
	}
	s := startFederated(t, behindProxy)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), elsewhere(tc.request))
			if tc.want == "" {
				checkRejection(t, got, tc.wantStatus, tc.wantError, "acme")
				return
			}
			expectStatus(t, "response", 200, got)
			testkit.Diff(t, "client of the token", tc.want, clientIn(t, got))
		})
	}
}

// A token of a third party doesn't work in a suspended realm.
func TestSuspendedRealmRejectsFederatedTokens(t *testing.T) {
	s := startFederated(t)
	client := s.direct()
	token := githubToken(t, nil, nil)
	in := func(r request) request {
		r.path = "/frozen/oauth2/token"
		return r
	}
	checkRejection(t, s.send(t, client, in(byAssertion(token, "&client_id=deploy"))), 401, "invalid_client", "frozen")
	checkRejection(t, s.send(t, client, in(byGrant(token, "&client_id=deploy"))), 400, "invalid_grant", "frozen")
}

// The introspection endpoint grants nothing, so an assertion there authenticates no client.
func TestGrantIsOnlyForTheTokenEndpoint(t *testing.T) {
	s := startFederated(t)
	client := s.direct()
	token := githubToken(t, nil, nil)
	got := s.send(t, client, request{path: "/acme/oauth2/introspect", body: byGrant(token, "&token=x").body})
	checkRejection(t, got, 401, "invalid_client", "acme")
	got = s.send(t, client, request{path: "/acme/oauth2/introspect", body: byAssertion(token, "&token=x").body})
	expectStatus(t, "client assertion", 200, got)
}

// A token issued for a foreign token copies nothing from the foreign token.
func TestForeignClaimsDoNotGetIntoTokens(t *testing.T) {
	s := startFederated(t)
	client := s.direct()
	names := func(got response) []string {
		var all []string
		for name := range payload(t, accessToken(t, got)) {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	foreign := s.send(t, client, byGrant(githubToken(t, nil, members{"scope": "orders:write", "groups": []string{"admin"}, "act": canary}), "&client_id=fedsecret"))
	own := s.send(t, client, request{query: grant, authorization: basic("fedsecret", secret)})
	if f, o := names(foreign), names(own); !slices.Equal(f, o) || strings.Contains(foreign.body, canary) {
		t.Errorf("claims %v, want %v", f, o)
	}
}

// The labels are configured names, never text of a token.
func TestAssertionsAreCounted(t *testing.T) {
	s := startFederated(t)
	client := s.direct()
	for _, r := range []request{
		byGrant(githubToken(t, nil, nil), ""),
		byAssertion(githubToken(t, nil, nil), ""),
		byAssertion(githubToken(t, members{"kid": canary}, nil), ""),
		byGrant(githubToken(t, nil, members{"sub": canary}), ""),
		byGrant(githubToken(t, nil, members{"exp": 1}), ""),
		byGrant(githubToken(t, nil, nil), "&client_id="+canary),
		byAssertion(edgeToken(t, nil, nil), ""),
		byAssertion(accountToken(t, nil, nil), ""),
		byAssertion(assertion(t, signingkey.ES256, nil, nil), ""),
		byAssertion(githubToken(t, nil, members{"iss": "https://" + canary}), ""),
		byGrant(canary, ""),
	} {
		s.send(t, client, r)
	}
	want := map[string]float64{
		"github accepted": 2, "github unknown_key": 1, "github invalid_request": 1, "github wrong_assertion": 1, "github unknown_client": 1,
		"edge-cluster accepted": 1, "kubernetes accepted": 1, "self accepted": 1, " unknown_client": 1, " wrong_assertion": 1,
	}
	got := assertionCounts(t, s.metrics)
	for key, n := range want {
		testkit.Diff(t, key, n, got[key])
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("also counted %v", got)
	}
}

// assertionCounts returns the values of realmkeeper_assertions_total for the realm acme by issuer and
// result.
func assertionCounts(t testing.TB, metrics prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families := testkit.Value(metrics.Gather())(t)
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "realmkeeper_assertions_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["realm"] == "acme" {
				counts[labels["issuer"]+" "+labels["result"]] = metric.GetCounter().GetValue()
			}
		}
	}
	return counts
}

// A token of a third party gets only what the client may have, even if the holder's record is newer
// than the realm's: tokens of an issuer that the realm no longer trusts are rejected.
func TestIssuerThatIsNoLongerTrusted(t *testing.T) {
	s := startFederated(t)
	client := s.direct()
	token := githubToken(t, nil, nil)
	checkToken(t, s.send(t, client, byGrant(token, "")), "stock", nil)
	trust := func(issuers ...registry.Issuer) {
		s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) { r.Issuers = issuers }))
	}
	key := foreignKeys()["github"]
	keys := []signingkey.PublicKey{key.Public()}
	// The name now belongs to another issuer with the same keys.
	trust(registry.Issuer{Authenticates: true, Name: "github", Issuer: "https://example.com", Audience: acme, Keys: keys})
	checkRejection(t, s.send(t, client, byGrant(token, "")), 400, "invalid_grant", "acme")
	checkRejection(t, s.send(t, client, byGrant(githubToken(t, nil, members{"iss": "https://example.com"}), "&client_id=deploy")), 400, "invalid_grant", "acme")
	checkRejection(t, s.send(t, client, byGrant(githubToken(t, nil, members{"iss": "https://example.com"}), "")), 400, "invalid_request", "acme")
	// The audience is another one, or the keys are gone.
	trust(registry.Issuer{Authenticates: true, Name: "github", Issuer: github, Audience: "https://example.com", Keys: keys})
	checkRejection(t, s.send(t, client, byGrant(token, "")), 400, "invalid_grant", "acme")
	trust(registry.Issuer{Authenticates: true, Name: "github", Issuer: github, Audience: acme})
	checkRejection(t, s.send(t, client, byGrant(token, "")), 400, "invalid_grant", "acme")
	// It has another name, so that it is another issuer.
	trust(registry.Issuer{Authenticates: true, Name: "renamed", Issuer: github, Audience: acme, Keys: keys})
	checkRejection(t, s.send(t, client, byGrant(token, "")), 400, "invalid_request", "acme")
	checkRejection(t, s.send(t, client, byGrant(token, "&client_id=deploy")), 400, "invalid_grant", "acme")
	trust(registry.Issuer{Authenticates: true, Name: "github", Issuer: github, Audience: acme, Keys: keys})
	checkToken(t, s.send(t, client, byGrant(token, "")), "stock", nil)
	later := s.send(t, client, byGrant(githubToken(t, nil, members{"exp": now.Add(time.Hour).Unix()}), ""))
	checkToken(t, later, "stock", nil)
}
