package tokenserver_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	tokenjws "github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	github   = "https://token.actions.githubusercontent.com"
	workflow = "repo:acme/shop:environment:production"
	domain   = "spiffe://example.org"
	account  = "system:serviceaccount:apps:billing"

	jwtBearer = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
)

// foreignKeys returns the keys of the issuers. The foreign cluster has the issuer and the key ID of
// the local cluster, whose key is an RSA key.
var foreignKeys = sync.OnceValue(func() map[string]signingkey.Key {
	all := map[string]signingkey.Key{}
	for name, id := range map[string]string{"github": "gh1", "second": "gh2", "edge": keys()[signingkey.RS256].ID, "spiffe": "sp1", "attacker": "gh1"} {
		key, err := signingkey.Generate(signingkey.ES256, now, rand.Reader)
		if err != nil {
			panic(err)
		}
		key.ID = id
		all[name] = key
	}
	return all
})

// foreignToken returns a valid token of an issuer, except for the given changes.
func foreignToken(t testing.TB, signer string, defaults, header, claims members) string {
	t.Helper()
	key := foreignKeys()[signer]
	return jws(t, &key, changed(members{"alg": "ES256", "kid": key.ID, "typ": "JWT"}, header), changed(changed(members{
		"aud": acme, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}, defaults), claims))
}

// githubToken returns a token for a workflow, as GitHub Actions issues it.
func githubToken(t testing.TB, header, claims members) string {
	t.Helper()
	return foreignToken(t, "github", members{
		"iss": github, "sub": workflow, "jti": "a1", "nbf": now.Add(-10 * time.Minute).Unix(),
		"repository": "acme/shop", "repository_owner_id": "4711", "environment": "production", "run_attempt": "1",
	}, header, claims)
}

// edgeToken returns a token for a Pod of another cluster with the same issuer.
func edgeToken(t testing.TB, header, claims members) string {
	t.Helper()
	return foreignToken(t, "edge", changed(accountClaims("apps", "billing", "edge-uid"), members{"iss": clusterIssuer}), header, claims)
}

// west is the audience of a cluster with the same issuer URL as the edge cluster.
const west = "https://west.example.com"

// westToken returns a token that the key of the signer signed for a Pod of the west cluster.
func westToken(t testing.TB, signer string, claims members) string {
	t.Helper()
	return foreignToken(t, signer, changed(accountClaims("apps", "billing", "west-uid"), members{"iss": clusterIssuer, "aud": west}), nil, claims)
}

