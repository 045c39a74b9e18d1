package tokenserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	tokenjws "github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const clusterIssuer = "https://kubernetes.default.svc"

// clusterOf is a cluster with one key. If the key is nil, the cluster's keys are not yet known.
type clusterOf struct{ key *signingkey.Key }

func (c clusterOf) Key(_ context.Context, id string) ([]string, signingkey.PublicKey, error) {
	return c.Known(id)
}

func (c clusterOf) Known(id string) ([]string, signingkey.PublicKey, error) {
	switch {
	case c.key == nil:
		return nil, signingkey.PublicKey{}, clientassertion.ErrNoKeys
	case id != c.key.ID:
		return nil, signingkey.PublicKey{}, tokenjws.ErrKey
	}
	return []string{clusterIssuer}, c.key.Public(), nil
}

// RuleOut reports that the API server is unavailable until the keys are known.
func (c clusterOf) RuleOut(context.Context, string, string) error {
	if c.key == nil {
		return clientassertion.ErrNoKeys
	}
	return nil
}

// accountToken returns a token for a Pod with the service account apps/billing. It is valid except
// for the given changes.
func accountToken(t testing.TB, header, claims members) string {
	t.Helper()
	key := keys()[signingkey.RS256]
	return jws(t, &key, changed(members{"alg": "RS256", "kid": key.ID}, header), changed(members{
		"iss": clusterIssuer, "sub": "system:serviceaccount:apps:billing", "aud": []string{acme}, "jti": "4a7",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": members{
			"namespace": "apps", "pod": members{"name": "billing-7d4", "uid": "p1"}, "serviceaccount": members{"name": "billing", "uid": "s1"},
		},
	}, claims))
}

// accountClaims returns the claims that identify a service account.
func accountClaims(namespace, name, uid string) members {
	return members{
		"sub": "system:serviceaccount:" + namespace + ":" + name,
		"kubernetes.io": members{
			"namespace": namespace, "pod": members{"name": "billing-7d4", "uid": "p1"}, "serviceaccount": members{"name": name, "uid": uid},
		},
	}
}

// startInCluster runs a token server with clients that authenticate with service account tokens.
func startInCluster(t testing.TB, cluster clientauth.ClusterKeys) *server {
	t.Helper()
	s := startLoaded(t, behindProxy, func(o *tokenserver.Options) { o.Cluster = cluster })
	add := func(realm, id string, change func(*registry.Client)) {
		s.registry.SetClient(newClient(t, realm, id, func(c *registry.Client) {
			c.Secrets, c.Identities = nil, []registry.Identity{
				{Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "other", UID: "s2"}},
				{Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "billing", UID: "s1"}},
			}
			change(c)
		}))
	}
	add("acme", "pod", func(c *registry.Client) { c.Scopes = []string{"stock"} })
	add("acme", "again", func(*registry.Client) {})
	add("acme", "podsuspended", func(c *registry.Client) { c.Disabled = true })
	add("acme", "fallback", func(c *registry.Client) {
		c.Identities = []registry.Identity{{Account: clientassertion.ServiceAccount{Namespace: "apps", Name: "default", UID: "s3"}}}
	})
	add("acme", "no-uid", func(c *registry.Client) { c.Identities[1].Account.UID = "" })
	add("frozen", "pod", func(*registry.Client) {})
	return s
}

