package tokenserver_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

func TestMetadataDocuments(t *testing.T) {
	base := "https://" + host + "/acme"
	server := map[string]any{
		"issuer": base, "token_endpoint": base + "/oauth2/token", "jwks_uri": base + "/oauth2/jwks",
		"scopes_supported":         []any{"orders:read", "orders:write", "stock"},
		"response_types_supported": []any{}, "grant_types_supported": []any{"client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"authorization_endpoint": base + "/oauth2/authorize", "code_challenge_methods_supported": []any{"S256"},
		"dpop_signing_alg_values_supported":                        []any{"ES256", "ES384", "Ed25519", "EdDSA", "PS256", "RS256"},
		"token_endpoint_auth_methods_supported":                    []any{"client_secret_basic", "client_secret_post", "private_key_jwt"},
		"introspection_endpoint":                                   "https://" + host + "/acme/oauth2/introspect",
		"introspection_endpoint_auth_methods_supported":            []any{"client_secret_basic", "client_secret_post", "private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported":         []any{"ES256", "ES384", "Ed25519", "EdDSA", "PS256", "RS256"},
		"introspection_endpoint_auth_signing_alg_values_supported": []any{"ES256", "ES384", "Ed25519", "EdDSA", "PS256", "RS256"},
	}
	openID := maps.Clone(server)
	openID["subject_types_supported"] = []any{"public"}
	openID["id_token_signing_alg_values_supported"] = []any{"ES256", "ES384", "EdDSA", "RS256", "PS256"}
	tests := map[string]struct {
		path string
		want map[string]any
	}{
		"RFC 8414":             {"/.well-known/oauth-authorization-server/acme", server},
		"path below the realm": {"/acme/.well-known/oauth-authorization-server", server},
		"OpenID Connect":       {"/acme/.well-known/openid-configuration", openID},
	}
	s := startLoaded(t)
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			client := s.clientOf(t, protocol)
			for name, tc := range tests {
				t.Run(name, func(t *testing.T) {
					got := s.send(t, client, request{method: "GET", path: tc.path, query: "x=" + canary})
					checkDocument(t, got)
					var document map[string]any
					testkit.Do(t, json.Unmarshal([]byte(got.body), &document))
					testkit.Diff(t, "result", tc.want, document)
					unknown := s.send(t, client, request{method: "GET", path: strings.Replace(tc.path, "acme", "unknown", 1)})
					checkRejection(t, unknown, 404, "invalid_request", "")
				})
			}
		})
	}
}

func checkDocument(t *testing.T, got response) {
	t.Helper()
	want := map[string]string{"Content-Type": "application/json", "Cache-Control": "public, max-age=300", "Pragma": ""}
	header := map[string]string{}
	for name := range want {
		header[name] = got.header.Get(name)
	}
	if diff := cmp.Diff(want, header); diff != "" || got.status != 200 {
		t.Errorf("got status %d, want 200; headers (-want +got):\n%s", got.status, diff)
	}
}

// The key sets must include the keys of every state and algorithm, and no private key material. No key is in
// both, so that a verifier of tokens can't accept a status list.
func TestKeySetsHaveAllPublicKeys(t *testing.T) {
	s := start(t)
	published := []signingkey.Key{
		keyIn(signingkey.Retiring, signingkey.ES256), keyIn(signingkey.Active, signingkey.ES384), keyIn(signingkey.Pending, signingkey.EdDSA),
		keyIn(signingkey.Retiring, signingkey.RS256), keyIn(signingkey.Pending, signingkey.PS256),
	}
	s.registry.SetRealm(newRealm(t, "acme", func(r *registry.RealmSettings) { r.Keys, r.StatusLists = published, lists() }))
	s.registry.Replace(nil, nil, nil, nil, func(string) bool { return true })
	wantMembers := map[string][]string{
		"EC": {"alg", "crv", "kid", "kty", "use", "x", "y"}, "OKP": {"alg", "crv", "kid", "kty", "use", "x"}, "RSA": {"alg", "e", "kid", "kty", "n", "use"},
	}
	thumbprints := map[string]string{} // and the path of the set
	for path, publicOf := range map[string]func(*signingkey.Key) signingkey.PublicKey{
		"/acme/oauth2/jwks":        (*signingkey.Key).Public,
		"/acme/oauth2/status/jwks": func(k *signingkey.Key) signingkey.PublicKey { list, _ := k.ListPublic(); return list },
	} {
		got := s.send(t, s.direct(), request{method: "GET", path: path})
		checkDocument(t, got)
		var set struct {
			Keys []map[string]string `json:"keys"`
		}
		testkit.Do(t, json.Unmarshal([]byte(got.body), &set))
		ids := map[string]string{}
		for _, key := range set.Keys {
			ids[key["kid"]] = key["alg"]
			testkit.Diff(t, "members of the "+key["alg"]+" key in "+path, wantMembers[key["kty"]], slices.Sorted(maps.Keys(key)))
		}
		wantIDs := map[string]string{}
		for _, key := range published {
			public := publicOf(&key)
			wantIDs[public.ID()] = string(key.Algorithm)
			thumbprint := testkit.Value(public.Thumbprint())(t)
			if other := thumbprints[thumbprint]; other != "" {
				t.Errorf("%s and %s have the %s key %s", path, other, key.Algorithm, thumbprint)
			}
			thumbprints[thumbprint] = path
			var stored struct{ JWK, ListJWK map[string]string }
			testkit.Do(t, json.Unmarshal(testkit.Value(json.Marshal(key))(t), &stored))
			for _, member := range []string{"d", "p", "q", "dp", "dq", "qi"} {
				for _, jwk := range []map[string]string{stored.JWK, stored.ListJWK} {
					if value := jwk[member]; value != "" && strings.Contains(got.body, value) {
						t.Errorf("%s contains the private member %s of the %s key", path, member, key.Algorithm)
					}
				}
			}
		}
		testkit.Diff(t, "keys in "+path, wantIDs, ids)
	}
}