// startFederated runs a token server whose realm trusts GitHub, another cluster, and a SPIFFE trust
// domain.
func startFederated(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	local := keys()[signingkey.RS256]
	s := startLoaded(t, append([]func(*tokenserver.Options){func(o *tokenserver.Options) { o.Cluster = clusterOf{&local} }}, options...)...)
	public := func(names ...string) (public []signingkey.PublicKey) {
		for _, name := range names {
			key := foreignKeys()[name]
			public = append(public, key.Public())
		}
		return public
	}
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.Issuers = []registry.Issuer{
			{Authenticates: true, Name: "github", Issuer: github, Audience: acme, RequiredClaims: map[string]string{"repository_owner_id": "4711"}, Keys: public("github", "second")},
			{Authenticates: true, Name: "edge-cluster", Issuer: clusterIssuer, Audience: acme, Keys: public("edge")},
			{Authenticates: true, Name: "west-cluster", Issuer: clusterIssuer, Audience: west, Keys: public("second")},
			{Authenticates: true, Name: "spire", Issuer: domain, Audience: acme, Keys: public("spiffe")},
		}
	}))
	s.registry.SetRealm(newRealm(t, "frozen", func(r *registry.RealmSettings) {
		r.Disabled = true
		r.Issuers = []registry.Issuer{{Authenticates: true, Name: "github", Issuer: github, Audience: acme, Keys: public("github")}}
	}))
	add := func(realm, id string, identities ...registry.Identity) {
		s.registry.SetClient(newClient(t, realm, id, func(c *registry.Client) {
			c.Secrets, c.Identities, c.Scopes = nil, identities, []string{"stock"}
		}))
	}
	names := map[string]string{github: "github", clusterIssuer: "edge-cluster", "kubernetes": "kubernetes", domain: "spire"}
	hold := func(issuer, subject, id string) {
		s.registry.SetSubject(&registry.Subject{
			Record: issuer + " " + subject, RealmUID: "uid-acme", IssuerName: names[issuer], Issuer: issuer, Subject: subject, ClientID: id, ClientUID: "acme." + id,
		})
	}
	deploys := registry.Identity{IssuerName: "github", Issuer: github, Subject: workflow}
	add("acme", "deploy", registry.Identity{IssuerName: "github", Issuer: github, Subject: "repo:acme/other:ref:refs/heads/main"}, deploys)
	add("acme", "again", deploys)
	add("acme", "build", registry.Identity{IssuerName: "github", Issuer: github, Claims: map[string]string{"repository": "acme/shop", "environment": "production"}})
	add("acme", "staging", registry.Identity{IssuerName: "github", Issuer: github, Claims: map[string]string{"repository": "acme/shop", "environment": "staging"}})
	add("acme", "nothing", registry.Identity{IssuerName: "github", Issuer: github}, registry.Identity{IssuerName: "spire", Issuer: domain, Subject: workflow})
	add("acme", "edge", registry.Identity{IssuerName: "edge-cluster", Issuer: clusterIssuer, Subject: account})
	add("acme", "west", registry.Identity{IssuerName: "west-cluster", Issuer: clusterIssuer, Subject: account})
	add("acme", "svid", registry.Identity{IssuerName: "spire", Issuer: domain, Subject: domain + "/billing"})
	add("frozen", "deploy", deploys)
	for id, change := range map[string]func(*registry.Client){
		"pod": func(c *registry.Client) {
			c.Identities = []registry.Identity{{ID: "billing", Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "billing", UID: "s1"}}}
		},
		"fedsuspended": func(c *registry.Client) { c.Identities, c.Disabled = []registry.Identity{deploys}, true },
		"fedsecret": func(c *registry.Client) {
			c.Identities = []registry.Identity{deploys}
			c.Secrets = credentials(t, secret, time.Time{})
		},
		"signing": func(c *registry.Client) {
			key := keys()[signingkey.ES256]
			c.Identities, c.PublicKeys = []registry.Identity{deploys}, []signingkey.PublicKey{key.Public()}
		},
	} {
		s.registry.SetClient(newClient(t, "acme", id, func(c *registry.Client) {
			c.Secrets, c.Scopes = nil, []string{"stock"}
			change(c)
		}))
	}
	hold(github, workflow, "deploy")
	hold(clusterIssuer, account, "edge")
	hold("kubernetes", account, "pod")
	hold(domain, domain+"/billing", "svid")
	return s
}

// byGrant returns a token request with the JWT bearer grant and additional parameters.
func byGrant(assertion, more string) request {
	return request{body: jwtBearer + "&assertion=" + url.QueryEscape(assertion) + more}
}

// clientIn returns the client ID in the access token of a response.
func clientIn(t testing.TB, got response) string {
	t.Helper()
	id, _ := payload(t, accessToken(t, got))["client_id"].(string)
	return id
}

// federated lists tokens of third parties, and the client that each authenticates.
type federated struct {
	token string
	more  string // parameters in addition to the token
	// want is the client. If it is empty, the token is rejected.
	want string
	// wantStatus is the status of a rejection. It defaults to 401 for a client assertion, and 400 for
	// the grant.
	wantStatus int
}

