package interop_test

import (
	"context"
	"crypto"
	"encoding/json"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/zitadel/oidc/v3/pkg/client"
	"github.com/zitadel/oidc/v3/pkg/client/tokenexchange"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

const (
	// agentsAudience is the audience of the actors.
	agentsAudience = "https://agents.acme.example"
	// foreignUser is a subject of the corporate issuer, and foreignSubject is what tokens state.
	foreignUser    = "alice@example.com"
	foreignSubject = "ext:corporate:alice%40example.com"
)

// delegation is a realm in which clients act for others.
type delegation struct {
	*installation
	issuer    string
	subject   *v1beta1.ApiClient
	agent     *v1beta1.ApiClient
	keyed     *signer
	corporate *issuer.Static
	spire     *trustDomain
	workload  spiffeid.ID
	pod       *corev1.Pod
	platform  crypto.Signer // signs the tokens of wifIssuer
}

// testDelegation checks clients that act for another client, or for a user of an issuer.
func testDelegation(t *testing.T, i *installation) {
	d := i.startDelegation(t)
	t.Run("metadata in go-oidc", d.testMetadata)
	t.Run("oauth4webapi and openid-client", d.testPrograms)
	t.Run("zitadel", d.testZitadel)
	t.Run("MCP Go SDK", d.testGoSDK)
	t.Run("workload identity of the MCP conformance tests", d.testWorkloadIdentity)
	t.Run("nginx", d.testNginx)
}

func (i *installation) startDelegation(t *testing.T) *delegation {
	t.Helper()
	d := &delegation{
		installation: i, spire: newTrustDomain(t), platform: ecdsaKey(t),
		corporate: issuer.NewStatic(t, "corporate", "https://login.example.com"),
	}
	d.workload = spiffeid.RequireFromPath(d.spire.domain, "/reports")
	realm := install.Realm("delegation", d.configure(t))
	key, public := newKey(t)
	create := func(name string, change func(*v1beta1.ApiClientSpec)) *v1beta1.ApiClient {
		c := install.ApiClient(i.client.Namespace, "delegation-"+name, realm.Name, func(c *v1beta1.ApiClient) {
			c.Spec.DelegatedScopes = []string{scope}
			change(&c.Spec)
		})
		i.inst.Create(t, c)
		return c
	}
	i.inst.Create(t, realm)
	d.subject = create("portal", func(s *v1beta1.ApiClientSpec) {
		s.Scopes, s.DelegatedScopes = []string{scope, "agents.call"}, nil
	})
	d.agent = create("agent", func(*v1beta1.ApiClientSpec) {})
	keyed := create("keyed", func(s *v1beta1.ApiClientSpec) { s.PublicKeys = []v1beta1.PublicKey{public} })
	for _, c := range []*v1beta1.ApiClient{
		d.subject, d.agent, keyed,
		create("pod", func(s *v1beta1.ApiClientSpec) {
			s.Identities = install.ServiceAccounts("delegation-pod")
			d.pod = install.CreatePod(t, i.cluster.Client, i.client.Namespace, "delegation-pod")
		}),
		create("svid", func(s *v1beta1.ApiClientSpec) { s.Identities = install.Subjects("example-org", d.workload.String()) }),
		create("wif", func(s *v1beta1.ApiClientSpec) {
			s.ClientID, s.Scopes = wifClient, []string{scope}
			s.Identities = install.Subjects("conformance", "conformance-workload")
		}),
	} {
		i.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	}
	i.inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	d.issuer = realm.Status.Issuer
	d.keyed = &signer{id: keyed.Status.ClientID, issuer: d.issuer, key: key}
	return d
}

// configure returns the change of the Realm that lets all clients of the namespace act for each other,
// and for users of the corporate issuer.
func (d *delegation) configure(t *testing.T) func(*v1beta1.Realm) {
	t.Helper()
	corporate := d.corporate.Trusted(t)
	corporate.Uses = []v1beta1.IssuerUse{v1beta1.IssuerUseSubject, v1beta1.IssuerUseIDJAG}
	platform, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: d.platform.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	team := v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{d.client.Namespace}}}
	return func(r *v1beta1.Realm) {
		r.Spec.Audiences, r.Spec.Scopes = []string{audience, agentsAudience}, []string{scope, "agents.call"}
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{
			corporate,
			{
				Name: "example-org", Issuer: v1beta1.IssuerURL(d.spire.domain.IDString()),
				Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(d.spire.keySets(t)["spiffe-bundle"])},
			},
			{Name: "conformance", Issuer: wifIssuer, Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(platform)}},
		}
		r.Spec.Exchanges = []v1beta1.Exchange{
			{
				Name: "orders-for-agents", Actors: team, Audiences: v1beta1.ExchangeAudiences{audience, agentsAudience},
				Subjects: v1beta1.ExchangeSubjects{Clients: &team, Audiences: v1beta1.ExchangeAudiences{agentsAudience}},
				Scopes:   v1beta1.ExchangeScopes{scope}, MaxDepth: 2,
			},
			{
				Name: "orders-for-users", Actors: team, Audiences: v1beta1.ExchangeAudiences{audience},
				Subjects: v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{
					Name: "corporate", MatchClaims: v1beta1.ClaimMatches{{Name: "azp", Value: "portal"}},
				}},
				Scopes: v1beta1.ExchangeScopes{scope},
			},
		}
	}
}