// A realm with status lists says where their keys are. Another one has none.
func TestKeysOfStatusLists(t *testing.T) {
	for name, tc := range map[string]struct {
		lists   *record.StatusLists
		status  int
		wantURI any
	}{
		"lists":       {lists(), http.StatusOK, "https://" + host + "/acme/oauth2/status/jwks"},
		"ended lists": {lists().End(), http.StatusOK, "https://" + host + "/acme/oauth2/status/jwks"},
		"no lists":    {nil, http.StatusNotFound, nil},
	} {
		s, _ := startWithLists(t)
		s.setListing(t, tc.lists)
		testkit.Diff(t, name, tc.status, s.send(t, s.direct(), request{method: "GET", path: "/acme/oauth2/status/jwks"}).status)
		metadata := s.send(t, s.direct(), request{method: "GET", path: "/acme/.well-known/openid-configuration"})
		var document map[string]any
		testkit.Do(t, json.Unmarshal([]byte(metadata.body), &document))
		testkit.Diff(t, name+": metadata", tc.wantURI, document["status_list_jwks_uri"])
	}
}

// Verifiers that know only the issuer look for the keys at /.well-known/jwks.json.
func TestJWKSIsAlsoAtWellKnownPath(t *testing.T) {
	s := startLoaded(t)
	keys := s.send(t, s.direct(), request{method: "GET", path: "/acme/oauth2/jwks"})
	again := s.send(t, s.direct(), request{method: "GET", path: "/acme/.well-known/jwks.json"})
	checkDocument(t, again)
	testkit.Diff(t, "body", keys.body, again.body)
	testkit.Diff(t, "headers", keys.header, again.header)
	checkRejection(t, s.send(t, s.direct(), request{method: "GET", path: "/unknown/.well-known/jwks.json"}), 404, "invalid_request", "")
}

// A suspended realm still publishes its documents, so that its tokens can be verified.
func TestSuspendedRealmPublishesDocuments(t *testing.T) {
	s := startLoaded(t)
	client := s.clientOf(t, "HTTP/1.1")
	for _, path := range []string{"/frozen/oauth2/jwks", "/frozen/.well-known/openid-configuration"} {
		checkDocument(t, s.send(t, client, request{method: "GET", path: path}))
	}
	head := s.send(t, client, request{method: "HEAD", path: "/frozen/oauth2/jwks"})
	checkDocument(t, head)
	if head.body != "" {
		t.Errorf("HEAD responds with body %q, want none", head.body)
	}
}

// The authorization endpoint exists for client libraries only. It never redirects, and repeats no
// input.
func TestAuthorizationEndpointRejectsEverything(t *testing.T) {
	s := startLoaded(t)
	const path = "/acme/oauth2/authorize"
	var bodies []string
	for name, r := range map[string]request{
		"code request": {method: http.MethodGet, query: "response_type=code&client_id=billing&redirect_uri=https://" + canary + "/&state=" + canary},
		"POST":         {method: http.MethodPost, body: "response_type=code&redirect_uri=https://" + canary},
		"other method": {method: http.MethodDelete},
		"script":       {method: http.MethodGet, query: "state=%3Cscript%3E" + canary, header: http.Header{"Referer": {canary}, "Host": {canary}}},
	} {
		for protocol := range protocols {
			t.Run(name+" "+protocol, func(t *testing.T) {
				r.path = path
				got := s.send(t, s.clientOf(t, protocol), r)
				bodies = append(bodies, got.body)
				if got.status != http.StatusBadRequest || got.header.Get("Location") != "" || strings.Contains(got.body, canary) || got.body != bodies[0] {
					t.Errorf("got %d to %q: %s", got.status, got.header.Get("Location"), got.body)
				}
				for name, want := range map[string]string{
					"Content-Type": "text/html;charset=UTF-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
					"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Refresh": "", "Set-Cookie": "",
				} {
					testkit.Diff(t, name, want, got.header.Get(name))
				}
			})
		}
	}
	if !strings.Contains(bodies[0], "unauthorized_client") {
		t.Errorf("the page doesn't contain the error code: %s", bodies[0])
	}
	checkRejection(t, s.send(t, s.direct(), request{path: "/unknown/oauth2/authorize"}), 404, "invalid_request", "")
	unloaded := start(t)
	checkRejection(t, unloaded.send(t, unloaded.direct(), request{path: path}), 503, "temporarily_unavailable", "")
}
