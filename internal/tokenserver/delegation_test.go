package tokenserver_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	agents = "https://agents.example.com"
	tools  = "https://tools.example.com"

	corporate = "https://login.example.com"
	provider  = "https://idp.example.com"

	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
	jwtType         = "urn:ietf:params:oauth:token-type:jwt"
	idTokenType     = "urn:ietf:params:oauth:token-type:id_token"

	invalidSubject = `{"error":"invalid_request","error_description":"The subject token is not valid, or no rule of the realm allows this client to exchange it."}` + "\n"
	ownToken       = `{"error":"invalid_request","error_description":"A client cannot exchange a token that was issued to it. Exchange the token that it received, or use client_credentials to act for itself."}` + "\n"
)

func inNamespaces(names ...string) record.ClientSelector {
	return record.ClientSelector{Namespaces: names}
}

// rules returns the rules of the tests: an agent acts for services and for the users of two issuers, a tool
// for agents, and anything in namespace "deep" for tools.
func rules() []record.Exchange {
	services, agentsAndServices, everyone := inNamespaces("apps"), inNamespaces("agents", "apps"), inNamespaces("tools", "agents", "apps")
	return []record.Exchange{
		{
			Name: "agents", Actors: inNamespaces("agents"), Subjects: &services, SubjectAudiences: []string{agents}, SubjectScopes: []string{"agents.call"},
			Audiences: []string{orders, tools, stock}, Scopes: []string{"orders:read", "tools.call"}, MaxDepth: 1, TokenLifetimeSeconds: 60,
		},
		{
			Name: "tools", Actors: inNamespaces("tools"), Subjects: &agentsAndServices, SubjectAudiences: []string{tools},
			Audiences: []string{orders}, Scopes: []string{"orders:read"}, MaxDepth: 2,
		},
		{
			Name: "deep", Actors: inNamespaces("deep"), Subjects: &everyone, SubjectAudiences: []string{orders},
			Audiences: []string{stock}, Scopes: []string{"orders:read"}, MaxDepth: 2,
		},
		{
			Name: "people", Actors: inNamespaces("agents"), Issuer: "corporate", Claims: map[string]string{"azp": "portal"},
			Audiences: []string{orders, tools}, Scopes: []string{"orders:read", "tools.call"}, MaxDepth: 2, DeniedSubjects: []string{"ext:corporate:mallory"},
		},
		{
			Name: "jag", Actors: inNamespaces("agents"), Issuer: "idp", IDJAG: true,
			Audiences: []string{orders, tools}, Scopes: []string{"orders:read", "tools.call"}, MaxDepth: 1, TokenLifetimeSeconds: 120,
		},
	}
}

// setDelegating replaces the realm with one that has the given rules.
func (s *server) setDelegating(t testing.TB, rules []record.Exchange, change ...func(*registry.RealmSettings)) {
	t.Helper()
	public := func(name string) []signingkey.PublicKey {
		key := foreignKeys()[name]
		return []signingkey.PublicKey{key.Public()}
	}
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.Exchanges = rules
		r.Issuers = []registry.Issuer{
			{Name: "corporate", Issuer: corporate, Audience: "portal", Subjects: true, Keys: public("github")},
			{Name: "idp", Issuer: provider, Audience: acme, IDJAG: true, Keys: public("second")},
			{Name: "ci", Issuer: github, Audience: acme, Authenticates: true, Keys: public("edge")},
			{Name: "spire", Issuer: domain, Audience: acme, Authenticates: true, Keys: public("spiffe")},
		}
		for _, more := range change {
			more(r)
		}
	}))
}

// startDelegating runs a token server with the rules and their clients.
func startDelegating(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := startLoaded(t, append([]func(*tokenserver.Options){behindProxy}, options...)...)
	s.setDelegating(t, rules())
	for id, change := range map[string]func(*registry.Client){
		"service": func(c *registry.Client) {
			c.Namespace, c.Audiences, c.Scopes = "apps", []string{agents}, []string{"agents.call", "orders:read", "stock"}
		},
		"agent": func(c *registry.Client) {
			c.Namespace, c.Audiences, c.DelegatedScopes = "agents", []string{orders, tools, "urn:example:log"}, []string{"orders:read", "tools.call"}
		},
		"assistant": func(c *registry.Client) {
			c.Namespace, c.Audiences, c.DelegatedScopes = "agents", []string{orders, tools}, []string{"orders:read", "tools.call"}
		},
		"tool": func(c *registry.Client) {
			c.Namespace, c.Audiences, c.Scopes = "tools", []string{orders, stock}, []string{"orders:read"}
		},
		"last": func(c *registry.Client) {
			c.Namespace, c.Audiences, c.Scopes = "deep", []string{stock}, []string{"orders:read"}
		},
		"stranger": func(c *registry.Client) {
			c.Namespace, c.Audiences, c.Scopes = "other", []string{orders, tools}, []string{"orders:read", "tools.call"}
		},
		"gateway": func(c *registry.Client) { c.Introspects = []string{orders, stock, agents, tools} },
	} {
		s.registry.SetClient(newClient(t, "acme", id, change))
	}
	return s
}

// exchange requests a token for a subject token. The parameters replace or add others; an empty one is omitted.
func exchangeOf(actor, subject string, changes ...string) request {
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "audience": {orders},
		"subject_token": {subject}, "subject_token_type": {accessTokenType},
	}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return elsewhere(request{body: form.Encode(), authorization: basic(actor, secret)})
}

// exchanged returns the token of a successful exchange.
func (s *server) exchanged(t testing.TB, actor, subject string, changes ...string) string {
	t.Helper()
	got := s.send(t, s.direct(), exchangeOf(actor, subject, changes...))
	if got.status != http.StatusOK {
		t.Fatalf("exchange by %s: got %d %s", actor, got.status, got.body)
	}
	return accessToken(t, got)
}

// userToken returns a valid token of a user of the portal, except for the given changes.
func userToken(t testing.TB, header, claims members) string {
	t.Helper()
	return foreignToken(t, "github", members{"iss": corporate, "sub": "alice@example.com", "aud": "portal", "azp": "portal", "jti": "u1"}, header, claims)
}

// idJAG returns a valid ID-JAG for the client "agent", except for the given changes.
func idJAG(t testing.TB, header, claims members) string {
	t.Helper()
	return foreignToken(t, "second", members{
		"iss": provider, "sub": "alice", "client_id": "agent", "jti": "j1", "resource": orders, "scope": "orders:read tools.call",
	}, changed(members{"typ": "oauth-id-jag+jwt"}, header), claims)
}

func byIDJAG(actor, assertion, more string) request {
	r := elsewhere(byGrant(assertion, more))
	if actor != "" {
		r.authorization = basic(actor, secret)
	}
	return r
}

// The new token names the subject and the actor, and nothing else of the subject token gets into it.
func TestTokenExchange(t *testing.T) {
	s := startDelegating(t)
	got := s.send(t, s.direct(), exchangeOf("agent", issued(t, s, "service", "")))
	expectStatus(t, "exchange", http.StatusOK, got)
	checkHeader(t, got, http.StatusOK, "")
	var body map[string]any
	testkit.Do(t, json.Unmarshal([]byte(got.body), &body))
	claims := payload(t, accessToken(t, got))
	delete(body, "access_token")
	testkit.Diff(t, "response", map[string]any{
		"token_type": "bearer", "expires_in": 60.0, "scope": "orders:read", "issued_token_type": accessTokenType,
	}, body)
	digest := registry.NewRule(rules()[0], nil).Digest
	if claims["jti"] == "" {
		t.Error("the token has no jti")
	}
	delete(claims, "jti")
	testkit.Diff(t, "claims", map[string]any{
		"iss": acme, "sub": "service", "sub_uid": "acme.service", "client_id": "agent", "client_uid": "acme.agent", "aud": orders, "scope": "orders:read",
		"iat": float64(now.Unix()), "exp": float64(now.Unix() + 60),
		"act":  map[string]any{"iss": acme, "sub": "agent", "client_uid": "acme.agent"},
		"rule": []any{map[string]any{"name": "agents", "digest": digest, "iat": float64(now.Unix())}},
	}, claims)
	checkDelegated(t, s, accessToken(t, got), true)
}

// checkDelegated checks whether introspection and the verify endpoint accept a token that acts for a subject.
func checkDelegated(t *testing.T, s *server, token string, want bool) {
	t.Helper()
	got := s.verify(t, "delegated=true", http.Header{"Authorization": {"Bearer " + token}})
	if (got.status == http.StatusOK) != want {
		t.Errorf("verification responds with %d %s, want valid: %t", got.status, got.body, want)
	}
	got = s.send(t, s.direct(), request{path: introspectPath, body: "token=" + token, authorization: basic("gateway", secret)})
	if (got.status == http.StatusOK && got.body != inactive) != want {
		t.Errorf("introspection responds with %s, want valid: %t", got.body, want)
	}
}

