package tokenserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const clusterIssuer = "https://kubernetes.default.svc"

// clusterOf is a cluster with one key; without one it is a cluster that was never reached.
type clusterOf struct{ key *signingkey.Key }

func (c clusterOf) Key(_ context.Context, id string) (string, signingkey.PublicKey, error) {
	switch {
	case c.key == nil:
		return "", signingkey.PublicKey{}, clientassertion.ErrNoKeys
	case id != c.key.ID:
		return "", signingkey.PublicKey{}, clientassertion.ErrKey
	}
	return clusterIssuer, c.key.Public(), nil
}

// accountToken is the token of a pod of the account apps/billing, good but for the changes.
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

// of is what names an account in a token.
func of(namespace, name, uid string) members {
	return members{
		"sub": "system:serviceaccount:" + namespace + ":" + name,
		"kubernetes.io": members{
			"namespace": namespace, "pod": members{"name": "billing-7d4", "uid": "p1"}, "serviceaccount": members{"name": name, "uid": uid},
		},
	}
}

// startInCluster runs a token server with clients that accounts may act as.
func startInCluster(t testing.TB, cluster clientauth.ClusterKeys) *server {
	t.Helper()
	s := startLoaded(t, func(o *tokenserver.Options) { o.Cluster = cluster })
	add := func(realm, id string, change func(*registry.Client)) {
		s.registry.SetClient(newClient(t, realm, id, func(c *registry.Client) {
			c.Secrets, c.ServiceAccounts = nil, []clientassertion.ServiceAccount{
				{Namespace: "apps", Name: "other", UID: "s2"}, {Namespace: "apps", Name: "billing", UID: "s1"},
			}
			change(c)
		}))
	}
	add("acme", "pod", func(c *registry.Client) { c.Scopes = []string{"stock"} })
	add("acme", "again", func(*registry.Client) {})
	add("acme", "podsuspended", func(c *registry.Client) { c.Disabled = true })
	add("acme", "fallback", func(c *registry.Client) {
		c.ServiceAccounts = []clientassertion.ServiceAccount{{Namespace: "apps", Name: "default", UID: "s3"}}
	})
	add("frozen", "pod", func(*registry.Client) {})
	return s
}

