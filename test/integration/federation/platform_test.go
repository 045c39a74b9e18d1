package federation_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// platform is a local issuer with the discovery document and the tokens of a real one.
type platform struct {
	url       string
	authority v1beta1.IssuerCABundle
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
	keyID     string
	published *atomic.Pointer[[]jose.JSONWebKey]
	shape     func(issuer, audience string, now time.Time) issuer.Claims
}

// startPlatform starts an issuer. Its metadata contains only the required members and more, because
// AWS omits those that OpenID Connect requires. Its keys are on another host, as those of Google.
func startPlatform(t *testing.T, algorithm jose.SignatureAlgorithm, shape func(string, string, time.Time) issuer.Claims, more map[string]any) *platform {
	t.Helper()
	p := &platform{algorithm: algorithm, shape: shape, published: &atomic.Pointer[[]jose.JSONWebKey]{}}
	p.addKey(t, "1")
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: *p.published.Load()})
	}))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		metadata := map[string]any{"issuer": p.url, "jwks_uri": other.URL + "/certs"}
		maps.Copy(metadata, more)
		_ = json.NewEncoder(w).Encode(metadata)
	})
	for _, s := range []*httptest.Server{server, other} {
		p.authority += v1beta1.IssuerCABundle(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	}
	return p
}

// addKey publishes another key and signs with it from now on.
func (p *platform) addKey(t *testing.T, id string) {
	t.Helper()
	var err error
	if p.algorithm == jose.ES384 {
		p.key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	} else {
		p.key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.keyID = id
	keys := []jose.JSONWebKey{{Key: p.key.Public(), KeyID: id, Algorithm: string(p.algorithm), Use: "sig"}}
	if before := p.published.Load(); before != nil {
		keys = append(keys, *before...)
	}
	p.published.Store(&keys)
}

// token returns a token with changed claims.
func (p *platform) token(t *testing.T, audience string, change map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: p.algorithm, Key: jose.JSONWebKey{Key: p.key, KeyID: p.keyID}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	claims := p.shape(p.url, audience, time.Now())
	maps.Copy(claims, change)
	token, err := jwt.Signed(signer).Claims(map[string]any(claims)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Workloads of other platforms get tokens with the tokens that their platforms sign. Only a token
// that the client identifies exactly is accepted.
func TestPlatforms(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{SpeedUp: often, LocalIssuers: true})
	inst.StartOperator(t, "")
	server := inst.StartTokenServer(t)
	namespace := cluster.Namespace(t)

	type identity = v1beta1.Identity
	type match = v1beta1.ClaimMatches
	tests := map[string]struct {
		*platform
		required v1beta1.RequiredClaims
		identity identity
		rejected map[string]map[string]any // changes of claims
	}{
		"github": {
			platform: startPlatform(t, jose.RS256, issuer.GitHub, map[string]any{
				"subject_types_supported": []string{"public", "pairwise"}, "response_types_supported": []string{"id_token"},
				"id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid"},
			}),
			required: v1beta1.RequiredClaims{{Name: "repository_owner_id", Value: "4711"}},
			identity: identity{Subject: issuer.GitHubSubject},
			rejected: map[string]map[string]any{
				"another owner":     {"repository_owner_id": "4712"},
				"owner as a number": {"repository_owner_id": 4711},
				"pull request":      {"sub": "repo:acme@4711/shop@8215:pull_request"},
				"longer subject":    {"sub": issuer.GitHubSubject + "-2"},
			},
		},
		"gitlab": {
			platform: startPlatform(t, jose.RS256, issuer.GitLab, map[string]any{
				"authorization_endpoint": "https://gitlab.example.com/oauth/authorize", "subject_types_supported": []string{"public"},
			}),
			required: v1beta1.RequiredClaims{{Name: "namespace_id", Value: "72"}},
			identity: identity{MatchClaims: match{{Name: "project_id", Value: "20"}, {Name: "ref_protected", Value: "true"}}},
			rejected: map[string]map[string]any{
				"unprotected branch": {"ref_protected": "false"},
				"boolean":            {"ref_protected": true},
				"project of a fork":  {"project_id": "21"},
				"project in a list":  {"project_id": []string{"20"}},
				"another group":      {"namespace_id": "73"},
				"audience of GitLab": {"aud": "https://gitlab.example.com"},
			},
		},
		"google": {
			platform: startPlatform(t, jose.RS256, issuer.Google, nil),
			identity: identity{Subject: issuer.GoogleSubject},
			rejected: map[string]map[string]any{
				"another account":     {"sub": "110987294251917851299"},
				"account in azp only": {"sub": "1"},
			},
		},
		"aws": {
			platform: startPlatform(t, jose.ES384, issuer.AWS, map[string]any{"claims_supported": []string{"sub", "aud"}}),
			identity: identity{Subject: issuer.AWSSubject},
			rejected: map[string]map[string]any{
				"another role":  {"sub": "arn:aws:iam::123456789012:role/payments"},
				"two audiences": {"aud": []string{"https://api.example.com", "https://x.example.com"}},
			},
		},
	}

	realm := install.Realm("acme", func(r *v1beta1.Realm) {
		for name, tc := range tests {
			r.Spec.TrustedIssuers = append(r.Spec.TrustedIssuers, v1beta1.TrustedIssuer{
				Name: name, Issuer: v1beta1.IssuerURL(tc.url), Keys: v1beta1.IssuerKeys{CABundle: tc.authority}, RequiredClaims: tc.required,
			})
		}
	})
	inst.Create(t, realm)
	awaitIssuers(t, inst, realm, metav1.ConditionTrue, v1beta1.ReasonIssuersResolved)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := install.ApiClient(namespace, name, realm.Name, func(c *v1beta1.ApiClient) {
				tc.identity.Name, tc.identity.Issuer = name, name
				c.Spec.Identities = []identity{tc.identity}
			})
			inst.Create(t, c)
			inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
			for _, way := range presentations {
				present := func(clientID string, change map[string]any) install.TokenResponse {
					t.Helper()
					got, err := way.request(t, server, server.Client(t), realm.Status.TokenEndpoint, clientID, tc.token(t, realm.Status.Issuer, change))
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				install.Eventually(t, "a token by "+way.name, func() error {
					if got := present(c.Status.ClientID, nil); got.Status != http.StatusOK || clientOf(t, got.AccessToken) != c.Status.ClientID {
						return fmt.Errorf("the response is %+v", got)
					}
					return nil
				})
				// Claims are never searched for, so only a subject identifies the client.
				want := ""
				if tc.identity.Subject == "" {
					want = "invalid_request"
				}
				if got := present("", nil); got.Error != want {
					t.Errorf("%s without the client ID: %+v, want the error %q", way.name, got, want)
				}
				for name, change := range tc.rejected {
					if got := present(c.Status.ClientID, change); got.Status != way.status || got.Error != way.rejection {
						t.Errorf("%s, %s: %+v, want %d %s", way.name, name, got, way.status, way.rejection)
					}
				}
			}
			if name != "github" {
				return
			}
			// The issuer signs with a new key, and still publishes the old one.
			old := tc.token(t, realm.Status.Issuer, nil)
			tc.addKey(t, "2")
			request := func(token string) error {
				got, err := install.RequestTokenByGrant(t, server, server.Client(t), realm.Status.TokenEndpoint, "", token)
				if err == nil && got.Status != http.StatusOK {
					err = fmt.Errorf("the response is %+v", got)
				}
				return err
			}
			install.Eventually(t, "a token with the new key", func() error { return request(tc.token(t, realm.Status.Issuer, nil)) })
			if err := request(old); err != nil {
				t.Errorf("a token with the old key: %v", err)
			}
		})
	}
}