func TestExchangeChain(t *testing.T) {
	s := startDelegating(t)
	first := s.exchanged(t, "agent", issued(t, s, "service", ""), "audience", tools, "scope", "orders:read")
	second := s.exchanged(t, "tool", first)
	claims := payload(t, second)
	testkit.Diff(t, "act", any(map[string]any{
		"iss": acme, "sub": "tool", "client_uid": "acme.tool",
		"act": map[string]any{"iss": acme, "sub": "agent", "client_uid": "acme.agent"},
	}), claims["act"])
	testkit.Diff(t, "sub", any("service"), claims["sub"])
	if rules, _ := claims["rule"].([]any); len(rules) != 2 {
		t.Errorf("rules %v, want both", claims["rule"])
	}
	if exp, before := claims["exp"].(float64), payload(t, first)["exp"].(float64); exp > before {
		t.Errorf("the token expires at %v, after the subject token at %v", exp, before)
	}
	checkDelegated(t, s, second, true)
	// The third exchange would be deeper than its rule allows.
	got := s.send(t, s.direct(), exchangeOf("last", second, "audience", stock))
	testkit.Diff(t, "response to a chain of three", invalidSubject, got.body)
	// The rule of agents allows no chain at all.
	got = s.send(t, s.direct(), exchangeOf("assistant", first, "audience", tools))
	testkit.Diff(t, "response to a chain at depth 1", invalidSubject, got.body)
}

func TestExchangeForUsers(t *testing.T) {
	s := startDelegating(t)
	for name, tc := range map[string]struct {
		header, claims members
		kind           string
	}{
		"jwt":          {kind: jwtType},
		"ID token":     {kind: idTokenType},
		"access token": {header: members{"typ": "at+jwt"}, kind: accessTokenType},
		"without typ":  {header: members{"typ": nil}, kind: jwtType},
	} {
		t.Run(name, func(t *testing.T) {
			claims := payload(t, s.exchanged(t, "agent", userToken(t, tc.header, tc.claims), "subject_token_type", tc.kind))
			testkit.Diff(t, "sub", any("ext:corporate:alice%40example.com"), claims["sub"])
			testkit.Diff(t, "sub_id", any(map[string]any{"format": "iss_sub", "iss": corporate, "sub": "alice@example.com"}), claims["sub_id"])
			testkit.Diff(t, "scope", any("orders:read tools.call"), claims["scope"])
			if claims["sub_uid"] != nil {
				t.Errorf("sub_uid %v, want none", claims["sub_uid"])
			}
		})
	}
	// The issuer's actors are in the chain without their other claims, and count.
	act := members{"sub": "portal", "role": canary, "act": members{"iss": "https://other.example", "sub": "proxy", "client_uid": "acme.agent"}}
	got := s.send(t, s.direct(), exchangeOf("agent", userToken(t, nil, members{"act": act}), "subject_token_type", jwtType))
	testkit.Diff(t, "response to a chain that is too deep", invalidSubject, got.body)
	delete(act, "act")
	claims := payload(t, s.exchanged(t, "agent", userToken(t, nil, members{"act": act}), "subject_token_type", jwtType))
	testkit.Diff(t, "act", any(map[string]any{
		"iss": acme, "sub": "agent", "client_uid": "acme.agent", "act": map[string]any{"iss": corporate, "sub": "portal"},
	}), claims["act"])
	// An agent of a user can use a tool.
	first := s.exchanged(t, "agent", userToken(t, nil, nil), "subject_token_type", jwtType, "audience", tools)
	second := s.exchanged(t, "tool", first)
	testkit.Diff(t, "sub", any("ext:corporate:alice%40example.com"), payload(t, second)["sub"])
	checkDelegated(t, s, second, true)
}

// The new token expires no later than the subject token, in whole seconds.
func TestExchangeLifetime(t *testing.T) {
	s := startDelegating(t)
	at := func(token string) int64 { return int64(payload(t, token)["exp"].(float64)) }
	soon := now.Truncate(time.Second).Add(7 * time.Second).Unix()
	testkit.Diff(t, "exp of a user's agent", soon, at(s.exchanged(t, "agent", userToken(t, nil, members{"exp": soon}), "subject_token_type", jwtType)))
	long := userToken(t, nil, members{"exp": now.Add(time.Hour).Unix()})
	testkit.Diff(t, "exp with the realm's lifetime", now.Unix()+300, at(s.exchanged(t, "agent", long, "subject_token_type", jwtType)))
	s.registry.SetClient(newClient(t, "acme", "agent", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.DelegatedScopes, c.TokenLifetime = "agents", []string{orders}, []string{"orders:read"}, 30*time.Second
	}))
	changed := rules()
	changed[3].TokenLifetimeSeconds = 20
	s.setDelegating(t, changed)
	testkit.Diff(t, "exp with the rule's lifetime", now.Unix()+20, at(s.exchanged(t, "agent", long, "subject_token_type", jwtType)))
	short := userToken(t, nil, members{"exp": soon})
	testkit.Diff(t, "exp of a token that expires before", soon, at(s.exchanged(t, "agent", short, "subject_token_type", jwtType)))
	s.setDelegating(t, rules())
	testkit.Diff(t, "exp with the actor's lifetime", now.Unix()+30, at(s.exchanged(t, "agent", long, "subject_token_type", jwtType)))
}

func TestExchangeParameters(t *testing.T) {
	s := startDelegating(t)
	subject := issued(t, s, "service", "")
	for name, tc := range map[string]struct {
		changes   []string
		more      string // appended to the body
		query     string
		wantError string
		wantText  string
	}{
		"no subject token":             {changes: []string{"subject_token", ""}, wantError: "invalid_request", wantText: "subject_token and subject_token_type are required"},
		"no subject token type":        {changes: []string{"subject_token_type", ""}, wantError: "invalid_request", wantText: "subject_token_type are required"},
		"unknown subject token type":   {changes: []string{"subject_token_type", "urn:ietf:params:oauth:token-type:saml2"}, wantError: "invalid_request", wantText: "subject_token_type must be"},
		"refresh token":                {changes: []string{"subject_token_type", "urn:ietf:params:oauth:token-type:refresh_token"}, wantError: "invalid_request", wantText: "subject_token_type must be"},
		"our token as JWT":             {changes: []string{"subject_token_type", jwtType}, wantError: "invalid_request", wantText: "not valid"},
		"our token as ID token":        {changes: []string{"subject_token_type", idTokenType}, wantError: "invalid_request", wantText: "not valid"},
		"requested JWT":                {changes: []string{"requested_token_type", jwtType}, wantError: "invalid_request", wantText: "requested_token_type must be omitted"},
		"actor token":                  {changes: []string{"actor_token", subject, "actor_token_type", accessTokenType}, wantError: "invalid_request", wantText: "actor_token is not supported"},
		"actor token type":             {changes: []string{"actor_token_type", accessTokenType}, wantError: "invalid_request", wantText: "actor_token is not supported"},
		"no audience":                  {changes: []string{"audience", ""}, wantError: "invalid_target", wantText: "Exactly one audience"},
		"second audience":              {more: "&audience=" + url.QueryEscape(tools), wantError: "invalid_target", wantText: "Exactly one audience"},
		"other resource":               {changes: []string{"resource", tools}, wantError: "invalid_target", wantText: "Exactly one audience"},
		"unknown audience":             {changes: []string{"audience", "https://other.example.com"}, wantError: "invalid_target", wantText: "The first one is: https://other.example.com"},
		"audience of the rule alone":   {changes: []string{"audience", stock}, wantError: "invalid_target", wantText: "not granted"},
		"audience of the actor alone":  {changes: []string{"audience", "urn:example:log"}, wantError: "invalid_target", wantText: "not granted"},
		"scope of the rule alone":      {changes: []string{"scope", "tools.call"}, wantError: "invalid_scope", wantText: "The first one is: tools.call"}, // the service hasn't it
		"scope of the subject alone":   {changes: []string{"scope", "stock"}, wantError: "invalid_scope", wantText: "scope"},
		"one scope too many":           {changes: []string{"scope", "orders:read stock"}, wantError: "invalid_scope", wantText: "The first one is: stock"},
		"subject token twice":          {more: "&subject_token=x", wantError: "invalid_request", wantText: "repeated"},
		"subject token in the query":   {changes: []string{"subject_token", ""}, query: "subject_token=" + subject, wantError: "invalid_request", wantText: "compromised"},
		"actor token in the query":     {query: "actor_token=" + subject, wantError: "invalid_request", wantText: "compromised"},
		"subject token that is no JWT": {changes: []string{"subject_token", canary}, wantError: "invalid_request", wantText: "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			r := exchangeOf("agent", subject, tc.changes...)
			r.body += tc.more
			r.query = tc.query
			got := s.send(t, s.direct(), r)
			checkRejection(t, got, 400, tc.wantError, "acme")
			if !strings.Contains(got.body, tc.wantText) {
				t.Errorf("body %s, want %q", got.body, tc.wantText)
			}
		})
	}
	got := s.send(t, s.direct(), exchangeOf("agent", strings.Repeat("x", 9000)))
	expectStatus(t, "oversized subject token", http.StatusRequestEntityTooLarge, got)
	r := exchangeOf("agent", subject)
	r.authorization = ""
	checkRejection(t, s.send(t, s.direct(), r), 401, "invalid_client", "acme")
	for _, same := range [][]string{{"resource", orders}, {"audience", "", "resource", orders}, {"requested_token_type", accessTokenType}} {
		s.exchanged(t, "agent", subject, same...)
	}
}