func federatedTokens(t testing.TB) map[string]federated {
	t.Helper()
	later := func(d time.Duration) int64 { return now.Truncate(time.Second).Add(d).Unix() }
	second := foreignKeys()["second"]
	const (
		build = "&client_id=build"
		edge  = "&client_id=edge"
	)
	svid := func(claims members) string {
		return foreignToken(t, "spiffe", members{"sub": domain + "/billing"}, members{"typ": "JOSE"}, claims)
	}
	return map[string]federated{
		"holder of the subject":          {token: githubToken(t, nil, nil), want: "deploy"},
		"another client, same subject":   {token: githubToken(t, nil, nil), more: "&client_id=again", want: "again"},
		"claims":                         {token: githubToken(t, nil, nil), more: build, want: "build"},
		"foreign cluster":                {token: edgeToken(t, nil, nil), want: "edge"},
		"local cluster":                  {token: accountToken(t, nil, nil), want: "pod"},
		"foreign cluster, same URL":      {token: westToken(t, "second", nil), more: "&client_id=west", want: "west"},
		"same URL, no holder":            {token: westToken(t, "second", nil), wantStatus: 400},
		"same URL, other client":         {token: westToken(t, "second", nil), more: edge},
		"same URL, key of the other":     {token: westToken(t, "edge", nil), more: "&client_id=west"},
		"same URL, audience of other":    {token: westToken(t, "second", members{"aud": acme}), more: "&client_id=west"},
		"same URL, both audiences":       {token: westToken(t, "second", members{"aud": []string{west, acme}}), more: "&client_id=west"},
		"same URL, edge as west":         {token: edgeToken(t, nil, nil), more: "&client_id=west"},
		"SVID":                           {token: svid(members{"iss": domain}), want: "svid"},
		"SVID without iss":               {token: svid(nil), want: "svid"},
		"longest subject":                {token: githubToken(t, nil, members{"sub": strings.Repeat("s", 512)}), more: build, want: "build"},
		"SPIFFE ID of an HTTPS issuer":   {token: githubToken(t, nil, members{"sub": domain + "/billing"}), more: build, want: "build"},
		"no subject":                     {token: githubToken(t, nil, members{"sub": nil}), more: build},
		"subject is too long":            {token: githubToken(t, nil, members{"sub": strings.Repeat("s", 513)}), more: build},
		"subject without a holder":       {token: githubToken(t, nil, members{"sub": "repo:acme/other:ref:refs/heads/main"}), wantStatus: 400},
		"listed subject, not held":       {token: githubToken(t, nil, members{"sub": "repo:acme/other:ref:refs/heads/main"}), more: "&client_id=deploy", want: "deploy"},
		"other claim":                    {token: githubToken(t, nil, nil), more: "&client_id=staging"},
		"claim is a list":                {token: githubToken(t, nil, members{"environment": []string{"production"}}), more: build},
		"matcher without anything":       {token: githubToken(t, nil, nil), more: "&client_id=nothing"},
		"required claim has other value": {token: githubToken(t, nil, members{"repository_owner_id": "4712"})},
		"required claim is missing":      {token: githubToken(t, nil, members{"repository_owner_id": nil})},
		"unknown client":                 {token: githubToken(t, nil, nil), more: "&client_id=unknown"},
		"client without identities":      {token: githubToken(t, nil, nil), more: "&client_id=billing"},
		"suspended client":               {token: githubToken(t, nil, nil), more: "&client_id=fedsuspended"},
		"other audience":                 {token: githubToken(t, nil, members{"aud": "https://github.com/acme"})},
		"expired":                        {token: githubToken(t, nil, members{"exp": later(0)})},
		"valid for too long":             {token: githubToken(t, nil, members{"exp": later(24*time.Hour + 31*time.Second)})},
		"unknown kid":                    {token: githubToken(t, members{"kid": "gh3"}, nil)},
		"kid of another key":             {token: githubToken(t, members{"kid": second.ID}, nil)},
		"no kid":                         {token: githubToken(t, members{"kid": nil}, nil), want: "deploy"},
		"no kid, attacker's key":         {token: foreignToken(t, "attacker", members{"iss": github, "sub": workflow, "repository_owner_id": "4711"}, members{"kid": nil}, nil)},
		"other algorithm":                {token: githubToken(t, members{"alg": "ES384"}, nil)},
		"attacker's key":                 {token: foreignToken(t, "attacker", members{"iss": github, "sub": workflow, "repository_owner_id": "4711"}, nil, nil)},
		"unknown issuer":                 {token: githubToken(t, nil, members{"iss": "https://example.com"}), more: "&client_id=deploy"},
		"issuer kubernetes":              {token: githubToken(t, nil, members{"iss": "kubernetes", "sub": account}), more: "&client_id=pod"},
		"foreign Pod as local client":    {token: edgeToken(t, nil, nil), more: "&client_id=pod"},
		"local Pod as foreign client":    {token: accountToken(t, nil, nil), more: edge},
		"SVID of another domain":         {token: svid(members{"sub": "spiffe://example.com/billing", "iss": domain}), more: "&client_id=svid"},
		"SVID of a longer domain":        {token: svid(members{"sub": domain + ".evil/billing", "iss": domain}), more: "&client_id=svid"},
		"issuer of a client's key":       {token: assertion(t, signingkey.ES256, nil, members{"iss": github, "sub": workflow, "repository_owner_id": "4711"})},
	}
}