func TestServiceAccountTokens(t *testing.T) {
	const as = "&client_id=pod"
	// changing returns a token with changes to its claim kubernetes.io.
	changing := func(change members) string {
		claims := accountClaims("apps", "billing", "s1")
		return accountToken(t, nil, members{"kubernetes.io": changed(claims["kubernetes.io"].(members), change)})
	}
	secondsAhead := func(s int64) int64 { return now.Unix() + s }
	tests := map[string]struct {
		request    request
		wantStatus int // defaults to 200
		wantError  string
		wantScope  string
	}{
		"valid":             {request: byAssertion(accountToken(t, nil, nil), as), wantScope: "stock"},
		"another account":   {request: byAssertion(accountToken(t, nil, accountClaims("apps", "other", "s2")), as+"&scope=stock"), wantScope: "stock"},
		"no client_id":      {request: byAssertion(accountToken(t, nil, nil), ""), wantStatus: 400, wantError: "invalid_request"},
		"unknown client":    {request: byAssertion(accountToken(t, nil, nil), "&client_id=unknown"), wantStatus: 401, wantError: "invalid_client"},
		"unrelated client":  {request: byAssertion(accountToken(t, nil, nil), "&client_id=billing"), wantStatus: 401, wantError: "invalid_client"},
		"suspended client":  {request: byAssertion(accountToken(t, nil, nil), "&client_id=podsuspended"), wantStatus: 401, wantError: "invalid_client"},
		"default account":   {request: byAssertion(accountToken(t, nil, accountClaims("apps", "default", "s3")), "&client_id=fallback"), wantStatus: 401, wantError: "invalid_client"},
		"over a day":        {request: byAssertion(accountToken(t, nil, members{"exp": secondsAhead(24*3600 + 31)}), as), wantStatus: 401, wantError: "invalid_client"},
		"Pod without UID":   {request: byAssertion(changing(members{"pod": members{"name": "billing-7d4"}}), as), wantStatus: 401, wantError: "invalid_client"},
		"claim of other":    {request: byAssertion(changing(members{"namespace": "elsewhere"}), as), wantStatus: 401, wantError: "invalid_client"},
		"account, no UID":   {request: byAssertion(changing(members{"serviceaccount": members{"name": "billing"}}), "&client_id=no-uid"), wantStatus: 401, wantError: "invalid_client"},
		"expired":           {request: byAssertion(accountToken(t, nil, members{"exp": now.Unix()}), as), wantStatus: 401, wantError: "invalid_client"},
		"another cluster":   {request: byAssertion(accountToken(t, nil, members{"iss": "https://example.com"}), as), wantStatus: 401, wantError: "invalid_client"},
		"unknown key":       {request: byAssertion(accountToken(t, members{"kid": canary}, nil), as), wantStatus: 401, wantError: "invalid_client"},
		"malformed claim":   {request: byAssertion(accountToken(t, nil, members{"kubernetes.io": canary}), as), wantStatus: 401, wantError: "invalid_client"},
		"another algorithm": {request: byAssertion(accountToken(t, members{"alg": "PS256"}, nil), as), wantStatus: 401, wantError: "invalid_client"},
		"signed by the key of the client": {
			request:    byAssertion(assertion(t, signingkey.ES256, nil, changed(members{"iss": clusterIssuer, "exp": now.Unix() + 60}, accountClaims("apps", "billing", "s1"))), as),
			wantStatus: 401, wantError: "invalid_client",
		},
		"a suspended realm": {
			request:    request{path: "/frozen/oauth2/token", body: byAssertion(accountToken(t, nil, members{"aud": "https://" + host + "/frozen"}), as).body},
			wantStatus: 401, wantError: "invalid_client",
		},
	}
	key := keys()[signingkey.RS256]
	s := startInCluster(t, clusterOf{&key})
	client := s.direct()
	unknown := s.send(t, client, byAssertion(accountToken(t, nil, nil), "&client_id=unknown"))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, client, elsewhere(tc.request))
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

// Until the cluster's keys are known, a token may be valid, so it must not be rejected with a 401.
func TestServiceAccountTokensAreUnavailableUntilKeysAreKnown(t *testing.T) {
	token := byAssertion(accountToken(t, nil, nil), "&client_id=pod")
	s := startInCluster(t, clusterOf{})
	checkRejection(t, s.send(t, s.direct(), token), 503, "temporarily_unavailable", "acme")

	without := startInCluster(t, nil)
	checkRejection(t, without.send(t, without.direct(), token), 401, "invalid_client", "acme")
}
