package tokenserver_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// secondSecret is another secret of the client "naive".
const secondSecret = "rk_the-second-secret-of-a-client"

// naive is a token request of the client "naive", which requests a token for each call of an API.
func naive(more string) request {
	return elsewhere(request{query: grant + more, authorization: basic("naive", secret)})
}

// setNaive adds or changes the client "naive".
func (s *server) setNaive(t testing.TB, changes ...func(*registry.Client)) {
	t.Helper()
	s.registry.SetClient(newClient(t, "acme", "naive", func(c *registry.Client) {
		c.Secrets = append(c.Secrets, credentials(t, secondSecret, now.Add(200*time.Millisecond))...)
		c.Secrets[0].ID, c.Secrets[1].ID = "first", "second"
		key := keyIn(signingkey.Active, signingkey.EdDSA)
		c.PublicKeys = []signingkey.PublicKey{key.Public()}
		c.Scopes, c.Claims, c.StatusIndex = []string{"orders:read", "stock"}, []byte(`,"tenant":"a"`), &record.StatusIndex{Index: 4}
		for _, change := range changes {
			change(c)
		}
	}))
}

// rememberingServers are token servers with the same realm and clients and a common clock.
type rememberingServers struct {
	remembering, forgetful *server
	at                     time.Time
}

// startRemembering runs a token server, and one that signs and verifies every token.
func startRemembering(t testing.TB) *rememberingServers {
	t.Helper()
	both := &rememberingServers{at: now}
	clock := func(o *tokenserver.Options) { o.Now = func() time.Time { return both.at } }
	both.remembering = startLoaded(t, behindProxy, clock)
	both.forgetful = startLoaded(t, behindProxy, clock, func(o *tokenserver.Options) { o.SignAndVerifyAlways = true })
	both.change(func(s *server) {
		s.setAcme(t)
		s.setNaive(t)
	})
	return both
}

func (b *rememberingServers) change(change func(*server)) {
	change(b.remembering)
	change(b.forgetful)
}

// setAcme adds or changes the realm "acme" with status lists.
func (s *server) setAcme(t testing.TB, changes ...func(*registry.RealmSettings)) {
	t.Helper()
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.StatusLists = lists()
		for _, change := range changes {
			change(r)
		}
	}))
}

