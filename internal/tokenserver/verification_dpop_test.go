package tokenserver_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	apiURL = "https://orders.example.com/v1/orders"
	algs   = `algs="ES256 ES384 Ed25519 EdDSA PS256 RS256"`

	dpopInvalidToken = `DPoP error="invalid_token", ` + algs
	dpopInvalidProof = `DPoP error="invalid_dpop_proof", ` + algs
)

// bound returns a token for a client that is bound to the key with which proof signs.
func bound(t testing.TB, s *server, client string) string {
	t.Helper()
	return accessToken(t, s.withProofs(t, client, proof{}.sign(t)))
}

// original returns the headers of a gateway that states a GET request of the API in X-Original-
// headers, with the given token and proofs.
func original(authorization string, proofs ...string) http.Header {
	return http.Header{
		"Authorization": {authorization}, "Dpop": proofs,
		"X-Original-Method": {"GET"}, "X-Original-Url": {apiURL + "?page=1"},
	}
}

// with returns a copy of a header with other values. A nil value removes the field.
func with(header http.Header, name string, values ...string) http.Header {
	header = header.Clone()
	header[name] = values
	if values == nil {
		delete(header, name)
	}
	return header
}

func (s *server) verify(t testing.TB, query string, header http.Header) response {
	t.Helper()
	return s.send(t, s.direct(), request{method: http.MethodGet, path: verifyPath, query: query, header: header})
}