// All of these subject tokens get the same response, regardless of the reason.
func TestRejectedSubjectTokens(t *testing.T) {
	s := startDelegating(t)
	s.registry.SetRealm(newRealm(t, "other", nil))
	s.registry.SetClient(newClient(t, "other", "service", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes = "apps", []string{agents}, []string{"agents.call"}
	}))
	valid := issued(t, s, "service", "")
	key := keyIn(signingkey.Active, signingkey.ES256)
	header := members{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}
	forge := func(change members) string { return jws(t, &key, header, changed(payload(t, valid), change)) }
	s.registry.SetClient(newClient(t, "acme", "wide", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes = "apps", []string{agents, stock}, []string{"agents.call", "orders:read"}
	}))
	s.registry.SetClient(newClient(t, "acme", "outside", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes = "other", []string{agents}, []string{"agents.call", "orders:read"}
	}))
	s.registry.SetClient(newClient(t, "acme", "named", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes, c.Disabled = "apps", []string{agents}, []string{"agents.call"}, true
	}))
	otherRealm := accessToken(t, s.send(t, s.direct(), request{path: "/other/oauth2/token", query: grant, authorization: basic("service", secret)}))
	assertionOfKey := jws(t, &key, members{"alg": "ES256", "kid": key.ID, "typ": "JWT"}, members{"iss": "agent", "sub": "agent", "aud": acme, "jti": "x", "exp": now.Add(time.Minute).Unix()})
	nested := any("x")
	for range 100 {
		nested = members{"sub": "a", "act": nested}
	}
	user := func(header, claims members) []string {
		return []string{"subject_token", userToken(t, header, claims), "subject_token_type", jwtType}
	}
	for name, tc := range map[string]struct {
		actor   string
		changes []string
	}{
		"actor that no rule selects":          {"stranger", []string{"subject_token", valid}},
		"actor of another rule":               {"tool", []string{"subject_token", valid}},
		"token for another API":               {"agent", []string{"subject_token", issued(t, s, "wide", "&audience="+url.QueryEscape(stock))}},
		"token without the scope of the rule": {"agent", []string{"subject_token", issued(t, s, "service", "&scope=stock")}},
		"subject in another namespace":        {"agent", []string{"subject_token", issued(t, s, "outside", "")}},
		"token of another realm":              {"agent", []string{"subject_token", otherRealm}},
		"expired token":                       {"agent", []string{"subject_token", forge(members{"iat": now.Unix() - 100, "exp": now.Unix()})}},
		"recreated client":                    {"agent", []string{"subject_token", forge(members{"client_uid": "older"})}},
		"suspended client":                    {"agent", []string{"subject_token", forge(members{"client_id": "named", "sub": "named", "client_uid": "acme.named"})}},
		"sub without a rule":                  {"agent", []string{"subject_token", forge(members{"sub": "ext:corporate:alice"})}},
		"client assertion":                    {"agent", []string{"subject_token", assertionOfKey, "subject_token_type", jwtType}},
		"ID-JAG":                              {"agent", []string{"subject_token", idJAG(t, nil, nil), "subject_token_type", jwtType}},
		"ID-JAG of a subject issuer":          {"agent", user(members{"typ": "oauth-id-jag+jwt"}, nil)},
		"client assertion of a user's issuer": {"agent", user(members{"typ": "client-authentication+jwt"}, nil)},
		"access token as ID token":            {"agent", append(user(members{"typ": "at+jwt"}, nil), "subject_token_type", idTokenType)},
		"token of an issuer of clients":       {"agent", []string{"subject_token", foreignToken(t, "edge", members{"iss": github, "sub": "a"}, nil, nil), "subject_token_type", jwtType}},
		"unknown issuer":                      {"agent", user(nil, members{"iss": "https://evil.example"})},
		"issuer is the realm":                 {"agent", user(nil, members{"iss": acme})},
		"token for another client":            {"agent", user(nil, members{"azp": "shop"})},
		"token without azp":                   {"agent", user(nil, members{"azp": nil})},
		"token for another audience":          {"agent", user(nil, members{"aud": "shop"})},
		"token for two audiences":             {"agent", user(nil, members{"aud": []string{"portal", "shop"}})},
		"expired token of a user":             {"agent", user(nil, members{"exp": now.Unix()})},
		"user token without exp":              {"agent", user(nil, members{"exp": nil})},
		"sub that no rule could deny":         {"agent", user(nil, members{"sub": strings.Repeat("ä", 90)})},
		"sub that is not valid Unicode":       {"agent", user(nil, members{"sub": "al\xffice"})},
		"user token without sub":              {"agent", user(nil, members{"sub": nil})},
		"attacker's key":                      {"agent", []string{"subject_token", foreignToken(t, "attacker", members{"iss": corporate, "sub": "alice", "aud": "portal", "azp": "portal"}, nil, nil), "subject_token_type", jwtType}},
		"denied subject":                      {"agent", user(nil, members{"sub": "mallory"})},
		"may_act names another":               {"agent", user(nil, members{"may_act": members{"client_id": "tool"}})},
		"may_act of another issuer":           {"agent", user(nil, members{"may_act": members{"iss": corporate, "sub": "agent"}})},
		"may_act with another sub":            {"agent", user(nil, members{"may_act": members{"client_id": "agent", "sub": "tool"}})},
		"may_act with another client_id":      {"agent", user(nil, members{"may_act": members{"iss": acme, "sub": "agent", "client_id": "tool"}})},
		"may_act without an issuer":           {"agent", user(nil, members{"may_act": members{"sub": "agent"}})},
		"may_act without a name":              {"agent", user(nil, members{"may_act": members{}})},
		"may_act is a string":                 {"agent", user(nil, members{"may_act": "agent"})},
		"act names a client of the realm":     {"agent", user(nil, members{"act": members{"iss": acme, "sub": "service"}})},
		"logout token":                        {"agent", user(nil, members{"events": members{"http://schemas.openid.net/event/backchannel-logout": members{}}})},
		"act without sub":                     {"agent", user(nil, members{"act": members{"iss": corporate}})},
		"huge act":                            {"agent", user(nil, members{"act": nested})},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), exchangeOf(tc.actor, "", tc.changes...))
			expectStatus(t, "response", http.StatusBadRequest, got)
			testkit.Diff(t, "response", invalidSubject, got.body)
		})
	}
	for _, mayAct := range []members{{"client_id": "agent"}, {"iss": acme, "sub": "agent"}} {
		s.exchanged(t, "agent", "", user(nil, members{"may_act": mayAct})...)
	}
	// Two issuers with one subject, and a user whose subject is the ID of a client, are different subjects.
	subject := payload(t, s.exchanged(t, "agent", "", user(nil, members{"sub": "service"})...))["sub"]
	testkit.Diff(t, "subject that equals a client ID", any("ext:corporate:service"), subject)
	subject = payload(t, accessToken(t, s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, members{"sub": "service"}), ""))))["sub"]
	testkit.Diff(t, "the same subject of another issuer", any("ext:idp:service"), subject)
	// An access token authenticates no client.
	got := s.send(t, s.direct(), elsewhere(byAssertion(valid, "&client_id=agent")))
	checkRejection(t, got, 401, "invalid_client", "acme")
	// A user's token doesn't either, even for a client that lists the user. A token for client authentication is no
	// subject token, even with a rule for it.
	s.registry.SetClient(newClient(t, "acme", "listing", func(c *registry.Client) {
		c.Identities = []registry.Identity{{ID: "a", IssuerName: "corporate", Issuer: corporate, Subject: "alice@example.com"}}
	}))
	checkRejection(t, s.send(t, s.direct(), elsewhere(byAssertion(userToken(t, nil, nil), "&client_id=listing"))), 401, "invalid_client", "acme")
	s.setDelegating(t, []record.Exchange{{
		Name: "ci", Actors: inNamespaces("agents"), Issuer: "ci", Audiences: []string{orders}, Scopes: []string{"orders:read"}, MaxDepth: 1,
	}})
	forClients := foreignToken(t, "edge", members{"iss": github, "sub": "a"}, nil, nil)
	testkit.Diff(t, "response to a token for client authentication", invalidSubject, s.send(t, s.direct(), exchangeOf("agent", forClients, "subject_token_type", jwtType)).body)
	got = s.send(t, s.direct(), elsewhere(byAssertion(userToken(t, nil, nil), "&client_id=agent")))
	checkRejection(t, got, 401, "invalid_client", "acme")
}