func TestServiceAccountTokens(t *testing.T) {
	unbound := of("apps", "billing", "s1")
	delete(unbound["kubernetes.io"].(members), "pod")
	const as = "&client_id=pod"
	tests := map[string]struct {
		request    request
		wantStatus int // 200
		wantError  string
		wantScope  string
	}{
		"good":                {request: byAssertion(accountToken(t, nil, nil), as), wantScope: "stock"},
		"the other account":   {request: byAssertion(accountToken(t, nil, of("apps", "other", "s2")), as+"&scope=stock"), wantScope: "stock"},
		"as another client":   {request: byAssertion(accountToken(t, nil, nil), "&client_id=again")},
		"as no client":        {request: byAssertion(accountToken(t, nil, nil), ""), wantStatus: 400, wantError: "invalid_request"},
		"as an unknown one":   {request: byAssertion(accountToken(t, nil, nil), "&client_id=nobody"), wantStatus: 401, wantError: "invalid_client"},
		"as a stranger":       {request: byAssertion(accountToken(t, nil, nil), "&client_id=billing"), wantStatus: 401, wantError: "invalid_client"},
		"as a suspended one":  {request: byAssertion(accountToken(t, nil, nil), "&client_id=podsuspended"), wantStatus: 401, wantError: "invalid_client"},
		"and Basic":           {request: request{body: byAssertion(accountToken(t, nil, nil), "").body, authorization: good}, wantStatus: 400, wantError: "invalid_request"},
		"in the query":        {request: request{query: byAssertion(accountToken(t, nil, nil), "").body}, wantStatus: 400, wantError: "invalid_request"},
		"wrong namespace":     {request: byAssertion(accountToken(t, nil, of("elsewhere", "billing", "s1")), as), wantStatus: 401, wantError: "invalid_client"},
		"wrong account":       {request: byAssertion(accountToken(t, nil, of("apps", "stranger", "s1")), as), wantStatus: 401, wantError: "invalid_client"},
		"one that was before": {request: byAssertion(accountToken(t, nil, of("apps", "billing", "s0")), as), wantStatus: 401, wantError: "invalid_client"},
		"default":             {request: byAssertion(accountToken(t, nil, of("apps", "default", "s3")), "&client_id=fallback"), wantStatus: 401, wantError: "invalid_client"},
		"bound to no pod":     {request: byAssertion(accountToken(t, nil, unbound), as), wantStatus: 401, wantError: "invalid_client"},
		"wrong audience":      {request: byAssertion(accountToken(t, nil, members{"aud": clusterIssuer}), as), wantStatus: 401, wantError: "invalid_client"},
		"two audiences":       {request: byAssertion(accountToken(t, nil, members{"aud": []string{acme, clusterIssuer}}), as), wantStatus: 401, wantError: "invalid_client"},
		"expired":             {request: byAssertion(accountToken(t, nil, members{"exp": now.Unix()}), as), wantStatus: 401, wantError: "invalid_client"},
		"without end":         {request: byAssertion(accountToken(t, nil, members{"exp": nil}), as), wantStatus: 401, wantError: "invalid_client"},
		"another cluster's":   {request: byAssertion(accountToken(t, nil, members{"iss": "https://example.com"}), as), wantStatus: 401, wantError: "invalid_client"},
		"an unknown key":      {request: byAssertion(accountToken(t, members{"kid": canary}, nil), as), wantStatus: 401, wantError: "invalid_client"},
		"without a key's id":  {request: byAssertion(accountToken(t, members{"kid": nil}, nil), as), wantStatus: 401, wantError: "invalid_client"},
		"another algorithm":   {request: byAssertion(accountToken(t, members{"alg": "PS256"}, nil), as), wantStatus: 401, wantError: "invalid_client"},
		"of no algorithm":     {request: byAssertion(accountToken(t, members{"alg": "none"}, nil), as), wantStatus: 401, wantError: "invalid_client"},
		"signed by the client's key": {
			request:    byAssertion(assertion(t, signingkey.ES256, nil, changed(members{"iss": clusterIssuer, "exp": now.Unix() + 60}, of("apps", "billing", "s1"))), as),
			wantStatus: 401, wantError: "invalid_client",
		},
		"a suspended realm": {
			request:    request{path: "/frozen/oauth2/token", body: byAssertion(accountToken(t, nil, members{"aud": "https://" + host + "/frozen"}), as).body},
			wantStatus: 401, wantError: "invalid_client",
		},
	}
	key := keys()[signingkey.RS256]
	s := startInCluster(t, clusterOf{&key})
	client := s.clientOf(t, "HTTP/2")
	unknown := s.send(t, client, byAssertion(accountToken(t, nil, nil), "&client_id=nobody"))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.send(t, client, tc.request)
			if tc.wantError == "" {
				checkToken(t, got, tc.wantScope, nil)
				return
			}
			realm := "acme"
			if tc.request.path != "" {
				realm = "frozen"
			}
			checkRefusal(t, got, tc.wantStatus, tc.wantError, realm)
			if tc.wantStatus == 401 {
				if diff := cmp.Diff(unknown.body, got.body); diff != "" {
					t.Errorf("an unknown client's answer and this one (-unknown +got):\n%s", diff)
				}
			}
		})
	}
}

// A pod presents the same token until it is renewed.
func TestServiceAccountTokenIsNotUsedUp(t *testing.T) {
	key := keys()[signingkey.RS256]
	s := startInCluster(t, clusterOf{&key})
	client := s.clientOf(t, "HTTP/2")
	again := byAssertion(accountToken(t, nil, nil), "&client_id=pod")
	for range 3 {
		checkToken(t, s.send(t, client, again), "stock", nil)
	}
}

// While nothing is known of the cluster nobody is told that a token is wrong.
func TestClusterThatWasNeverReached(t *testing.T) {
	token := byAssertion(accountToken(t, nil, nil), "&client_id=pod")
	s := startInCluster(t, clusterOf{})
	checkRefusal(t, s.send(t, s.clientOf(t, "HTTP/2"), token), 503, "temporarily_unavailable", "acme")

	without := startInCluster(t, nil)
	checkRefusal(t, without.send(t, without.clientOf(t, "HTTP/2"), token), 401, "invalid_client", "acme")
}