// A token of this second is issued again only if a new one would differ in nothing but "jti", and if no record has
// changed. All checks are the same as for a new token.
func TestTokenOfThisSecond(t *testing.T) {
	client := func(change func(*registry.Client)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) { s.setNaive(t, change) }
	}
	realm := func(changes ...func(*registry.RealmSettings)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) { s.setAcme(t, changes...) }
	}
	second := now.Truncate(time.Second)
	for name, tc := range map[string]struct {
		change func(*testing.T, *server)
		later  time.Duration
		before string  // more parameters of the first request
		then   request // defaults to the first request
		same   bool
		want   int // defaults to 200
	}{
		"nothing changed":                {same: true},
		"later in this second":           {later: 400 * time.Millisecond, same: true},
		"earlier in this second":         {later: -400 * time.Millisecond, same: true},
		"parameters in the body":         {then: request{body: grant, authorization: basic("naive", secret)}, same: true},
		"all scopes by name":             {then: naive("&scope=stock+orders:read"), same: true},
		"all audiences by name":          {then: naive("&audience=" + stock + "+" + orders), same: true},
		"the same scope again":           {before: "&scope=stock", then: naive("&scope=stock"), same: true},
		"a change of another client":     {change: func(t *testing.T, s *server) { s.registry.SetClient(newClient(t, "acme", "billing", nil)) }, same: true},
		"the same token of another form": {then: request{body: grant + "&client_id=naive&client_secret=" + secret}, same: true},

		"the next second":    {later: 500 * time.Millisecond},
		"the clock set back": {later: -600 * time.Millisecond},
		"one scope":          {then: naive("&scope=stock")},
		"all scopes":         {before: "&scope=stock"},
		"another scope":      {before: "&scope=orders:read", then: naive("&scope=stock")},
		"one audience":       {then: naive("&audience=" + stock)},
		"another audience":   {before: "&audience=" + orders, then: naive("&resource=" + stock)},
		"another secret":     {then: request{query: grant, authorization: basic("naive", secondSecret)}},
		"an assertion":       {then: byAssertion(assertion(t, signingkey.EdDSA, nil, members{"iss": "naive", "sub": "naive"}), "")},
		"another client":     {then: request{query: grant, authorization: basic("billing", secret)}},

		"the record of the client written again": {change: client(func(*registry.Client) {})},
		"shorter lifetime of the client":         {change: client(func(c *registry.Client) { c.TokenLifetime = time.Minute })},
		"claims":                                 {change: client(func(c *registry.Client) { c.Claims = []byte(`,"tenant":"b"`) })},
		"status index":                           {change: client(func(c *registry.Client) { c.StatusIndex = &record.StatusIndex{Index: 5} })},
		"no status index":                        {change: client(func(c *registry.Client) { c.StatusIndex = nil })},
		"tokens revoked in this second":          {change: client(func(c *registry.Client) { c.TokensValidAfter = second })},
		"limit":                                  {change: client(func(c *registry.Client) { c.TokensPerSecond = 10 })},
		"restored client":                        {change: client(func(c *registry.Client) { c.Identity = "another" })},
		"recreated client":                       {change: client(func(c *registry.Client) { c.UID, c.Identity = "another", "another" })},
		"fewer scopes":                           {change: client(func(c *registry.Client) { c.Scopes = c.Scopes[:1] })},
		"fewer audiences":                        {change: client(func(c *registry.Client) { c.Audiences = c.Audiences[:1] })},

		"the record of the realm written again": {change: realm()},
		"issuer":                                {change: realm(func(r *registry.RealmSettings) { r.Issuer += "2" })},
		"shorter lifetime of the realm":         {change: realm(func(r *registry.RealmSettings) { r.TokenLifetime = time.Minute })},
		"another status list":                   {change: realm(func(r *registry.RealmSettings) { r.StatusLists.Number = 8 })},
		"no status lists":                       {change: realm(func(r *registry.RealmSettings) { r.StatusLists = nil })},
		"all tokens revoked in this second":     {change: realm(func(r *registry.RealmSettings) { r.TokensValidAfter = second })},
		"rotation": {change: realm(func(r *registry.RealmSettings) {
			r.Keys = []signingkey.Key{keyIn(signingkey.Active, signingkey.EdDSA), keyIn(signingkey.Retiring, signingkey.ES256)}
		})},
		"key withdrawn": {change: realm(withKeys(signingkey.EdDSA))},
		"key opened late": {change: func(t *testing.T, s *server) {
			s.setAcme(t, func(r *registry.RealmSettings) {
				active := keyIn(signingkey.Active, signingkey.ES256)
				r.Keys = []signingkey.Key{active.Seal(signingkey.Sealed{RealmUID: r.UID, KeyID: "1"})}
			})
			expectStatus(t, "sealed", http.StatusServiceUnavailable, s.send(t, s.direct(), naive("")))
			opened := keyIn(signingkey.Active, signingkey.ES256)
			s.registry.Realm("acme").SignWith(&opened)
		}},
		"key opened again": {change: func(_ *testing.T, s *server) {
			opened := keyIn(signingkey.Active, signingkey.ES256)
			s.registry.Realm("acme").SignWith(&opened)
		}},

		"suspended client":            {change: client(func(c *registry.Client) { c.Disabled = true }), want: 401},
		"expired client":              {change: client(func(c *registry.Client) { c.ExpiresAt = now }), want: 401},
		"deleted client":              {change: func(_ *testing.T, s *server) { s.registry.Remove("acme.naive") }, want: 401},
		"revoked secret":              {change: client(func(c *registry.Client) { c.Secrets = c.Secrets[1:] }), want: 401},
		"wrong secret":                {then: request{query: grant, authorization: basic("naive", "wrong")}, want: 401},
		"secret that expired":         {later: 200 * time.Millisecond, then: request{query: grant, authorization: basic("naive", secondSecret)}, want: 401},
		"lost scope":                  {before: "&scope=stock", change: client(func(c *registry.Client) { c.Scopes = c.Scopes[:1] }), then: naive("&scope=stock"), want: 400},
		"lost audience":               {before: "&audience=" + stock, change: client(func(c *registry.Client) { c.Audiences = c.Audiences[:1] }), then: naive("&audience=" + stock), want: 400},
		"tokens revoked from then on": {change: client(func(c *registry.Client) { c.TokensValidAfter = second.Add(time.Second) }), want: 503},
		"DPoP required":               {change: client(func(c *registry.Client) { c.DPoP = true }), want: 400},
		"suspended realm":             {change: realm(func(r *registry.RealmSettings) { r.Disabled = true }), want: 401},
		"deleted realm":               {change: func(_ *testing.T, s *server) { s.registry.Remove("realm-acme") }, want: 404},
		"all revoked from then on":    {change: realm(func(r *registry.RealmSettings) { r.TokensValidAfter = second.Add(time.Second) }), want: 503},
		"no active key": {change: realm(func(r *registry.RealmSettings) {
			r.Keys = []signingkey.Key{keyIn(signingkey.Pending, signingkey.ES256)}
		}), want: 503},
	} {
		t.Run(name, func(t *testing.T) {
			both := startRemembering(t)
			first := accessToken(t, both.remembering.send(t, both.remembering.direct(), naive(tc.before)))
			if tc.change != nil {
				both.change(func(s *server) { tc.change(t, s) })
			}
			both.at = both.at.Add(tc.later)
			then := tc.then
			if then.authorization == "" && then.body == "" {
				then = naive("")
			}
			got, want := both.remembering.send(t, both.remembering.direct(), elsewhere(then)), both.forgetful.send(t, both.forgetful.direct(), elsewhere(then))
			if tc.want != 0 {
				expectStatus(t, "the next request", tc.want, got)
				testkit.Diff(t, "response", want.body, got.body)
				return
			}
			if second := accessToken(t, got); (second == first) != tc.same {
				t.Errorf("the client got the same token: %t, want %t", second == first, tc.same)
			}
			testkit.Diff(t, "claims of a new token", payload(t, accessToken(t, want)), payload(t, accessToken(t, got)), cmpopts.IgnoreMapEntries(func(name string, _ any) bool { return name == "jti" }))
			testkit.Diff(t, "rest of the response", withoutToken(t, want), withoutToken(t, got))
		})
	}
}