// One rule must allow the whole exchange: an audience of one and a scope of another don't add up.
func TestRulesAreNotCombined(t *testing.T) {
	s := startDelegating(t)
	services := inNamespaces("apps")
	rule := func(name, audience, scope string) record.Exchange {
		return record.Exchange{
			Name: name, Actors: inNamespaces("agents"), Subjects: &services, SubjectAudiences: []string{agents}, SubjectScopes: []string{"agents.call"},
			Audiences: []string{audience}, Scopes: []string{scope}, MaxDepth: 1,
		}
	}
	s.setDelegating(t, []record.Exchange{rule("first", orders, "stock"), rule("second", tools, "orders:read")})
	subject := issued(t, s, "service", "")
	checkRejection(t, s.send(t, s.direct(), exchangeOf("agent", subject, "scope", "orders:read")), 400, "invalid_scope", "acme")
	checkRejection(t, s.send(t, s.direct(), exchangeOf("agent", subject)), 400, "invalid_scope", "acme")
	s.exchanged(t, "agent", subject, "audience", tools, "scope", "orders:read")
	// The first rule that allows all of it applies.
	s.setDelegating(t, []record.Exchange{rule("none", stock, "stock"), rule("second", orders, "orders:read"), rule("third", orders, "orders:read")})
	claims := payload(t, s.exchanged(t, "agent", subject))
	if rules, _ := json.Marshal(claims["rule"]); !strings.Contains(string(rules), `"second"`) {
		t.Errorf("rule %s, want the second one", rules)
	}
}

// twoRules returns rules that cover the users of the portal: a narrow one, with the given change, and a broad one that
// applies first.
func twoRules(change func(narrow *record.Exchange)) []record.Exchange {
	narrow := record.Exchange{
		Name: "narrow", Actors: inNamespaces("agents"), Issuer: "corporate", Claims: map[string]string{"azp": "portal"},
		Audiences: []string{orders}, Scopes: []string{"orders:read"}, MaxDepth: 1,
	}
	broad := record.Exchange{
		Name: "broad", Actors: inNamespaces("agents", "tools"), Issuer: "corporate",
		Audiences: []string{orders, tools}, Scopes: []string{"orders:read", "tools.call"}, MaxDepth: 1,
	}
	change(&narrow)
	return []record.Exchange{broad, narrow}
}

// A rule that denies a subject denies it to the rule's actors for the rule's audiences, whichever rule would apply. That
// is true for new tokens and for existing ones.
func TestRulesDenySubjectsOfOtherRules(t *testing.T) {
	const mallory = "ext:corporate:mallory"
	deny := func(e *record.Exchange) { e.DeniedSubjects = []string{"ext:corporate:eve", mallory} }
	for name, tc := range map[string]struct {
		actor, audience string
		user            members
		change          func(*record.Exchange)
		denied          bool
	}{
		"same actor and audience":       {change: deny, denied: true},
		"token that the rule is not of": {change: deny, user: members{"azp": "shop"}, denied: true},
		"rule with other scopes":        {change: func(e *record.Exchange) { deny(e); e.Scopes = []string{"stock"} }, denied: true},
		"rule for ID-JAGs":              {change: func(e *record.Exchange) { deny(e); e.IDJAG, e.Claims = true, nil }, denied: true},
		"other subject":                 {change: deny, user: members{"sub": "alice"}},
		"other audience":                {change: deny, audience: tools},
		"other actor":                   {change: deny, actor: "tool"},
		"denied by no rule":             {change: func(*record.Exchange) {}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startDelegating(t)
			actor, audience := cmp.Or(tc.actor, "agent"), cmp.Or(tc.audience, orders)
			exchange := exchangeOf(actor, userToken(t, nil, changed(members{"sub": "mallory"}, tc.user)), "subject_token_type", jwtType, "audience", audience)
			s.setDelegating(t, twoRules(func(*record.Exchange) {}))
			earlier := accessToken(t, s.send(t, s.direct(), exchange))
			checkDelegated(t, s, earlier, true)
			s.setDelegating(t, twoRules(tc.change))
			checkDelegated(t, s, earlier, !tc.denied)
			got := s.send(t, s.direct(), exchange)
			if tc.denied {
				testkit.Diff(t, "response", invalidSubject, got.body)
				return
			}
			checkDelegated(t, s, accessToken(t, got), true)
		})
	}
}

// A denial also applies to the tokens for which a denied token was exchanged, if that token was for one of the
// audiences, and to subjects that are clients.
func TestRulesDenySubjectsInChains(t *testing.T) {
	for name, tc := range map[string]struct {
		denying record.Exchange
		denied  bool
	}{
		"earlier actor":                        {denying: record.Exchange{Actors: inNamespaces("agents"), Audiences: []string{tools}}, denied: true},
		"earlier actor, not for this audience": {denying: record.Exchange{Actors: inNamespaces("agents"), Audiences: []string{orders, agents}}},
		"actor":                                {denying: record.Exchange{Actors: inNamespaces("tools"), Audiences: []string{orders}}, denied: true},
		"actor, not for this audience":         {denying: record.Exchange{Actors: inNamespaces("tools"), Audiences: []string{tools}}},
	} {
		for subject, sub := range map[string]string{"user": "ext:corporate:alice%40example.com", "client": "service"} {
			t.Run(name+", "+subject, func(t *testing.T) {
				s, all := startDelegating(t), rules()
				all[1].SubjectAudiences = []string{tools, agents}
				s.setDelegating(t, all)
				first := s.exchanged(t, "agent", issued(t, s, "service", ""), "audience", tools, "scope", "orders:read")
				if subject == "user" {
					first = s.exchanged(t, "agent", userToken(t, nil, nil), "subject_token_type", jwtType, "audience", tools)
				}
				second := s.exchanged(t, "tool", first)
				checkDelegated(t, s, second, true)
				denying := tc.denying
				denying.Name, denying.MaxDepth, denying.DeniedSubjects = "denying", 1, []string{sub}
				denying.Subjects, denying.SubjectAudiences = new(inNamespaces("apps", "agents")), []string{stock}
				s.setDelegating(t, append(all, denying))
				checkDelegated(t, s, second, !tc.denied)
				got := s.send(t, s.direct(), exchangeOf("tool", first))
				if tc.denied {
					testkit.Diff(t, "response", invalidSubject, got.body)
				} else {
					expectStatus(t, "response", http.StatusOK, got)
				}
			})
		}
	}
}

// If any rule that covers an exchange requires DPoP, the new token is bound, whichever rule applies.
func TestAnyRuleThatCoversAnExchangeRequiresDPoP(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []string
		user    members
		change  func(*record.Exchange)
		want    bool
	}{
		"all scopes":                     {want: true},
		"scope of both rules":            {changes: []string{"scope", "orders:read"}, want: true},
		"one scope of the rule":          {changes: []string{"scope", "orders:read tools.call"}, want: true},
		"scope that the rule lacks":      {changes: []string{"scope", "tools.call"}},
		"audience that the rule lacks":   {changes: []string{"audience", tools}},
		"token that the rule is not of":  {user: members{"azp": "shop"}},
		"actor that it does not select":  {change: func(e *record.Exchange) { e.Actors = inNamespaces("tools") }},
		"issuer that the rule is not of": {change: func(e *record.Exchange) { e.Issuer = "idp" }},
		"chain that it does not allow":   {user: members{"act": members{"sub": "portal"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startDelegating(t)
			all := twoRules(func(e *record.Exchange) {
				e.DPoP = true
				if tc.change != nil {
					tc.change(e)
				}
			})
			all[0].MaxDepth = 2
			s.setDelegating(t, all)
			r := exchangeOf("agent", userToken(t, nil, tc.user), append([]string{"subject_token_type", jwtType}, tc.changes...)...)
			got := s.send(t, s.direct(), r)
			if !tc.want {
				checkDelegated(t, s, accessToken(t, got), true)
				return
			}
			checkRejection(t, got, 400, "invalid_dpop_proof", "acme")
			r.header = r.header.Clone()
			r.header["Dpop"] = []string{proof{}.sign(t)}
			got = s.send(t, s.direct(), r)
			expectStatus(t, "with a proof", 200, got)
			testkit.Diff(t, "rule", any("broad"), payload(t, accessToken(t, got))["rule"].([]any)[0].(map[string]any)["name"])
		})
	}
}

