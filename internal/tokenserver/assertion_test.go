package tokenserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	assertionType = "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
	acme          = "https://" + host + "/acme"
)

// members holds header parameters or claims. Nil values are omitted.
type members map[string]any

var serial atomic.Int64

// assertion returns a new assertion for the client "signing". It is valid except for the given
// changes.
func assertion(t testing.TB, algorithm signingkey.Algorithm, header, claims members) string {
	t.Helper()
	key := keys()[algorithm]
	return jws(t, &key,
		changed(members{"alg": algorithm, "kid": key.ID, "typ": "JWT"}, header),
		changed(members{
			"iss": "signing", "sub": "signing", "aud": acme, "jti": fmt.Sprint("jti-", serial.Add(1)),
			"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		}, claims))
}

func changed(of, change members) members {
	all := maps.Clone(of)
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// jws returns a JWT that is signed with a key.
func jws(t testing.TB, key *signingkey.Key, header, claims members) string {
	t.Helper()
	return compact(t, header, claims, signer(t, key))
}

func signer(t testing.TB, key *signingkey.Key) func(input string) []byte {
	return func(input string) []byte {
		return testkit.Value(key.Signer().Sign(nil, []byte(input)))(t)
	}
}

func compact(t testing.TB, header, claims members, sign func(input string) []byte) string {
	t.Helper()
	part := func(m members) string {
		data := testkit.Value(json.Marshal(m))(t)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	input := part(header) + "." + part(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

// byAssertion returns a token request with the given assertion and additional parameters.
func byAssertion(assertion, more string) request {
	return request{body: grant + "&" + assertionType + "&client_assertion=" + url.QueryEscape(assertion) + more}
}

// startSigning runs a token server with clients that have public keys.
func startSigning(t testing.TB, options ...func(*tokenserver.Options)) *server {
	t.Helper()
	s := startLoaded(t, options...)
	public := func(algorithms ...signingkey.Algorithm) (public []signingkey.PublicKey) {
		for _, algorithm := range algorithms {
			key := keys()[algorithm]
			public = append(public, key.Public())
		}
		return public
	}
	add := func(realm, id string, change func(*registry.Client), algorithms ...signingkey.Algorithm) {
		s.registry.SetClient(newClient(t, realm, id, func(c *registry.Client) {
			c.Secrets, c.PublicKeys = nil, public(algorithms...)
			change(c)
		}))
	}
	unchanged := func(*registry.Client) {}
	add("acme", "signing", func(c *registry.Client) { c.Scopes = []string{"stock"} }, signingkey.Algorithms[:4]...)
	add("acme", "single", unchanged, signingkey.PS256)
	add("acme", "renewing", func(c *registry.Client) {
		next := otherKey(t)
		c.PublicKeys = append([]signingkey.PublicKey{c.PublicKeys[0], next.Public()}, c.PublicKeys[1])
	}, signingkey.RS256, signingkey.ES256)
	add("acme", "both", func(c *registry.Client) { c.Secrets = credentials(t, secret, time.Time{}) }, signingkey.EdDSA)
	add("acme", "keysuspended", func(c *registry.Client) { c.Disabled = true }, signingkey.EdDSA)
	add("acme", "keyexpired", func(c *registry.Client) { c.ExpiresAt = now }, signingkey.EdDSA)
	add("frozen", "signing", unchanged, signingkey.EdDSA)
	return s
}

func TestAssertionAuthentication(t *testing.T) {
	const es256, eddsa, ps256 = signingkey.ES256, signingkey.EdDSA, signingkey.PS256
	from := func(client string) members { return members{"iss": client, "sub": client} }
	secondsAhead := func(s int) int64 { return now.Unix() + int64(s) }
	tests := map[string]struct {
		request    request
		wantStatus int // defaults to 200
		wantError  string
		wantScope  string
	}{
		"ES256":                 {request: byAssertion(assertion(t, es256, nil, nil), ""), wantScope: "stock"},
		"PS256":                 {request: byAssertion(assertion(t, ps256, nil, from("single")), "")},
		"with client_id":        {request: byAssertion(assertion(t, es256, nil, nil), "&client_id=signing&scope=stock"), wantScope: "stock"},
		"last key, without kid": {request: byAssertion(assertion(t, es256, members{"kid": nil}, from("renewing")), "")},
		"key parameters":        {request: byAssertion(assertion(t, es256, members{"jwk": "x", "jku": "https://x", "x5c": 1, "b64": false}, nil), ""), wantScope: "stock"},

		"signed by a clock ahead":      {request: byAssertion(assertion(t, es256, nil, members{"iat": secondsAhead(30), "exp": secondsAhead(330)}), ""), wantScope: "stock"},
		"different client_id":          {request: byAssertion(assertion(t, es256, nil, nil), "&client_id=billing"), wantStatus: 400, wantError: "invalid_request"},
		"secret of client without one": {request: request{query: grant, authorization: basic("signing", secret)}, wantStatus: 401, wantError: "invalid_client"},
		"an unknown client":            {request: byAssertion(assertion(t, es256, nil, from("unknown")), ""), wantStatus: 401, wantError: "invalid_client"},
		"another client's key":         {request: byAssertion(assertion(t, es256, nil, from("both")), ""), wantStatus: 401, wantError: "invalid_client"},
		"kid of the client's next key": {request: byAssertion(assertion(t, es256, members{"kid": keys()[signingkey.ES384].ID}, nil), ""), wantStatus: 401, wantError: "invalid_client"},
		"the type of an access token":  {request: byAssertion(assertion(t, es256, members{"typ": "at+jwt"}, nil), ""), wantStatus: 401, wantError: "invalid_client"},
		"another issuer":               {request: byAssertion(assertion(t, es256, nil, members{"iss": "billing"}), ""), wantStatus: 401, wantError: "invalid_client"},
		"audience is token endpoint":   {request: byAssertion(assertion(t, es256, nil, members{"aud": acme + "/oauth2/token"}), ""), wantStatus: 401, wantError: "invalid_client"},
		"audience is another realm":    {request: byAssertion(assertion(t, es256, nil, members{"aud": "https://" + host + "/frozen"}), ""), wantStatus: 401, wantError: "invalid_client"},
		"two audiences":                {request: byAssertion(assertion(t, es256, nil, members{"aud": []string{acme, "https://example.com"}}), ""), wantStatus: 401, wantError: "invalid_client"},
		"no exp":                       {request: byAssertion(assertion(t, es256, nil, members{"exp": nil}), ""), wantStatus: 401, wantError: "invalid_client"},
		"expired":                      {request: byAssertion(assertion(t, es256, nil, members{"exp": secondsAhead(0)}), ""), wantStatus: 401, wantError: "invalid_client"},
		"valid for too long":           {request: byAssertion(assertion(t, es256, nil, members{"exp": secondsAhead(331)}), ""), wantStatus: 401, wantError: "invalid_client"},
		"issued in the future":         {request: byAssertion(assertion(t, es256, nil, members{"iat": secondsAhead(31)}), ""), wantStatus: 401, wantError: "invalid_client"},
		"valid in the future":          {request: byAssertion(assertion(t, es256, nil, members{"nbf": secondsAhead(31)}), ""), wantStatus: 401, wantError: "invalid_client"},
		"no jti":                       {request: byAssertion(assertion(t, es256, nil, members{"jti": nil}), ""), wantStatus: 401, wantError: "invalid_client"},
		"a suspended client":           {request: byAssertion(assertion(t, eddsa, nil, from("keysuspended")), ""), wantStatus: 401, wantError: "invalid_client"},
		"an expired client":            {request: byAssertion(assertion(t, eddsa, nil, from("keyexpired")), ""), wantStatus: 401, wantError: "invalid_client"},
	}
	s := startSigning(t, behindProxy)
	unknown := s.send(t, s.direct(), byAssertion(assertion(t, es256, nil, from("unknown")), ""))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), elsewhere(tc.request))
			if tc.wantError == "" {
				checkToken(t, got, tc.wantScope, nil)
				return
			}
			realm := "acme"
			if tc.request.path != "" {
				realm = "frozen"
			}
			checkRejection(t, got, tc.wantStatus, tc.wantError, realm)
			if tc.wantStatus == 401 {
				testkit.Diff(t, "response differs from that for an unknown client", unknown.body, got.body)
			}
		})
	}
}

// A valid assertion can be used for one request, even if the request later fails for a different
// reason. A rejected assertion does not count as used.
func TestAssertionWorksOnce(t *testing.T) {
	s := startSigning(t)
	client := s.direct()
	once := byAssertion(assertion(t, signingkey.ES256, nil, nil), "")
	checkToken(t, s.send(t, client, once), "stock", nil)
	checkRejection(t, s.send(t, client, once), 401, "invalid_client", "acme")

	spent := assertion(t, signingkey.ES256, nil, nil)
	checkRejection(t, s.send(t, client, byAssertion(spent, "&scope=admin")), 400, "invalid_scope", "acme")
	checkRejection(t, s.send(t, client, byAssertion(spent, "")), 401, "invalid_client", "acme")

	named := func(claims members) request {
		return byAssertion(assertion(t, signingkey.ES256, nil, changed(members{"jti": "chosen"}, claims)), "")
	}
	checkRejection(t, s.send(t, client, named(members{"aud": "https://example.com"})), 401, "invalid_client", "acme")
	checkToken(t, s.send(t, client, named(nil)), "stock", nil)
	checkRejection(t, s.send(t, client, named(members{"exp": now.Unix() + 10})), 401, "invalid_client", "acme")
}

func TestFailureLimitAppliesToAssertions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSigning(t)
		client := s.direct()
		forged := func(id string) request {
			return byAssertion(assertion(t, signingkey.ES256, nil, members{"iss": id, "sub": id, "exp": now.Unix() - 3600}), "")
		}
		for range ratelimit.FailureBurst {
			expectStatus(t, "response", 401, s.send(t, client, forged("signing")))
		}
		checkTooMany(t, s.send(t, client, forged("signing")), "3", tooManyFailures)
		expectStatus(t, "another client", 401, s.send(t, client, forged("single")))
		expectStatus(t, "valid assertion", 200, s.send(t, client, byAssertion(assertion(t, signingkey.ES256, nil, nil), "")))
	})
}