// withoutToken returns the members of a successful response but the token.
func withoutToken(t testing.TB, got response) success {
	t.Helper()
	var decoded success
	testkit.Do(t, json.Unmarshal([]byte(got.body), &decoded))
	decoded.AccessToken = ""
	return decoded
}

// A client or a secret can expire within a second.
func TestExpirationWithinASecond(t *testing.T) {
	both := startRemembering(t)
	s := both.remembering
	s.setNaive(t, func(c *registry.Client) { c.ExpiresAt = now.Add(300 * time.Millisecond) })
	bySecond := request{query: grant, authorization: basic("naive", secondSecret)}
	first := accessToken(t, s.send(t, s.direct(), bySecond))
	both.at = now.Add(199 * time.Millisecond)
	testkit.Diff(t, "token", first, accessToken(t, s.send(t, s.direct(), bySecond)))
	both.at = now.Add(200 * time.Millisecond)
	expectStatus(t, "expired secret", 401, s.send(t, s.direct(), bySecond))
	first = accessToken(t, s.send(t, s.direct(), naive("")))
	both.at = now.Add(299 * time.Millisecond)
	testkit.Diff(t, "token", first, accessToken(t, s.send(t, s.direct(), naive(""))))
	both.at = now.Add(300 * time.Millisecond)
	expectStatus(t, "expired client", 401, s.send(t, s.direct(), naive("")))
}

