package interop_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// These tests are for agents that act for a user of the identity provider (enterprise-managed
// authorization). The SDKs exchange an ID token there for an ID-JAG, and the ID-JAG for a token of the
// realm.

func startIdP(t *testing.T) *issuer.Issuer {
	t.Helper()
	idp, err := issuer.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(idp.Close)
	return idp
}

// acceptIDJAGs lets the agents act for the users of the identity provider.
func (m *mcpServer) acceptIDJAGs(t *testing.T, r *v1beta1.Realm) {
	t.Helper()
	r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{m.idp.Trusted(t, "corporate")}
	r.Spec.Exchanges = []v1beta1.Exchange{{
		Name: "users", Audiences: v1beta1.ExchangeAudiences{m.resource}, Scopes: v1beta1.ExchangeScopes{toolScope},
		Actors:   v1beta1.ExchangeClients{Namespaces: v1beta1.ExchangeNamespaces{Names: []string{m.client.Namespace}}},
		Subjects: v1beta1.ExchangeSubjects{Issuer: &v1beta1.ExchangeIssuer{Name: "corporate", Use: v1beta1.ExchangeUseIDJAG}},
	}}
}

// testCrossAppAccess calls the tool with the SDK for JavaScript. An ID-JAG of one client must be
// rejected if another presents it.
func (m *mcpServer) testCrossAppAccess(t *testing.T, c *v1beta1.ApiClient, clientSecret string) {
	authorities, err := os.ReadFile(m.authority)
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), "both.crt")
	if err := os.WriteFile(both, slices.Concat(authorities, m.idp.Authority()), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T) (lines []string, stderr string, err error) {
		t.Helper()
		command := m.node(t.Context(), t, "idjag.js")
		command.Env = append(command.Env, "NODE_EXTRA_CA_CERTS="+both, "ISSUER="+m.issuer, "RESOURCE="+m.resource,
			"CLIENT_ID="+c.Status.ClientID, "CLIENT_SECRET="+clientSecret,
			"IDP="+m.idp.URL(), "IDP_CLIENT_ID="+issuer.AgentID, "ID_TOKEN="+m.idp.IDToken(t, foreignUser))
		var output strings.Builder
		command.Stderr = &output
		stdout, err := command.Output()
		return strings.Fields(string(stdout)), output.String(), err
	}
	t.Run("client of the ID-JAG", func(t *testing.T) {
		m.idp.RegisterAgent(m.issuer, c.Status.ClientID)
		lines, stderr, err := run(t)
		if err != nil || len(lines) != 2 || lines[0] != c.Status.ClientID {
			t.Fatalf("the program printed %q, want the client ID %s and its token: %v\n%s", lines, c.Status.ClientID, err, stderr)
		}
		m.wantUser(t, lines[1])
	})
	t.Run("another client", func(t *testing.T) {
		m.idp.RegisterAgent(m.issuer, "another")
		if lines, stderr, err := run(t); err == nil || !strings.Contains(stderr, "invalid_grant") {
			t.Errorf("the program printed %q, want invalid_grant: %v\n%s", lines, err, stderr)
		}
	})
}

// testEnterprise calls the tool with the SDK for Go.
func (m *mcpServer) testEnterprise(t *testing.T, clientID, clientSecret string) {
	m.idp.RegisterAgent(m.issuer, clientID)
	handler, err := extauth.NewEnterpriseHandler(&extauth.EnterpriseHandlerConfig{
		IdPIssuerURL: m.idp.URL(), IdPCredentials: &oauthex.ClientCredentials{ClientID: issuer.AgentID},
		MCPAuthServerURL: m.issuer, MCPResourceURI: m.resource, MCPScopes: []string{toolScope},
		MCPCredentials: &oauthex.ClientCredentials{ClientID: clientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: clientSecret}},
		IDTokenFetcher: func(context.Context) (*oauth2.Token, error) {
			return (&oauth2.Token{}).WithExtra(map[string]any{"id_token": m.idp.IDToken(t, foreignUser)}), nil
		},
		HTTPClient: m.httpClient(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.wantCalledByGo(t, handler, clientID)
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	m.wantUser(t, token.AccessToken)
}

// wantUser checks the subject of a token, which no actor has exchanged.
func (m *mcpServer) wantUser(t *testing.T, token string) {
	t.Helper()
	var claims struct {
		Subject string `json:"sub"`
		Scope   string `json:"scope"`
		Act     any    `json:"act"`
	}
	if err := install.Claims(token, &claims); err != nil || claims.Subject != foreignSubject || claims.Scope != toolScope || claims.Act != nil {
		t.Errorf("claims are %+v, want sub %q, scope %q, and no act: %v", claims, foreignSubject, toolScope, err)
	}
}