// testMetadata checks that clients can discover what the realm supports, and what a realm without
// exchanges doesn't.
func (d *delegation) testMetadata(t *testing.T) {
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, d.httpClient(t))
	type metadata struct {
		Grants   []string `json:"grant_types_supported"`
		Profiles []string `json:"authorization_grant_profiles_supported"`
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
	}
	grants := []string{"client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"}
	methods := []string{"client_secret_basic", "client_secret_post", "private_key_jwt"}
	for url, want := range map[string]metadata{
		d.installation.issuer: {grants, nil, methods},
		d.issuer: {
			append(slices.Clone(grants), "urn:ietf:params:oauth:grant-type:token-exchange"),
			[]string{"urn:ietf:params:oauth:grant-profile:id-jag"},
			append(slices.Clone(methods), "spiffe_jwt"),
		},
	} {
		provider, err := gooidc.NewProvider(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		var got metadata
		if err := provider.Claims(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("metadata of %s (-want +got):\n%s", url, diff)
		}
	}
}

// testPrograms runs the program with the libraries from npm.
func (d *delegation) testPrograms(t *testing.T) {
	var steps []string
	for _, library := range []string{"oauth4webapi", "openid-client"} {
		for _, step := range []string{
			"metadata", "client_secret_basic", "private_key_jwt", "service account", "chain", "bound", "subject of an issuer", "jwt-spiffe",
		} {
			steps = append(steps, library+" "+step)
		}
	}
	d.runProgram(t, "delegation.js", steps, func(command *exec.Cmd) {
		command.Env = append(command.Env, "ISSUER="+d.issuer, "AGENTS="+agentsAudience,
			"SUBJECT_CLIENT_ID="+d.subject.Status.ClientID, "SUBJECT_CLIENT_SECRET="+d.secret(t, d.subject),
			"AGENT_CLIENT_ID="+d.agent.Status.ClientID, "AGENT_CLIENT_SECRET="+d.secret(t, d.agent),
			"KEY_CLIENT_ID="+d.keyed.id, "PRIVATE_KEY="+d.keyed.private(t),
			"POD_CLIENT_ID="+d.client.Namespace+".delegation-pod", "POD_TOKEN="+install.PodToken(t, d.cluster.Client, d.pod, d.issuer),
			"FOREIGN_TOKEN="+d.foreignToken(t), "FOREIGN_SUBJECT="+foreignSubject,
			"SVID_CLIENT_ID="+d.client.Namespace+".delegation-svid",
			"SVID="+d.spire.svid(t, d.workload, "https://oidc.example.org", true, d.issuer),
		)
	})
}

func (d *delegation) secret(t *testing.T, c *v1beta1.ApiClient) string {
	t.Helper()
	return string(d.inst.CredentialsSecret(t, c).Data["client_secret"])
}