// The same tokens count as often as they are issued.
func TestReusedTokensCount(t *testing.T) {
	both := startRemembering(t)
	s := both.remembering
	for name, limit := range map[string]func(){
		"of the client": func() { s.setNaive(t, func(c *registry.Client) { c.TokensPerSecond = 3 }) },
		"of the realm":  func() { s.setAcme(t, func(r *registry.RealmSettings) { r.TokensPerSecond = 3 }) },
	} {
		limit()
		both.at = both.at.Add(time.Minute)
		tokens := map[string]bool{}
		for range 3 {
			tokens[accessToken(t, s.send(t, s.direct(), naive("")))] = true
		}
		expectStatus(t, "beyond the limit "+name, 429, s.send(t, s.direct(), naive("")))
		testkit.Diff(t, "tokens", 1, len(tokens))
		s.setNaive(t)
	}
}

// Tokens that are bound to a key or act for another subject are always new, and aren't mixed up with others.
func TestBoundAndDelegatedTokensAreNew(t *testing.T) {
	s := startDelegating(t)
	subject := issued(t, s, "service", "")
	ofPerson := userToken(t, nil, nil)
	for name, request := range map[string]func() response{
		"bound":    func() response { return s.withProofs(t, "billing", proof{}.sign(t)) },
		"exchange": func() response { return s.send(t, s.direct(), exchangeOf("agent", subject)) },
		"exchange of a token of an issuer": func() response {
			return s.send(t, s.direct(), exchangeOf("agent", ofPerson, "subject_token_type", jwtType))
		},
		"ID-JAG": func() response { return s.send(t, s.direct(), byIDJAG("agent", idJAG(t, nil, nil), "")) },
	} {
		tokens := map[string]bool{}
		for range 3 {
			tokens[accessToken(t, request())] = true
		}
		testkit.Diff(t, name+": different tokens", 3, len(tokens))
	}
	for _, id := range []string{"billing", "agent"} {
		own := issued(t, s, id, "")
		if claims := payload(t, own); claims["cnf"] != nil || claims["act"] != nil || claims["sub"] != id {
			t.Errorf("%s: the token without a proof or an exchange has the claims %v", id, claims)
		}
		testkit.Diff(t, id+": the same token", own, issued(t, s, id, ""))
	}
}

// A token over 4 KiB isn't kept.
func TestLargeTokensAreNew(t *testing.T) {
	s := startLoaded(t)
	for size, same := range map[int]bool{2 << 10: true, 4 << 10: false} {
		s.setNaive(t, func(c *registry.Client) { c.Claims = []byte(`,"text":"` + strings.Repeat("x", size*3/4) + `"`) })
		first := issued(t, s, "naive", "")
		testkit.Diff(t, "same token", same, issued(t, s, "naive", "") == first)
	}
}

// Each use of a token has its audit event.
func TestReusedTokensAreAudited(t *testing.T) {
	withAudit, lines := audited(t)
	s := startLoaded(t, withAudit)
	s.setNaive(t)
	for _, r := range []request{naive(""), naive(""), {query: grant, authorization: basic("naive", secondSecret)}, naive("&scope=stock")} {
		r.header = nil
		expectStatus(t, "request", 200, s.send(t, s.direct(), r))
	}
	type entry struct {
		SecretID string
		Token    int // a number for each "jti"
		Reused   bool
	}
	var got []entry
	numbers := map[string]int{}
	for _, line := range lines() {
		var e audit.Event
		testkit.Do(t, json.Unmarshal([]byte(line), &e))
		if numbers[e.TokenID] == 0 {
			numbers[e.TokenID] = len(numbers) + 1
		}
		got = append(got, entry{e.SecretID, numbers[e.TokenID], e.Reused})
		testkit.Diff(t, "members", audit.Event{
			Time: now, Action: audit.ActionToken, Outcome: audit.Granted, Realm: "acme", ClientID: "naive", ClientUID: "acme.naive",
			SecretID: e.SecretID, Source: e.Source, TokenID: e.TokenID, Reused: e.Reused,
		}, e, cmpopts.EquateComparable(netip.Addr{}))
	}
	testkit.Diff(t, "events", []entry{{"first", 1, false}, {"first", 1, true}, {"second", 2, false}, {"first", 3, false}}, got)
}