// A client doesn't act for itself, directly or through another one, even if a rule is for everyone. The token would look
// like its own, with scopes that it has only when it acts for others.
func TestClientsDoNotActForThemselves(t *testing.T) {
	s := startDelegating(t)
	everyone := record.ClientSelector{All: true}
	s.setDelegating(t, []record.Exchange{{
		Name: "everyone", Actors: everyone, Subjects: &everyone, SubjectAudiences: []string{orders, agents},
		Audiences: []string{orders, agents}, Scopes: []string{"orders:read"}, MaxDepth: 4,
	}})
	s.registry.SetClient(newClient(t, "acme", "service", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes = "apps", []string{agents, orders}, []string{"orders:read"}
	}))
	own := issued(t, s, "service", "")
	testkit.Diff(t, "response to its own token", ownToken, s.send(t, s.direct(), exchangeOf("service", own)).body)
	byAgent := s.exchanged(t, "agent", own)
	testkit.Diff(t, "response at the end of a chain", invalidSubject, s.send(t, s.direct(), exchangeOf("service", byAgent)).body)
	// A client can be in a chain twice, but not twice in a row: another one must have sent it the token.
	testkit.Diff(t, "response to the actor's own token", ownToken, s.send(t, s.direct(), exchangeOf("agent", byAgent)).body)
	byTool := s.exchanged(t, "tool", byAgent)
	again := s.exchanged(t, "agent", byTool)
	checkDelegated(t, s, again, true)
	// Only the client to which a valid token was issued learns that it was.
	s.registry.SetRealm(newRealm(t, "other", nil))
	s.registry.SetClient(newClient(t, "other", "agent", func(c *registry.Client) { c.Audiences, c.Scopes = []string{agents}, []string{"orders:read"} }))
	foreign := accessToken(t, s.send(t, s.direct(), request{path: "/other/oauth2/token", query: grant, authorization: basic("agent", secret)}))
	testkit.Diff(t, "response to a token of another realm", invalidSubject, s.send(t, s.direct(), exchangeOf("agent", foreign)).body)
	revoked := *s.registry.Realm("acme").Client("agent")
	revoked.TokensValidAfter = now.Add(time.Second)
	s.registry.SetClient(&revoked)
	testkit.Diff(t, "response to its own revoked token", invalidSubject, s.send(t, s.direct(), exchangeOf("agent", again)).body)
}

// A rule about users and a rule about clients don't add up: with a token that the first one gave it, an actor can't use
// the second one, even if that selects the actor as a subject.
func TestActorsDoNotExchangeTheirOwnTokens(t *testing.T) {
	s := startDelegating(t)
	team := inNamespaces("agents")
	s.setDelegating(t, []record.Exchange{
		{
			Name: "users", Actors: team, Issuer: "corporate", Claims: map[string]string{"azp": "portal"},
			Audiences: []string{tools}, Scopes: []string{"tools.call"}, MaxDepth: 1,
		},
		{
			Name: "enterprise", Actors: team, Issuer: "idp", IDJAG: true,
			Audiences: []string{tools}, Scopes: []string{"tools.call"}, MaxDepth: 1,
		},
		{
			Name: "team", Actors: team, Subjects: &team, SubjectAudiences: []string{tools}, SubjectScopes: []string{"tools.call"},
			Audiences: []string{orders}, Scopes: []string{"orders:read"}, MaxDepth: 2,
		},
	})
	for name, first := range map[string]string{
		"token exchange": s.exchanged(t, "agent", userToken(t, nil, nil), "subject_token_type", jwtType, "audience", tools),
		"ID-JAG":         accessToken(t, s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, members{"resource": tools}), ""))),
	} {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), exchangeOf("agent", first))
			expectStatus(t, "actor of the token", http.StatusBadRequest, got)
			testkit.Diff(t, "response to the actor of the token", ownToken, got.body)
			checkDelegated(t, s, s.exchanged(t, "assistant", first), true)
		})
	}
}

// Without scopes that a rule requires of the subject token, the new token has only scopes of that token. With them,
// the subject must have what is issued.
func TestExchangedScopes(t *testing.T) {
	s := startDelegating(t)
	services := inNamespaces("apps")
	allow := func(required ...string) {
		s.setDelegating(t, []record.Exchange{{
			Name: "agents", Actors: inNamespaces("agents"), Subjects: &services, SubjectAudiences: []string{agents}, SubjectScopes: required,
			Audiences: []string{orders}, Scopes: []string{"orders:read", "stock", "tools.call"}, MaxDepth: 1,
		}})
	}
	all, one := issued(t, s, "service", ""), issued(t, s, "service", "&scope=agents.call")
	scope := func(subject string) any { return payload(t, s.exchanged(t, "agent", subject))["scope"] }
	allow()
	testkit.Diff(t, "scope of the subject token", any("orders:read"), scope(all))
	checkRejection(t, s.send(t, s.direct(), exchangeOf("agent", one)), 400, "invalid_scope", "acme")
	allow("agents.call")
	testkit.Diff(t, "scope of the subject", any("orders:read"), scope(one))
	// The actor's own scopes count too.
	s.registry.SetClient(newClient(t, "acme", "agent", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes, c.DelegatedScopes = "agents", []string{orders}, []string{"stock"}, []string{"tools.call"}
	}))
	testkit.Diff(t, "scope of the actor", any("stock"), scope(one))
	// Delegated scopes are for exchanges only.
	checkRejection(t, s.send(t, s.direct(), request{query: grant + "&scope=tools.call", authorization: basic("agent", secret)}), 400, "invalid_scope", "acme")
}

// A token ends with everyone in it, and with each rule that allowed it.
func TestDelegatedTokensEnd(t *testing.T) {
	client := func(id string, change func(*registry.Client)) func(*testing.T, *server) {
		return func(_ *testing.T, s *server) {
			c := *s.registry.Realm("acme").Client(id)
			change(&c)
			s.registry.SetClient(&c)
		}
	}
	changeRule := func(i int, change func(*record.Exchange)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) {
			changed := rules()
			change(&changed[i])
			s.setDelegating(t, changed)
		}
	}
	const service, user, both = "service", "user", "service user"
	for name, tc := range map[string]struct {
		of     string
		change func(*testing.T, *server)
		keeps  bool
	}{
		"nothing":                    {of: both, change: func(*testing.T, *server) {}, keeps: true},
		"actor suspended":            {of: both, change: client("tool", func(c *registry.Client) { c.Disabled = true })},
		"earlier actor suspended":    {of: both, change: client("agent", func(c *registry.Client) { c.Disabled = true })},
		"subject suspended":          {of: service, change: client("service", func(c *registry.Client) { c.Disabled = true })},
		"subject expired":            {of: service, change: client("service", func(c *registry.Client) { c.ExpiresAt = now })},
		"subject revoked its tokens": {of: service, change: client("service", func(c *registry.Client) { c.TokensValidAfter = now.Add(time.Second) })},
		"earlier actor revoked":      {of: both, change: client("agent", func(c *registry.Client) { c.TokensValidAfter = now.Add(time.Second) })},
		"subject recreated":          {of: service, change: client("service", func(c *registry.Client) { c.UID, c.Identity = "new", "new" })},
		"earlier actor recreated":    {of: both, change: client("agent", func(c *registry.Client) { c.UID, c.Identity = "new", "new" })},
		"subject requires DPoP":      {of: service, change: client("service", func(c *registry.Client) { c.DPoP = true })},
		"actor left its namespace":   {of: both, change: client("tool", func(c *registry.Client) { c.Namespace = "other" })},
		"earlier actor left":         {of: both, change: client("agent", func(c *registry.Client) { c.Namespace = "other" })},
		"subject left its namespace": {of: service, change: client("service", func(c *registry.Client) { c.Namespace = "other" })},
		"realm suspended": {of: both, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Disabled = true })
		}},
		"tokens of the realm revoked": {of: both, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.TokensValidAfter = now.Add(time.Second) })
		}},
		"rule removed":              {of: both, change: func(t *testing.T, s *server) { s.setDelegating(t, slices.Delete(rules(), 1, 2)) }},
		"earlier rule removed":      {of: service, change: func(t *testing.T, s *server) { s.setDelegating(t, rules()[1:]) }},
		"rule of the user removed":  {of: user, change: func(t *testing.T, s *server) { s.setDelegating(t, slices.Delete(rules(), 3, 4)) }},
		"audience removed":          {of: both, change: changeRule(1, func(e *record.Exchange) { e.Audiences = []string{stock} })},
		"scope removed":             {of: both, change: changeRule(1, func(e *record.Exchange) { e.Scopes = nil })},
		"depth reduced":             {of: both, change: changeRule(1, func(e *record.Exchange) { e.MaxDepth = 1 })},
		"earlier rule narrowed":     {of: service, change: changeRule(0, func(e *record.Exchange) { e.Actors.ClientIDs = []string{"other"} })},
		"claims of the user's rule": {of: user, change: changeRule(3, func(e *record.Exchange) { e.Claims = map[string]string{"azp": "other"} })},
		"rule requires DPoP":        {of: both, change: changeRule(1, func(e *record.Exchange) { e.DPoP = true })},
		"subject denied":            {of: service, change: changeRule(1, func(e *record.Exchange) { e.DeniedSubjects = []string{"service"} })},
		"user denied":               {of: user, change: changeRule(3, func(e *record.Exchange) { e.DeniedSubjects = []string{"ext:corporate:alice%40example.com"} })},
		"other subject denied":      {of: both, change: changeRule(1, func(e *record.Exchange) { e.DeniedSubjects = []string{"other"} }), keeps: true},
		"rule shortens lifetimes":   {of: both, change: changeRule(1, func(e *record.Exchange) { e.TokenLifetimeSeconds = 1 }), keeps: true},
		"rules in another order":    {of: both, change: func(t *testing.T, s *server) { all := rules(); slices.Reverse(all); s.setDelegating(t, all) }, keeps: true},
		"issuer no longer trusted": {of: user, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers = r.Issuers[1:] })
		}},
		"issuer has another use": {of: user, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers[0].Subjects = false })
		}},
		"issuer requires a claim": {of: user, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers[0].RequiredClaims = map[string]string{"tenant": "t1"} })
		}},
		"issuer has one use left": {of: user, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers[0].Subjects, r.Issuers[0].IDJAG = false, true })
		}},
		"issuer has another key": {of: user, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers[0].Keys = nil })
		}, keeps: true},
		"issuer has another URL": {of: user, change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers[0].Issuer = "https://other.example" })
		}},
		"subject lost a scope it held": {of: service, change: client("service", func(c *registry.Client) { c.Scopes = nil }), keeps: true},
	} {
		for kind := range strings.FieldsSeq(tc.of) {
			t.Run(name+", "+kind, func(t *testing.T) {
				s := startDelegating(t)
				subject, kindOf := issued(t, s, "service", ""), accessTokenType
				if kind == user {
					subject, kindOf = userToken(t, nil, nil), jwtType
				}
				first := s.exchanged(t, "agent", subject, "subject_token_type", kindOf, "audience", tools, "scope", "orders:read")
				token := s.exchanged(t, "tool", first)
				checkDelegated(t, s, token, true)
				tc.change(t, s)
				checkDelegated(t, s, token, tc.keeps)
			})
		}
	}
}