// foreignToken returns a token that the corporate issuer has issued to its client portal.
func (d *delegation) foreignToken(t *testing.T) string {
	t.Helper()
	return d.corporate.Token(t, d.issuer, foreignUser, map[string]any{"azp": "portal"})
}

// testZitadel checks the token exchange of zitadel/oidc.
func (d *delegation) testZitadel(t *testing.T) {
	subject := d.tokenOf(t, d.inst.CredentialsSecret(t, d.subject))
	bySecret, err := tokenexchange.NewTokenExchangerClientCredentials(t.Context(), d.issuer, d.agent.Status.ClientID, d.secret(t, d.agent),
		tokenexchange.WithHTTPClient(d.httpClient(t)))
	if err != nil {
		t.Fatal(err)
	}
	key, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: d.keyed.key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byProfile, err := tokenexchange.NewTokenExchangerJWTProfile(t.Context(), d.issuer, d.keyed.id, key, tokenexchange.WithHTTPClient(d.httpClient(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		exchanger tokenexchange.TokenExchanger
		actor     string
	}{
		"client_secret_basic": {bySecret, d.agent.Status.ClientID},
		"private_key_jwt":     {&shortAssertion{byProfile, d.keyed.assertion(t)}, d.keyed.id},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := exchange(t, tc.exchanger, subject)
			if err != nil {
				t.Fatal(err)
			}
			if response.IssuedTokenType != oidc.AccessTokenType || response.TokenType != "bearer" || !slices.Equal(response.Scopes, []string{scope}) {
				t.Errorf("response is %+v", response)
			}
			d.wantActing(t, response.AccessToken, d.subject.Status.ClientID, tc.actor)
		})
	}
	t.Run("assertion of the library", func(t *testing.T) { // It is valid for an hour, which is too long.
		if response, err := exchange(t, byProfile, subject); err == nil || !strings.Contains(err.Error(), "invalid_client") {
			t.Errorf("response is %+v, %v, want invalid_client", response, err)
		}
	})
}

// shortAssertion replaces the assertion of the library.
type shortAssertion struct {
	tokenexchange.TokenExchanger
	assertion string
}

func (s *shortAssertion) AuthFn() (any, error) {
	return client.ClientAssertionFormAuthorization(s.assertion), nil
}

func exchange(t *testing.T, exchanger tokenexchange.TokenExchanger, subject string) (*oidc.TokenExchangeResponse, error) {
	t.Helper()
	return tokenexchange.ExchangeToken(t.Context(), exchanger, subject, oidc.AccessTokenType, "", "", []string{audience}, nil, []string{scope}, oidc.AccessTokenType)
}