func TestVerificationOfBoundTokens(t *testing.T) {
	s := startWithDPoP(t)
	token, unbound := bound(t, s, "billing"), issued(t, s, "billing", "")
	other := otherKey(t)
	sign := func(p proof) string {
		if p.method == "" {
			p.method = http.MethodGet
		}
		if p.url == "" {
			p.url = apiURL
		}
		if p.token == "" {
			p.token = token
		}
		return p.sign(t)
	}
	good := func() http.Header { return original("DPoP "+token, sign(proof{})) }
	forwarded := func() http.Header {
		return http.Header{
			"Authorization": {"DPoP " + token}, "Dpop": {sign(proof{})},
			"X-Forwarded-Method": {"GET"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"orders.example.com"}, "X-Forwarded-Uri": {"/v1/orders?page=1"},
		}
	}
	withProof := func(p proof) http.Header { return original("DPoP "+token, sign(p)) }
	for name, tc := range map[string]struct {
		query  string // defaults to dpop=original
		header http.Header

		wantStatus    int
		wantChallenge []string
	}{
		"bound token":                  {header: good(), wantStatus: 200},
		"forwarded":                    {query: "dpop=forwarded", header: forwarded(), wantStatus: 200},
		"unbound token as Bearer":      {header: original("Bearer " + unbound), wantStatus: 200},
		"bound token as Bearer":        {header: with(good(), "Authorization", "Bearer "+token), wantStatus: 401, wantChallenge: []string{dpopInvalidToken}},
		"unbound token as DPoP":        {header: original("DPoP "+unbound, sign(proof{token: unbound})), wantStatus: 401, wantChallenge: []string{dpopInvalidToken}},
		"proof by another key":         {header: withProof(proof{key: other}), wantStatus: 401, wantChallenge: []string{dpopInvalidToken}},
		"missing scope":                {query: "dpop=original&scope=admin", header: good(), wantStatus: 403, wantChallenge: []string{`DPoP error="insufficient_scope", ` + algs + `, scope="admin"`}},
		"no proof":                     {header: with(good(), "Dpop"), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
		"another path":                 {header: withProof(proof{url: apiURL + "/1"}), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
		"gateway states no method":     {header: with(good(), "X-Original-Method"), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
		"gateway states no URL":        {header: with(good(), "X-Original-Url"), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
		"path that changes the host":   {query: "dpop=forwarded", header: with(with(forwarded(), "X-Forwarded-Host", "orders.example"), "X-Forwarded-Uri", ".com/v1/orders"), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
		"headers of another gateway":   {query: "dpop=forwarded", header: good(), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
		"not configured":               {query: "scope=stock", header: good(), wantStatus: 401, wantChallenge: []string{`Bearer scope="stock"`}},
		"caller's headers don't count": {header: with(with(withProof(proof{url: "https://x/"}), "X-Forwarded-Host", "x"), "X-Forwarded-Uri", "/"), wantStatus: 401, wantChallenge: []string{dpopInvalidProof}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.query == "" {
				tc.query = "dpop=original"
			}
			got := s.verify(t, tc.query, tc.header)
			if diff := cmp.Diff(tc.wantChallenge, got.header.Values("WWW-Authenticate")); got.status != tc.wantStatus || diff != "" {
				t.Fatalf("got %d %s, want %d; challenge (-want +got):\n%s", got.status, got.body, tc.wantStatus, diff)
			}
			if strings.Contains(got.body, canary) || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v, body %s", got.header, got.body)
			}
		})
	}
}

// A host that ends early would turn the path into a query or a fragment, which don't count. Callers
// can choose the host at some gateways, so such a host is rejected.
func TestHostStatedByTheGatewayEndsAtThePath(t *testing.T) {
	s := startWithDPoP(t)
	token := bound(t, s, "billing")
	const root, path = "https://orders.example.com/", "/v1/admin/delete"
	check := func(stated string, want int, header http.Header) {
		t.Helper()
		query := "dpop=original"
		if header["X-Forwarded-Host"] != nil {
			query = "dpop=forwarded"
		}
		header["Authorization"], header["Dpop"] = []string{"DPoP " + token}, []string{proof{method: "GET", url: root, token: token}.sign(t)}
		if got := s.verify(t, query, header); got.status != want || want == 401 && got.header.Get("WWW-Authenticate") != dpopInvalidProof {
			t.Errorf("%s: got %d with challenge %q, want %d", stated, got.status, got.header.Get("WWW-Authenticate"), want)
		}
	}
	for url, want := range map[string]int{
		"https://orders.example.com?" + path: 401, "https://orders.example.com#" + path: 401, "https://orders.example.com?": 401,
		root + "?page=1": 200, root + "#a": 401, "https://orders.example.com": 200, root + path: 401,
	} {
		check(url, want, http.Header{"X-Original-Method": {"GET"}, "X-Original-Url": {url}})
	}
	forwarded := func(proto, host, uri string) http.Header {
		return http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {host}, "X-Forwarded-Uri": {uri}}
	}
	for _, end := range []string{"?", "#", "/", "/?", "/#", `\`, `\?`, "@", "@orders.example.com"} {
		check("host with "+end, 401, forwarded("https", "orders.example.com"+end, path))
		check("host with "+end+" and no path", 401, forwarded("https", "orders.example.com"+end, "/"))
	}
	check("scheme with a URL", 401, forwarded(root+"?", "orders.example.com", path))
	check("host with a port", 200, forwarded("https", "orders.example.com:443", "/?page=1"))
}

// The requirements in the path select the headers too, and the caller of the API can't change that.
func TestDPoPRequirementInThePath(t *testing.T) {
	s := startWithDPoP(t)
	token := bound(t, s, "billing")
	header := func() http.Header {
		return original("DPoP "+token, proof{method: "GET", url: apiURL, token: token}.sign(t))
	}
	for path, want := range map[string]int{
		requirePath("dpop=original") + "/v1/orders":                                 200,
		requirePath("scope=stock") + "/v1/orders":                                   401,
		requirePath("scope=stock") + "/require/" + requirePath("dpop=original")[1:]: 401,
	} {
		got := s.send(t, s.direct(), request{method: http.MethodGet, path: path, query: "dpop=original", header: header()})
		expectStatus(t, path, want, got)
	}
}

// Each token server accepts a proof only once, even if another gateway presents it. A failed
// request doesn't use up the proof.
func TestReplayedProofsAtVerification(t *testing.T) {
	first, second := startWithDPoP(t), startWithDPoP(t)
	token := bound(t, first, "bound")
	header := original("DPoP "+token, proof{method: "GET", url: apiURL, token: token}.sign(t))
	if got := first.verify(t, "dpop=original&scope=admin", header); got.status != http.StatusForbidden {
		t.Fatalf("missing scope: got %d %s, want 403", got.status, got.body)
	}
	for _, tc := range []struct {
		name string
		s    *server
		want int
	}{
		{"first use", first, 200},
		{"replay", first, 401},
		{"replay at a server that has not seen it", second, 200},
		{"second replay there", second, 401},
	} {
		got := tc.s.verify(t, "dpop=original", header)
		if got.status != tc.want || tc.want == 401 && got.header.Get("WWW-Authenticate") != dpopInvalidProof {
			t.Errorf("%s: got %d with challenge %q, want %d", tc.name, got.status, got.header.Get("WWW-Authenticate"), tc.want)
		}
	}
}

func TestMemoryOfProofsIsFullAtVerification(t *testing.T) {
	s := startWithDPoP(t, tokenserver.WithStoredProofs(8))
	token := bound(t, s, "billing")
	got := s.verify(t, "dpop=original", original("DPoP "+token, proof{method: "GET", url: apiURL, token: token}.sign(t)))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 with Retry-After", got.status, got.body)
	}
}

// A client that starts to require DPoP can no longer use its unbound tokens.
func TestRequiringDPoPInvalidatesUnboundTokens(t *testing.T) {
	s := startWithDPoP(t)
	unbound, token := issued(t, s, "billing", ""), bound(t, s, "billing")
	checkValid(t, s, unbound, true)
	s.registry.SetClient(newClient(t, "acme", "billing", func(c *registry.Client) { c.DPoP = true }))
	checkValid(t, s, unbound, false)
	header := original("DPoP "+token, proof{method: "GET", url: apiURL, token: token}.sign(t))
	expectStatus(t, "bound token", http.StatusOK, s.verify(t, "dpop=original", header))
}

// An API behind a gateway names its metadata and the required scope, so that a client can find the
// realm (RFC 9728 §5.1).
func TestChallengeNamesTheMetadataOfTheAudience(t *testing.T) {
	const mcp = "https://mcp.example.com/mcp"
	s := startLoaded(t)
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) { r.Audiences = []string{orders, mcp, "billing"} }))
	const metadata = "https://" + host + "/acme/oauth2/resource-metadata/aHR0cHM6Ly9tY3AuZXhhbXBsZS5jb20vbWNw"
	named := `resource_metadata="` + metadata + `"`
	valid := "Bearer " + issued(t, s, "billing", "")
	for name, tc := range map[string]struct {
		query, authorization string
		want                 string
	}{
		"no token":                {"audience=" + mcp + "&scope=tools", "", "Bearer " + named + `, scope="tools"`},
		"no scope":                {"audience=" + mcp, "", "Bearer " + named},
		"invalid token":           {"audience=" + mcp + "&scope=tools", "Bearer x", invalidToken + ", " + named + `, scope="tools"`},
		"wrong audience":          {"audience=" + mcp, valid, insufficientScope + ", " + named},
		"audience that is no URL": {"audience=billing&scope=tools", "", `Bearer scope="tools"`},
		"unknown audience":        {"audience=https://x.example.com", "", "Bearer"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, s.direct(), request{method: http.MethodGet, path: verifyPath, query: tc.query, authorization: tc.authorization})
			if challenge := got.header.Get("WWW-Authenticate"); challenge != tc.want {
				t.Errorf("got %d with challenge %q, want %q", got.status, challenge, tc.want)
			}
		})
	}
	location := testkit.Value(url.Parse(metadata))(t)
	got := s.send(t, s.direct(), request{method: http.MethodGet, path: location.Path})
	checkDocument(t, got)
	if want := `{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://` + host + `/acme"],"bearer_methods_supported":["header"]}`; got.body != want {
		t.Errorf("metadata %s, want %s", got.body, want)
	}
	for _, path := range []string{location.Path + "x", "/acme/oauth2/resource-metadata/", "/frozen" + strings.TrimPrefix(location.Path, "/acme")} {
		checkRejection(t, s.send(t, s.direct(), request{method: http.MethodGet, path: path}), 404, "invalid_request", "")
	}
}