// A token is only as new as the tokens from which it comes: an exchange doesn't save what a revocation is for.
func TestExchangesDoNotOutlastRevocations(t *testing.T) {
	key := keyIn(signingkey.Active, signingkey.ES256)
	older := func(token string) string {
		return jws(t, &key, members{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}, changed(payload(t, token), members{"iat": now.Unix() - 20}))
	}
	revoke := func(id string) func(*testing.T, *server) {
		return func(_ *testing.T, s *server) {
			c := *s.registry.Realm("acme").Client(id)
			c.TokensValidAfter = now.Add(-10 * time.Second)
			s.registry.SetClient(&c)
		}
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *server)
		keeps  bool
	}{
		"subject":       {change: revoke("service")},
		"earlier actor": {change: revoke("agent")},
		"latest actor":  {change: revoke("tool"), keeps: true}, // its own token is newer
		"realm": {change: func(t *testing.T, s *server) {
			s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.TokensValidAfter = now.Add(-10 * time.Second) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startDelegating(t)
			first := s.exchanged(t, "agent", older(issued(t, s, "service", "")), "audience", tools, "scope", "orders:read")
			token := s.exchanged(t, "tool", older(first))
			checkDelegated(t, s, token, true)
			tc.change(t, s)
			checkDelegated(t, s, token, tc.keeps)
		})
	}
}

// A token states one rule for each exchange. The realm signs no other, and doesn't accept one.
func TestRulesOfATokenMatchItsActors(t *testing.T) {
	s := startDelegating(t)
	key := keyIn(signingkey.Active, signingkey.ES256)
	everyone := rules()[:1]
	everyone[0].Actors, everyone[0].Subjects = record.ClientSelector{All: true}, &record.ClientSelector{All: true}
	s.setDelegating(t, everyone)
	claims := payload(t, s.exchanged(t, "agent", issued(t, s, "service", "")))
	rule, _ := claims["rule"].([]any)
	for name, rules := range map[string][]any{"one": rule, "none": {}, "three": slices.Repeat(rule, 3)} {
		t.Run(name, func(t *testing.T) {
			token := jws(t, &key, members{"alg": "ES256", "kid": key.ID, "typ": "at+jwt"}, changed(claims, members{"rule": rules}))
			checkDelegated(t, s, token, name == "one")
		})
	}
}

// The label of a namespace selects an actor only while its record says so.
func TestExchangeByNamespaceLabels(t *testing.T) {
	s := startDelegating(t)
	changed := rules()
	changed[0].Actors = record.ClientSelector{Labels: "digest"}
	s.setDelegating(t, changed)
	subject := issued(t, s, "service", "")
	testkit.Diff(t, "response without the label", invalidSubject, s.send(t, s.direct(), exchangeOf("agent", subject)).body)
	agent := *s.registry.Realm("acme").Client("agent")
	labeled := agent
	labeled.NamespaceSelectors = []string{"digest"}
	s.registry.SetClient(&labeled)
	token := s.exchanged(t, "agent", subject)
	checkDelegated(t, s, token, true)
	s.registry.SetClient(&agent)
	checkDelegated(t, s, token, false)
}

// APIs see tokens that act for a subject only if they expect them, and who the subject and the actor are.
func TestVerificationOfDelegatedTokens(t *testing.T) {
	s := startDelegating(t)
	plain := issued(t, s, "service", "")
	delegated := s.exchanged(t, "agent", userToken(t, nil, nil), "subject_token_type", jwtType)
	headers := func(got response) []string {
		return []string{strconv.Itoa(got.status), got.header.Get("X-Auth-Client-Id"), got.header.Get("X-Auth-Subject"), got.header.Get("X-Auth-Scope")}
	}
	bearer := func(token string) http.Header {
		return http.Header{"Authorization": {"Bearer " + token}, "X-Auth-Subject": {"admin"}}
	}
	testkit.Diff(t, "plain", []string{"200", "service", "service", "agents.call orders:read stock"}, headers(s.verify(t, "", bearer(plain))))
	testkit.Diff(t, "plain, delegated accepted", []string{"200", "service", "service", "agents.call orders:read stock"}, headers(s.verify(t, "delegated=true", bearer(plain))))
	testkit.Diff(t, "delegated", []string{"200", "agent", "ext:corporate:alice%40example.com", "orders:read tools.call"}, headers(s.verify(t, "delegated=true&audience="+url.QueryEscape(orders), bearer(delegated))))
	refused := s.verify(t, "", bearer(delegated))
	testkit.Diff(t, "delegated without the requirement", []string{"403", "", "", ""}, headers(refused))
	testkit.Diff(t, "challenge", `Bearer error="insufficient_scope"`, refused.header.Get("WWW-Authenticate"))
	testkit.Diff(t, "other value", 400, s.verify(t, "delegated=false", bearer(plain)).status)
	// The requirement works in the path too.
	got := s.send(t, s.direct(), request{method: http.MethodGet, path: requirePath("delegated=true"), header: bearer(delegated)})
	testkit.Diff(t, "in the path", 200, got.status)
}

// An exchange never removes a binding: if the subject token is bound, or its client or the rule requires DPoP, the new
// token is bound to a key of the actor.
func TestExchangeKeepsBindings(t *testing.T) {
	s := startDelegating(t)
	s.registry.SetClient(newClient(t, "acme", "careful", func(c *registry.Client) {
		c.Namespace, c.Audiences, c.Scopes, c.DPoP = "apps", []string{agents}, []string{"agents.call", "orders:read"}, true
	}))
	key := otherKey(t)
	prove := func(r request) request {
		r.header = r.header.Clone()
		r.header["Dpop"] = []string{proof{key: key}.sign(t)}
		return r
	}
	careful := accessToken(t, s.withProofs(t, "careful", proof{}.sign(t)))
	bearer := issued(t, s, "service", "")
	voluntary := accessToken(t, s.withProofs(t, "service", proof{}.sign(t)))
	bindUser := userToken(t, nil, members{"cnf": members{"x5t#S256": "a"}})
	for name, r := range map[string]request{
		"subject requires DPoP": exchangeOf("agent", careful),
		"bound subject token":   exchangeOf("agent", voluntary),
		"bound token of a user": exchangeOf("agent", bindUser, "subject_token_type", jwtType),
		"unbound, with a proof": exchangeOf("agent", bearer),
	} {
		t.Run(name, func(t *testing.T) {
			if name != "unbound, with a proof" {
				checkRejection(t, s.send(t, s.direct(), r), 400, "invalid_dpop_proof", "acme")
			}
			got := s.send(t, s.direct(), prove(r))
			expectStatus(t, "with a proof", 200, got)
			testkit.Diff(t, "cnf", any(map[string]any{"jkt": thumbprint(t, key)}), payload(t, accessToken(t, got))["cnf"])
			if !strings.Contains(got.body, `"token_type":"DPoP"`) {
				t.Errorf("body %s, want token_type DPoP", got.body)
			}
		})
	}
	changed := rules()
	changed[0].DPoP = true
	s.setDelegating(t, changed)
	checkRejection(t, s.send(t, s.direct(), exchangeOf("agent", bearer)), 400, "invalid_dpop_proof", "acme")
}