// wantActing checks the claims of a token with which an actor acts for a subject.
func (d *delegation) wantActing(t *testing.T, token, subject, actor string) {
	t.Helper()
	type claims struct {
		Subject  string `json:"sub"`
		ClientID string `json:"client_id"`
		Audience string `json:"aud"`
		Scope    string `json:"scope"`
		Act      struct {
			Issuer  string `json:"iss"`
			Subject string `json:"sub"`
		} `json:"act"`
	}
	want, got := claims{Subject: subject, ClientID: actor, Audience: audience, Scope: scope}, claims{}
	want.Act.Issuer, want.Act.Subject = d.issuer, actor
	if err := install.Claims(token, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// testGoSDK exchanges an ID token with the Go SDK for MCP, which sends the audience twice: as audience
// and as resource.
func (d *delegation) testGoSDK(t *testing.T) {
	token, err := oauthex.ExchangeToken(t.Context(), d.issuer+"/oauth2/token", &oauthex.TokenExchangeRequest{
		RequestedTokenType: "urn:ietf:params:oauth:token-type:access_token", Audience: audience, Resource: audience, Scope: []string{scope},
		SubjectToken: d.foreignToken(t), SubjectTokenType: oauthex.TokenTypeIDToken,
	}, &oauthex.ClientCredentials{
		ClientID: d.agent.Status.ClientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: d.secret(t, d.agent)},
	}, d.httpClient(t))
	if err != nil {
		t.Fatal(err)
	}
	d.wantActing(t, token.AccessToken, foreignSubject, d.agent.Status.ClientID)
}

// The issuer and the client of the test auth/wif-jwt-bearer in the MCP conformance tests.
const (
	wifIssuer = "https://idp.conformance-test.local"
	wifClient = "conformance-wif-workload"
)

// testWorkloadIdentity sends the requests of the test auth/wif-jwt-bearer in the MCP conformance tests.
// Its tokens have no key ID.
func (d *delegation) testWorkloadIdentity(t *testing.T) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: d.platform}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		Status int
		Error  string
		Scope  string
	}
	for name, tc := range map[string]struct {
		audience string
		expiry   time.Duration
		want     result
	}{
		"valid":          {d.issuer, 5 * time.Minute, result{http.StatusOK, "", scope}},
		"wrong audience": {"https://wrong-auth-server.example.com", 5 * time.Minute, result{http.StatusBadRequest, "invalid_grant", ""}},
		"expired":        {d.issuer, -5 * time.Minute, result{http.StatusBadRequest, "invalid_grant", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			assertion, err := jwt.Signed(signer).Claims(jwt.Claims{
				Issuer: wifIssuer, Subject: "conformance-workload", Audience: jwt.Audience{tc.audience}, ID: name,
				IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(tc.expiry)),
			}).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			response, err := d.httpClient(t).PostForm(d.issuer+"/oauth2/token", url.Values{
				"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion},
				"resource": {audience}, "client_id": {wifClient},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got := result{Status: response.StatusCode}
			if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// testNginx checks that an API behind nginx gets requests with which a client acts for another subject
// only if its configuration accepts them, and until the subject is suspended.
func (d *delegation) testNginx(t *testing.T) {
	own := func(config string) string {
		return strings.ReplaceAll(config, "realmkeeper/acme/", "realmkeeper/delegation/")
	}
	accepting := func(config string) string {
		return strings.ReplaceAll(own(config), "&dpop=original", "&dpop=original&delegated=true")
	}
	strict, lenient := d.startNginx(t, own), d.startNginx(t, accepting)
	exchanger, err := tokenexchange.NewTokenExchangerClientCredentials(t.Context(), d.issuer, d.agent.Status.ClientID, d.secret(t, d.agent),
		tokenexchange.WithHTTPClient(d.httpClient(t)))
	if err != nil {
		t.Fatal(err)
	}
	subject := d.tokenOf(t, d.inst.CredentialsSecret(t, d.subject))
	delegated, err := exchange(t, exchanger, subject)
	if err != nil {
		t.Fatal(err)
	}
	headers := func(clientID, scopes string) map[string]string {
		return map[string]string{
			"X-Auth-Client-Id": clientID, "X-Auth-Realm": "delegation", "X-Auth-Scope": scopes, "X-Auth-Subject": d.subject.Status.ClientID,
		}
	}
	acting, itself := headers(d.agent.Status.ClientID, scope), headers(d.subject.Status.ClientID, "agents.call "+scope)
	for name, tc := range map[string]struct {
		nginx       *nginx
		token       string
		forged      bool
		wantStatus  int
		wantHeaders map[string]string
	}{
		"delegated":                   {strict, delegated.AccessToken, false, http.StatusForbidden, nil},
		"delegated, accepted":         {lenient, delegated.AccessToken, false, http.StatusOK, acting},
		"delegated, accepted, forged": {lenient, delegated.AccessToken, true, http.StatusOK, acting},
		"client itself":               {strict, subject, true, http.StatusOK, itself},
		"client itself, accepted":     {lenient, subject, true, http.StatusOK, itself},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.nginx.call(t, http.MethodGet, "Bearer "+tc.token, tc.forged)
			if got.status != tc.wantStatus {
				t.Errorf("status %d, want %d", got.status, tc.wantStatus)
			}
			if diff := cmp.Diff(tc.wantHeaders, got.headers); diff != "" {
				t.Errorf("headers of the API's request (-want +got):\n%s", diff)
			}
		})
	}
	install.Change(t, d.inst, d.subject, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	lenient.awaitStatus(t, delegated.AccessToken, http.StatusUnauthorized)
}