// A client, a realm, or a key that is replaced or deleted doesn't stay in memory because of a token.
func TestTokensKeepNothingInMemory(t *testing.T) {
	s := startLoaded(t)
	s.setNaive(t)
	held := func() map[string]func() bool {
		realm := s.registry.Realm("acme")
		client, key, version := weak.Make(realm.Client("naive")), weak.Make(realm.Signer()), weak.Make(realm)
		return map[string]func() bool{
			"client": func() bool { return client.Value() != nil },
			"key":    func() bool { return key.Value() != nil },
			"realm":  func() bool { return version.Value() != nil },
		}
	}()
	issued(t, s, "naive", "")
	last := s.registry.Realm("acme").Client("naive").LastToken() // as the server holds it
	s.registry.SetRealm(newRealm(t, "acme", nil))
	runtime.GC()
	testkit.Diff(t, "in memory after the realm was replaced", map[string]bool{"client": true, "key": false, "realm": false}, evaluate(held))
	s.registry.Remove("acme.naive")
	runtime.GC()
	testkit.Diff(t, "in memory after the client was deleted", map[string]bool{"client": false, "key": false, "realm": false}, evaluate(held))
	runtime.KeepAlive(last)
}

func evaluate(all map[string]func() bool) map[string]bool {
	values := map[string]bool{}
	for name, f := range all {
		values[name] = f()
	}
	return values
}

// A token is issued again only to what authenticated with the same credential, also if IDs are the same.
func TestTokensOfOtherCredentials(t *testing.T) {
	s := startFederated(t)
	key := keyIn(signingkey.Active, signingkey.EdDSA)
	s.registry.SetClient(newClient(t, "acme", "several", func(c *registry.Client) {
		c.PublicKeys, c.Secrets[0].ID = []signingkey.PublicKey{key.Public()}, key.ID
		c.Identities = []registry.Identity{
			{IssuerName: "github", Issuer: github, Claims: map[string]string{"repository": "acme/shop"}},
			{IssuerName: "spire", Issuer: domain, Subject: domain + "/billing"},
		}
	}))
	own := func() request {
		return byAssertion(assertion(t, signingkey.EdDSA, nil, members{"iss": "several", "sub": "several"}), "")
	}
	from := func(token string) func() request {
		return func() request { return byAssertion(token, "&client_id=several") }
	}
	credentials := map[string]func() request{
		"secret":                     func() request { return request{query: grant, authorization: basic("several", secret)} },
		"key with its ID":            own,
		"workflow":                   from(githubToken(t, nil, nil)),
		"workflow of another branch": from(githubToken(t, nil, members{"sub": workflow + "2"})),
		"workflow, another key":      from(foreignToken(t, "second", members{"iss": github, "sub": workflow, "repository": "acme/shop", "repository_owner_id": "4711"}, nil, nil)),
		"workload of SPIRE":          from(foreignToken(t, "spiffe", members{"iss": domain, "sub": domain + "/billing"}, nil, nil)),
	}
	for name, before := range credentials {
		for next, after := range credentials { // each directly after each, because a client has one last token
			first := accessToken(t, s.send(t, s.direct(), elsewhere(before())))
			second := accessToken(t, s.send(t, s.direct(), elsewhere(after())))
			testkit.Diff(t, next+" gets the token of "+name, next == name, second == first)
		}
	}
}