func TestIDJAG(t *testing.T) {
	s := startDelegating(t)
	got := s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, nil), ""))
	claims := payload(t, accessToken(t, got))
	delete(claims, "jti")
	testkit.Diff(t, "claims", map[string]any{
		"iss": acme, "sub": "ext:idp:alice", "sub_id": map[string]any{"format": "iss_sub", "iss": provider, "sub": "alice"},
		"client_id": "agent", "client_uid": "acme.agent", "aud": orders, "scope": "orders:read tools.call",
		"iat": float64(now.Unix()), "exp": float64(now.Unix() + 120),
		"rule": []any{map[string]any{"name": "jag", "digest": s.registry.Realm("acme").Rules()[4].Digest}},
	}, claims)
	checkDelegated(t, s, accessToken(t, got), true)
	// Like a refresh token, it can be presented again, and doesn't limit the lifetime.
	soon := idJAG(t, nil, members{"exp": now.Unix() + 5})
	for range 2 {
		got := s.send(t, s.direct(), byIDJAG("agent", soon, ""))
		testkit.Diff(t, "exp", any(float64(now.Unix()+120)), payload(t, accessToken(t, got))["exp"])
	}
	// Its token can be exchanged, and the client is then an actor in the chain.
	forTools := accessToken(t, s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, members{"resource": []string{tools}, "scope": "orders:read"}), "")))
	chained := payload(t, s.exchanged(t, "tool", forTools))
	testkit.Diff(t, "act", any(map[string]any{
		"iss": acme, "sub": "tool", "client_uid": "acme.tool", "act": map[string]any{"iss": acme, "sub": "agent", "client_uid": "acme.agent"},
	}), chained["act"])
	checkDelegated(t, s, s.exchanged(t, "tool", forTools), true)

	for name, tc := range map[string]struct {
		signer         string // defaults to that of the issuer
		header, claims members
		more           string
		actor          string
		want           string // scope of the token; empty if it is rejected
		wantError      string
	}{
		"requested scope":              {more: "&scope=orders:read", want: "orders:read"},
		"resource in the request":      {more: "&resource=" + url.QueryEscape(orders), want: "orders:read tools.call"},
		"scope of the ID-JAG":          {claims: members{"scope": "tools.call openid"}, want: "tools.call"},
		"no scope claim":               {claims: members{"scope": nil}, want: "orders:read tools.call"},
		"empty scope claim":            {claims: members{"scope": ""}, wantError: "invalid_scope"},
		"scope that it lacks":          {claims: members{"scope": "tools.call"}, more: "&scope=orders:read", wantError: "invalid_scope"},
		"scope that the rule lacks":    {claims: members{"scope": "stock"}, wantError: "invalid_scope"},
		"other resource requested":     {more: "&resource=" + url.QueryEscape(tools), wantError: "invalid_target"},
		"resource outside of the rule": {claims: members{"resource": stock}, wantError: "invalid_target"},
		"no resource":                  {claims: members{"resource": nil}, wantError: "invalid_grant"},
		"two resources":                {claims: members{"resource": []string{orders, tools}}, wantError: "invalid_grant"},
		"for another client":           {claims: members{"client_id": "tool"}, wantError: "invalid_grant"},
		"of another client":            {actor: "tool", wantError: "invalid_grant"},
		"no client_id":                 {claims: members{"client_id": nil}, wantError: "invalid_grant"},
		"no jti":                       {claims: members{"jti": nil}, wantError: "invalid_grant"},
		"no iat":                       {claims: members{"iat": nil}, wantError: "invalid_grant"},
		"no exp":                       {claims: members{"exp": nil}, wantError: "invalid_grant"},
		"no sub":                       {claims: members{"sub": nil}, wantError: "invalid_grant"},
		"expired":                      {claims: members{"exp": now.Unix()}, wantError: "invalid_grant"},
		"token endpoint as audience":   {claims: members{"aud": acme + "/oauth2/token"}, wantError: "invalid_grant"},
		"second audience":              {claims: members{"aud": []string{acme, "https://other.example"}}, wantError: "invalid_grant"},
		"tenant that is not pinned":    {claims: members{"tenant": "t1"}, wantError: "invalid_grant"},
		"issuer of subject tokens":     {signer: "github", claims: members{"iss": corporate}, wantError: "invalid_grant"},
		"issuer of clients":            {signer: "edge", claims: members{"iss": github}, wantError: "invalid_grant"},
		"unknown issuer":               {claims: members{"iss": "https://evil.example"}, wantError: "invalid_grant"},
		"without typ":                  {header: members{"typ": "JWT"}, wantError: "invalid_grant"},
		"unknown kid":                  {header: members{"kid": "x"}, wantError: "invalid_grant"},
		"binding to a certificate":     {claims: members{"cnf": members{"x5t#S256": "a"}}, wantError: "invalid_grant"},
		"bound, without a proof":       {claims: members{"cnf": members{"jkt": "a"}}, wantError: "invalid_grant"},
		"client outside of the rule":   {claims: members{"client_id": "stranger"}, actor: "stranger", wantError: "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			actor := "agent"
			if tc.actor != "" {
				actor = tc.actor
			}
			assertion := idJAG(t, tc.header, tc.claims)
			if tc.signer != "" {
				assertion = foreignToken(t, tc.signer, members{"sub": "alice", "client_id": "agent", "jti": "j1", "resource": orders, "scope": "orders:read"}, members{"typ": "oauth-id-jag+jwt"}, tc.claims)
			}
			got := s.send(t, s.direct(), byIDJAG(actor, assertion, tc.more))
			if tc.want == "" {
				checkRejection(t, got, 400, tc.wantError, "acme")
				return
			}
			testkit.Diff(t, "scope", any(tc.want), payload(t, accessToken(t, got))["scope"])
		})
	}
	// It selects and authenticates no client.
	checkRejection(t, s.send(t, s.direct(), byIDJAG("", idJAG(t, nil, nil), "")), 401, "invalid_client", "acme")
	checkRejection(t, s.send(t, s.direct(), byIDJAG("", idJAG(t, nil, nil), "&client_id=agent")), 401, "invalid_client", "acme")
	checkRejection(t, s.send(t, s.direct(), elsewhere(byAssertion(idJAG(t, nil, nil), "&client_id=agent"))), 401, "invalid_client", "acme")
	// A binding needs this very key.
	key := otherKey(t)
	bound := byIDJAG("agent", idJAG(t, nil, members{"cnf": members{"jkt": thumbprint(t, key)}}), "")
	bound.header = bound.header.Clone()
	bound.header["Dpop"] = []string{proof{}.sign(t)}
	checkRejection(t, s.send(t, s.direct(), bound), 400, "invalid_grant", "acme")
	bound.header["Dpop"] = []string{proof{key: key}.sign(t)}
	testkit.Diff(t, "cnf", any(map[string]any{"jkt": thumbprint(t, key)}), payload(t, accessToken(t, s.send(t, s.direct(), bound)))["cnf"])
	// A rule is for subject tokens or for ID-JAGs, even if the issuer has both uses.
	s.setDelegating(t, rules(), func(r *registry.RealmSettings) {
		r.Issuers[0].IDJAG, r.Issuers[1].Subjects = true, true
	})
	both := foreignToken(t, "github", members{"iss": corporate, "sub": "alice", "azp": "portal", "client_id": "agent", "jti": "j1", "resource": orders}, members{"typ": "oauth-id-jag+jwt"}, nil)
	checkRejection(t, s.send(t, s.direct(), byIDJAG("agent", both, "")), 400, "invalid_grant", "acme")
	subject := foreignToken(t, "second", members{"iss": provider, "sub": "alice", "azp": "portal"}, nil, nil)
	testkit.Diff(t, "response to a subject token", invalidSubject, s.send(t, s.direct(), exchangeOf("agent", subject, "subject_token_type", jwtType)).body)
	// The issuer needs the use, even with a rule.
	changed := rules()
	changed[4].Issuer = "corporate"
	s.setDelegating(t, changed)
	checkRejection(t, s.send(t, s.direct(), byIDJAG("agent", both, "")), 400, "invalid_grant", "acme")
	// A tenant that the realm requires of the issuer is fine.
	s.setDelegating(t, rules(), func(r *registry.RealmSettings) { r.Issuers[1].RequiredClaims = map[string]string{"tenant": "t1"} })
	expectStatus(t, "pinned tenant", 200, s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, members{"tenant": "t1"}), "")))
	checkRejection(t, s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, members{"tenant": "t2"}), "")), 400, "invalid_grant", "acme")
}