// Both ways to present a token of a third party accept the same tokens, and for the same client. The
// responses to all rejected tokens are the same.
func TestFederatedTokens(t *testing.T) {
	s := startFederated(t, behindProxy)
	client := s.direct()
	for name, tc := range federatedTokens(t) {
		t.Run(name, func(t *testing.T) {
			check := func(way string, got response, status int, code string) {
				t.Helper()
				switch {
				case tc.want != "":
					checkToken(t, got, "stock", nil)
					testkit.Diff(t, way+": client of the token", tc.want, clientIn(t, got))
				case tc.wantStatus != 0:
					checkRejection(t, got, tc.wantStatus, "invalid_request", "acme")
				default:
					checkRejection(t, got, status, code, "acme")
				}
			}
			check("client assertion", s.send(t, client, elsewhere(byAssertion(tc.token, tc.more))), 401, "invalid_client")
			check("grant", s.send(t, client, elsewhere(byGrant(tc.token, tc.more))), 400, "invalid_grant")
		})
	}
}

// Duplicate members are rejected, because parsers disagree about which one counts.
func TestDuplicateMembersAreRejected(t *testing.T) {
	key := foreignKeys()["github"]
	claims := `"iss":"` + github + `","sub":"` + workflow + `","aud":"` + acme + `","exp":1772366700,"repository":"acme/shop","environment":"production","repository_owner_id":"4711"`
	signed := func(header, claims string) string {
		input := base64.RawURLEncoding.EncodeToString([]byte("{"+header+"}")) + "." + base64.RawURLEncoding.EncodeToString([]byte("{"+claims+"}"))
		return input + "." + base64.RawURLEncoding.EncodeToString(signer(t, &key)(input))
	}
	const header = `"alg":"ES256","kid":"gh1"`
	s := startFederated(t, behindProxy)
	for name, tc := range map[string]struct {
		header, claims string
		want           bool
	}{
		"unchanged":             {header, claims, true},
		"subject":               {header, claims + `,"sub":"` + workflow + `"`, false},
		"matched claim, before": {header, `"environment":"staging",` + claims, false},
		"alg":                   {`"alg":"none",` + header, claims, false},
		"escaped name":          {header, claims + `,"\u0065nvironment":"production"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), elsewhere(byGrant(signed(tc.header, tc.claims), "&client_id=build")))
			testkit.Diff(t, "accepted", tc.want, (got.status == 200))
		})
	}
}

// A tenant that lists another tenant's subject neither gets nor breaks the other tenant's requests.
// Without a record of its own, the subject has no holder.
func TestSubjectOfAnotherTenant(t *testing.T) {
	s := startFederated(t)
	client := s.direct()
	token := githubToken(t, nil, nil)
	testkit.Diff(t, "client of the token", "deploy", clientIn(t, s.send(t, client, byGrant(token, ""))))
	s.registry.Remove(github + " " + workflow)
	checkRejection(t, s.send(t, client, byGrant(token, "")), 400, "invalid_request", "acme")
	checkRejection(t, s.send(t, client, byAssertion(token, "")), 400, "invalid_request", "acme")
}

// The cluster's keys take precedence over another issuer that publishes the same key, so that the
// issuer can't lock out the cluster's Pods.
func TestIssuerWithKeyOfTheCluster(t *testing.T) {
	s := startFederated(t)
	local := keys()[signingkey.RS256]
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		r.Issuers = []registry.Issuer{{Authenticates: true, Name: "edge-cluster", Issuer: clusterIssuer, Audience: acme, Keys: []signingkey.PublicKey{local.Public()}}}
	}))
	client := s.direct()
	testkit.Diff(t, "client of the token", "pod", clientIn(t, s.send(t, client, byAssertion(accountToken(t, nil, nil), ""))))
	checkRejection(t, s.send(t, client, byAssertion(accountToken(t, nil, nil), "&client_id=edge")), 401, "invalid_client", "acme")
}

// rotated is a cluster that has begun to sign with a key that this server gets on demand.
type rotated struct {
	clusterOf

	loaded *atomic.Bool
}

func (r rotated) Known(id string) ([]string, signingkey.PublicKey, error) {
	if !r.loaded.Load() {
		return nil, signingkey.PublicKey{}, tokenjws.ErrKey
	}
	return r.clusterOf.Known(id)
}

func (r rotated) Key(_ context.Context, id string) ([]string, signingkey.PublicKey, error) {
	r.loaded.Store(true)
	return r.Known(id)
}

func (r rotated) RuleOut(context.Context, string, string) error {
	r.loaded.Store(true)
	return nil
}

// An issuer that publishes the cluster's new key gains nothing before this server knows the key.
func TestIssuerWithNewKeyOfTheCluster(t *testing.T) {
	local := keys()[signingkey.RS256]
	trust := func(s *server) {
		s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
			r.Issuers = []registry.Issuer{{Authenticates: true, Name: "edge-cluster", Issuer: clusterIssuer, Audience: acme, Keys: []signingkey.PublicKey{local.Public()}}}
		}))
	}
	for _, more := range []string{"", "&client_id=pod"} {
		s := startFederated(t, func(o *tokenserver.Options) { o.Cluster = rotated{clusterOf{&local}, new(atomic.Bool)} })
		trust(s)
		testkit.Diff(t, "client of the token with "+more, "pod", clientIn(t, s.send(t, s.direct(), byAssertion(accountToken(t, nil, nil), more))))
	}
	// Without the cluster's keys, it is unknown which of the two issued the token.
	s := startFederated(t, func(o *tokenserver.Options) { o.Cluster = clusterOf{} })
	trust(s)
	checkRejection(t, s.send(t, s.direct(), byAssertion(accountToken(t, nil, nil), "")), 503, "temporarily_unavailable", "acme")
}

// Until the cluster's keys are known, service account tokens can't be verified, and other tokens of
// third parties can. An unknown key is requested from the issuer nevertheless.
func TestForeignTokensWithoutLocalKeys(t *testing.T) {
	asked := make(chan string, 10)
	s := startFederated(t, func(o *tokenserver.Options) {
		o.Cluster = clusterOf{}
		o.RefreshKeys = func(realm, issuer string) { asked <- realm + "/" + issuer }
	})
	client := s.direct()
	checkToken(t, s.send(t, client, byAssertion(githubToken(t, nil, nil), "")), "stock", nil)
	for _, token := range []string{edgeToken(t, nil, nil), edgeToken(t, members{"kid": "new"}, nil), accountToken(t, nil, nil)} {
		checkRejection(t, s.send(t, client, byAssertion(token, "")), 503, "temporarily_unavailable", "acme")
	}
	close(asked)
	testkit.Diff(t, "whose keys are requested", "acme/edge-cluster", <-asked)
}

// A token without a kid is verified only if the issuer has at most two keys for its algorithm. More signatures would
// cost too much.
func TestTokenWithoutKidAndManyKeys(t *testing.T) {
	s := startFederated(t, behindProxy)
	token := githubToken(t, members{"kid": nil}, nil)
	expectStatus(t, "two keys", 200, s.send(t, s.direct(), elsewhere(byAssertion(token, ""))))
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) {
		var public []signingkey.PublicKey
		for _, name := range []string{"github", "second", "spiffe"} {
			key := foreignKeys()[name]
			public = append(public, key.Public())
		}
		r.Issuers = []registry.Issuer{{Authenticates: true, Name: "github", Issuer: github, Audience: acme, Keys: public}}
	}))
	checkRejection(t, s.send(t, s.direct(), elsewhere(byAssertion(token, ""))), 401, "invalid_client", "acme")
	expectStatus(t, "three keys, with a kid", 200, s.send(t, s.direct(), elsewhere(byAssertion(githubToken(t, nil, nil), ""))))
}

// Only a token that no known key verifies asks for the issuer's keys.
func TestUnknownKeyAsksForKeys(t *testing.T) {
	var asked []string
	s := startFederated(t, func(o *tokenserver.Options) {
		o.RefreshKeys = func(realm, issuer string) { asked = append(asked, realm+"/"+issuer) }
	})
	for name, tc := range map[string]struct {
		token string
		want  bool
	}{
		"unknown kid":                   {githubToken(t, members{"kid": "gh3"}, nil), true},
		"valid":                         {githubToken(t, nil, nil), false},
		"no kid":                        {githubToken(t, members{"kid": nil}, nil), false},
		"wrong signature":               {githubToken(t, members{"kid": "gh2"}, nil), true},
		"foreign cluster, unknown kid":  {edgeToken(t, members{"kid": "new"}, nil), true},
		"client's own, with unknown ID": {assertion(t, signingkey.ES256, members{"kid": "gh3"}, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			s.send(t, s.direct(), byAssertion(tc.token, ""))
			testkit.Diff(t, "asked for keys", tc.want, len(asked) > 0)
		})
	}
}

// The audit log states the issuer and the subject of a token as soon as its signature is valid, and
// never otherwise.
func TestFederationIsAudited(t *testing.T) {
	of := func(id string, more map[string]any) map[string]any {
		line := map[string]any{
			"time": "2026-03-01T12:00:00.5Z", "action": "token", "outcome": "refused", "realm": "acme", "source": "127.0.0.1",
			"issuer": "github", "subject": workflow,
		}
		if id != "" {
			line["clientId"], line["clientUid"] = id, "acme."+id
		}
		maps.Copy(line, more)
		maps.DeleteFunc(line, func(_ string, value any) bool { return value == nil })
		return line
	}
	forged := func(id, reason string) map[string]any {
		return of(id, members{"reason": reason, "issuer": nil, "subject": nil})
	}
	for name, tc := range map[string]struct {
		request request
		want    map[string]any
	}{
		"by assertion":     {byAssertion(githubToken(t, nil, nil), ""), of("deploy", members{"outcome": "granted", "secretId": "gh1"})},
		"service account":  {byGrant(accountToken(t, nil, nil), ""), of("pod", members{"outcome": "granted", "secretId": "billing", "issuer": "kubernetes", "subject": account})},
		"not listed":       {byGrant(githubToken(t, nil, nil), "&client_id=staging"), of("staging", members{"reason": "wrong_assertion"})},
		"suspended":        {byGrant(githubToken(t, nil, nil), "&client_id=fedsuspended"), of("fedsuspended", members{"reason": "client_disabled", "secretId": "gh1"})},
		"no holder":        {byGrant(githubToken(t, nil, members{"sub": "x"}), ""), of("", members{"reason": "invalid_request", "subject": "x"})},
		"expired":          {byGrant(githubToken(t, nil, members{"exp": 1}), ""), of("", members{"reason": "wrong_assertion"})},
		"long subject":     {byGrant(githubToken(t, nil, members{"sub": strings.Repeat("s", 513)}), ""), of("", members{"reason": "wrong_assertion", "subject": nil})},
		"unknown key":      {byGrant(githubToken(t, members{"kid": "gh3"}, nil), ""), forged("", "unknown_key")},
		"forged":           {byGrant(githubToken(t, members{"kid": "gh2"}, nil), "&client_id=deploy"), forged("deploy", "wrong_assertion")},
		"wrong secret too": {byGrant(githubToken(t, nil, nil), "&client_id=fedsecret&client_secret=x"), forged("fedsecret", "wrong_secret")},
	} {
		t.Run(name, func(t *testing.T) {
			option, lines := audited(t)
			s := startFederated(t, option)
			s.send(t, s.direct(), tc.request)
			var got map[string]any
			all := lines()
			if len(all) != 1 {
				t.Fatalf("%d lines, want 1: %v", len(all), all)
			}
			testkit.Do(t, json.Unmarshal([]byte(all[0]), &got))
			delete(got, "jti")
			testkit.Diff(t, "result", tc.want, got)
		})
	}
}

// Failures of tokens without a client ID are limited per source. Valid tokens still work.
func TestFailureLimitAppliesToFederatedTokens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startFederated(t)
		client := s.direct()
		forged := githubToken(t, members{"kid": "gh2"}, nil)
		for range ratelimit.FailureBurst {
			checkRejection(t, s.send(t, client, byGrant(forged, "")), 400, "invalid_grant", "acme")
		}
		checkTooMany(t, s.send(t, client, byGrant(forged, "")), "3", tooManyFailures)
		checkTooMany(t, s.send(t, client, byAssertion(forged, "")), "3", tooManyFailures)
		checkRejection(t, s.send(t, client, byGrant(forged, "&client_id=deploy")), 400, "invalid_grant", "acme")
		checkToken(t, s.send(t, client, byGrant(githubToken(t, nil, nil), "")), "stock", nil)
	})
}