// A JWT-SVID authenticates the client that lists its subject. Its issuer is the trust domain, regardless of "iss".
func TestSVIDAssertions(t *testing.T) {
	s := startFederated(t, behindProxy)
	svid := func(signer string, claims members) string {
		return foreignToken(t, signer, members{"sub": domain + "/billing"}, nil, claims)
	}
	send := func(token, more string) response {
		r := byAssertion(token, more)
		r.body = strings.Replace(r.body, "jwt-bearer", "jwt-spiffe", 1)
		return s.send(t, s.direct(), elsewhere(r))
	}
	for name, tc := range map[string]struct {
		token, more string
		want        bool
		wantStatus  int
	}{
		"without iss":                {token: svid("spiffe", nil), want: true},
		"iss of the trust domain":    {token: svid("spiffe", members{"iss": domain}), want: true},
		"HTTPS URL as iss":           {token: svid("spiffe", members{"iss": "https://oidc.example.org"}), want: true},
		"iss of another issuer":      {token: svid("spiffe", members{"iss": github}), want: true},
		"client_id":                  {token: svid("spiffe", nil), more: "&client_id=svid", want: true},
		"other client_id":            {token: svid("spiffe", nil), more: "&client_id=deploy"},
		"unknown client_id":          {token: svid("spiffe", nil), more: "&client_id=" + canary},
		"key of another issuer":      {token: svid("github", members{"iss": github})},
		"HTTPS issuer":               {token: githubToken(t, nil, nil)},
		"other trust domain":         {token: svid("spiffe", members{"sub": "spiffe://example.com/billing"})},
		"longer trust domain":        {token: svid("spiffe", members{"sub": domain + ".evil/billing"})},
		"trust domain without path":  {token: svid("spiffe", members{"sub": domain})},
		"other audience":             {token: svid("spiffe", members{"aud": "https://other.example"})},
		"two audiences":              {token: svid("spiffe", members{"aud": []string{acme, "https://other.example"}})},
		"no exp":                     {token: svid("spiffe", members{"exp": nil})},
		"expired":                    {token: svid("spiffe", members{"exp": now.Unix()})},
		"subject without a holder":   {token: svid("spiffe", members{"sub": domain + "/other"}), wantStatus: 400},
		"self-signed client's token": {token: assertion(t, signingkey.ES256, nil, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // it may be used again
				got := send(tc.token, tc.more)
				switch {
				case tc.want:
					testkit.Diff(t, "client", "svid", clientIn(t, got))
				case tc.wantStatus != 0:
					checkRejection(t, got, tc.wantStatus, "invalid_request", "acme")
				default:
					checkRejection(t, got, 401, "invalid_client", "acme")
				}
			}
		})
	}
}

// A JWT-SVID must be for the realm's issuer, even if the realm trusts its trust domain with another audience, alone or
// in a second entry.
func TestSVIDAssertionsNeedTheIssuerAsAudience(t *testing.T) {
	key := foreignKeys()["spiffe"]
	entry := func(name, audience string) registry.Issuer {
		return registry.Issuer{Authenticates: true, Name: name, Issuer: domain, Audience: audience, Keys: []signingkey.PublicKey{key.Public()}}
	}
	for name, issuers := range map[string][]registry.Issuer{
		"other audience":             {entry("spire-west", west)},
		"second entry":               {entry("spire", acme), entry("spire-west", west)},
		"second entry, listed first": {entry("spire-west", west), entry("spire", acme)},
	} {
		t.Run(name, func(t *testing.T) {
			s := startFederated(t, behindProxy)
			s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) { r.Issuers = issuers }))
			s.registry.SetClient(newClient(t, "acme", "svid", func(c *registry.Client) {
				c.Identities = []registry.Identity{{ID: "w", IssuerName: "spire-west", Issuer: domain, Subject: domain + "/billing"}}
			}))
			r := byAssertion(foreignToken(t, "spiffe", members{"sub": domain + "/billing", "aud": west}, nil, nil), "&client_id=svid")
			expectStatus(t, "as any JWT", 200, s.send(t, s.direct(), elsewhere(r)))
			r.body = strings.Replace(r.body, "jwt-bearer", "jwt-spiffe", 1)
			checkRejection(t, s.send(t, s.direct(), elsewhere(r)), 401, "invalid_client", "acme")
		})
	}
}

func TestExchangesAreAuditedAndCounted(t *testing.T) {
	option, lines := audited(t)
	s := startDelegating(t, option)
	client := s.direct()
	first := s.exchanged(t, "agent", issued(t, s, "service", ""), "audience", tools, "scope", "orders:read")
	s.exchanged(t, "tool", first)
	s.send(t, client, exchangeOf("last", first, "audience", stock))
	s.send(t, client, exchangeOf("agent", canary))
	s.send(t, client, byIDJAG("agent", idJAG(t, nil, nil), ""))
	s.send(t, client, byIDJAG("agent", idJAG(t, members{"kid": "x"}, nil), ""))
	s.send(t, client, exchangeOf("agent", userToken(t, nil, members{"sub": "mallory"}), "subject_token_type", jwtType))
	var got []string
	for _, line := range lines() {
		var e struct {
			ClientID   string   `json:"clientId"`
			Outcome    string   `json:"outcome"`
			Reason     string   `json:"reason"`
			OnBehalfOf string   `json:"onBehalfOf"`
			Actors     []string `json:"actors"`
			Rule       string   `json:"rule"`
		}
		testkit.Do(t, json.Unmarshal([]byte(line), &e))
		got = append(got, strings.Join([]string{e.ClientID, e.Outcome, e.Reason, e.OnBehalfOf, strings.Join(e.Actors, ","), e.Rule}, " "))
		if strings.Contains(line, canary) {
			t.Errorf("the audit log contains a token: %s", line)
		}
	}
	testkit.Diff(t, "audit events", []string{
		"service granted    ", "agent granted  service  agents", "tool granted  service agent tools",
		"last refused exchange_not_allowed service agent ", "agent refused wrong_subject_token   ",
		"agent granted  ext:idp:alice  jag", "agent refused unknown_key   ", "agent refused exchange_not_allowed ext:corporate:mallory  ",
	}, got)
	want := `
# HELP realmkeeper_exchanges_total Token exchanges and ID-JAGs of authenticated clients by realm, rule and result. The rule is empty unless the result is "issued". The result is "issued", the reason in the audit log, or an OAuth 2.0 error code.
# TYPE realmkeeper_exchanges_total counter
realmkeeper_exchanges_total{realm="acme",result="exchange_not_allowed",rule=""} 2
realmkeeper_exchanges_total{realm="acme",result="issued",rule="agents"} 1
realmkeeper_exchanges_total{realm="acme",result="issued",rule="jag"} 1
realmkeeper_exchanges_total{realm="acme",result="issued",rule="tools"} 1
realmkeeper_exchanges_total{realm="acme",result="unknown_key",rule=""} 1
realmkeeper_exchanges_total{realm="acme",result="wrong_subject_token",rule=""} 1
`
	testkit.Do(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(want), "realmkeeper_exchanges_total"))
}

// A client that presents bad subject tokens in a loop is limited, and its good ones still work.
func TestSubjectTokenFailuresAreLimited(t *testing.T) {
	for name, own := range map[string]bool{"no token": false, "its own token": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := startDelegating(t)
				good, subject := issued(t, s, "service", ""), "x"
				if own {
					subject = issued(t, s, "agent", "")
				}
				bad := exchangeOf("agent", subject)
				var last response
				for range 21 {
					last = s.send(t, s.direct(), bad)
				}
				checkTooMany(t, last, "3", tooManyFailures)
				r := exchangeOf("agent", good)
				r.header = bad.header
				expectStatus(t, "good subject token", 200, s.send(t, s.direct(), r))
			})
		})
	}
}

// The metadata lists what the realm is configured for.
func TestMetadataOfDelegation(t *testing.T) {
	s := startDelegating(t)
	lists := func(name string) any {
		var metadata map[string]any
		testkit.Do(t, json.Unmarshal(s.registry.Realm("acme").Metadata, &metadata))
		return metadata[name]
	}
	testkit.Diff(t, "grant types", any([]any{"client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"}), lists("grant_types_supported"))
	testkit.Diff(t, "profiles", any([]any{"urn:ietf:params:oauth:grant-profile:id-jag"}), lists("authorization_grant_profiles_supported"))
	testkit.Diff(t, "methods", any([]any{"client_secret_basic", "client_secret_post", "private_key_jwt", "spiffe_jwt"}), lists("token_endpoint_auth_methods_supported"))
	s.setDelegating(t, nil, func(r *registry.RealmSettings) { r.Issuers = nil })
	testkit.Diff(t, "grant types without rules", any([]any{"client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"}), lists("grant_types_supported"))
	testkit.Diff(t, "profiles without issuers", any(nil), lists("authorization_grant_profiles_supported"))
	testkit.Diff(t, "methods without issuers", any([]any{"client_secret_basic", "client_secret_post", "private_key_jwt"}), lists("token_endpoint_auth_methods_supported"))
}
