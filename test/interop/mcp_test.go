package interop_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

const toolScope = "tools.call"

// mcpServer is the MCP server from the guide, with a realm of its own.
type mcpServer struct {
	*installation
	dir      string // contains the guide's programs
	realm    *v1beta1.Realm
	resource string // the URL of the MCP endpoint
	issuer   string
	idp      *issuer.Issuer // the identity provider of the agents' users
}

// testModelContextProtocol checks that agents that use the official SDKs can call the MCP server
// from the guide, with each way to authenticate that the SDKs have.
func testModelContextProtocol(t *testing.T, i *installation) {
	m := i.startMCP(t)
	secret := m.create(t, "agent", func(c *v1beta1.ApiClient) { c.Spec.Secret = install.GeneratedSecret() })
	clientSecret := string(i.inst.CredentialsSecret(t, secret).Data["client_secret"])
	t.Run("ClientCredentialsProvider", func(t *testing.T) {
		m.wantCalled(t, secret, "secret", "CLIENT_SECRET="+clientSecret)
	})
	t.Run("another realm", func(t *testing.T) {
		m.wantFailed(t, secret, "bound to authorization server", "secret", "CLIENT_SECRET="+clientSecret, "ISSUER="+i.issuer)
	})
	t.Run("Go", func(t *testing.T) { m.testGo(t, secret.Status.ClientID, clientSecret) })
	t.Run("PrivateKeyJwtProvider", m.testPrivateKeys)
	t.Run("StaticPrivateKeyJwtProvider", m.testServiceAccount)
	t.Run("CrossAppAccessProvider", func(t *testing.T) { m.testCrossAppAccess(t, secret, clientSecret) })
	t.Run("EnterpriseHandler", func(t *testing.T) { m.testEnterprise(t, secret.Status.ClientID, clientSecret) })
	t.Run("missing scope", func(t *testing.T) {
		c := m.create(t, "reader", func(c *v1beta1.ApiClient) {
			c.Spec.Secret, c.Spec.Scopes = install.GeneratedSecret(), []string{scope}
		})
		other := string(i.inst.CredentialsSecret(t, c).Data["client_secret"])
		m.wantFailed(t, c, "403", "secret", "CLIENT_SECRET="+other)
	})
}

// testPrivateKeys checks that a client's assertions, which have no key ID, are accepted with each
// of its keys. The keys have the same type, so the type doesn't identify the key.
func (m *mcpServer) testPrivateKeys(t *testing.T) {
	keys := []crypto.Signer{ecdsaKey(t), ecdsaKey(t)}
	c := m.create(t, "keys", func(c *v1beta1.ApiClient) {
		for n, key := range keys {
			der, err := x509.MarshalPKIXPublicKey(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
			c.Spec.PublicKeys = append(c.Spec.PublicKeys, v1beta1.PublicKey{KeyID: strconv.Itoa(n), PEM: v1beta1.PEMPublicKey(block)})
		}
	})
	for _, key := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		m.wantCalled(t, c, "key", "PRIVATE_KEY_FILE="+file)
	}
}

// testServiceAccount checks that an agent in a Pod can present the Pod's token. The SDK doesn't
// send a client ID with it.
func (m *mcpServer) testServiceAccount(t *testing.T) {
	var pod *corev1.Pod
	c := m.create(t, "pod-agent", func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts(c.Name)
		pod = install.CreatePod(t, m.cluster.Client, c.Namespace, c.Name)
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(install.PodToken(t, m.cluster.Client, pod, m.issuer)), 0o600); err != nil {
		t.Fatal(err)
	}
	m.wantCalled(t, c, "token", "TOKEN_FILE="+file)
}

// testGo calls the tool with the Go SDK as the guide describes.
func (m *mcpServer) testGo(t *testing.T, clientID, clientSecret string) {
	handler, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{
			ClientID:         clientID,
			ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: clientSecret},
			Issuer:           m.issuer,
		},
		HTTPClient: m.httpClient(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.wantCalledByGo(t, handler, clientID)
}

// wantCalledByGo calls the tool with the Go SDK, which must return the client ID.
func (m *mcpServer) wantCalledByGo(t *testing.T, handler auth.OAuthHandler, clientID string) {
	t.Helper()
	agent := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1.0.0"}, nil)
	session, err := agent.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: m.resource, OAuthHandler: handler, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != clientID {
		t.Errorf("the tool returned %v, want %q", result.Content, clientID)
	}
}

// httpClient returns a client for the MCP server, the identity provider, and the token server. Names
// under localhost may be unknown to the resolver.
func (m *mcpServer) httpClient(t *testing.T) *http.Client {
	t.Helper()
	client := m.server.ClientTrusting(t, slices.Concat(m.inst.CABundle(t), m.idp.Authority()))
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the client's transport is %T", client.Transport)
	}
	var hosts []string
	for _, address := range []string{m.resource, m.idp.URL()} {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, parsed.Host)
	}
	direct, server := &net.Dialer{}, transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(hosts, address) {
			return direct.DialContext(ctx, network, address)
		}
		return server(ctx, network, address)
	}
	return client
}

func (i *installation) startMCP(t *testing.T) *mcpServer {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	m := &mcpServer{installation: i, dir: guidePrograms(t), resource: "http://" + port.Address() + "/mcp", idp: startIdP(t)}
	m.realm = install.Realm("agents", func(r *v1beta1.Realm) {
		r.Spec.Audiences, r.Spec.Scopes = []string{m.resource}, []string{toolScope, scope}
		m.acceptIDJAGs(t, r)
	})
	i.inst.Create(t, m.realm)
	i.inst.AwaitReady(t, m.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	m.issuer = m.realm.Status.Issuer

	command := m.program(t, "server.js", fmt.Sprintf("PORT=%d", port.Number()))
	startServer(t, process.Command{Name: "mcp-server", Path: command.Path, Args: command.Args[1:], Dir: m.dir, Env: command.Env},
		http.DefaultClient, http.MethodPost, m.resource)
	return m
}

// guidePrograms returns a directory with the guide's programs and the packages that they import.
func guidePrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "docs", "guides", "mcp"))); err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs(filepath.Join("node", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// program returns a command that runs one of the guide's programs.
func (m *mcpServer) program(t *testing.T, program string, variables ...string) *exec.Cmd {
	t.Helper()
	command := m.node(t.Context(), t, filepath.Join(m.dir, program))
	command.Env = append(command.Env, "ISSUER="+m.issuer, "RESOURCE="+m.resource, "SCOPE="+toolScope)
	command.Env = append(command.Env, variables...)
	return command
}

// create creates a client of the MCP server's realm.
func (m *mcpServer) create(t *testing.T, name string, change func(*v1beta1.ApiClient)) *v1beta1.ApiClient {
	t.Helper()
	c := install.ApiClient(m.client.Namespace, name, m.realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes = []string{toolScope}
		change(c)
	})
	m.inst.Create(t, c)
	m.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	return c
}

// agent runs the guide's agent with one of its providers. It returns the standard output and the
// error with the standard error.
func (m *mcpServer) agent(t *testing.T, c *v1beta1.ApiClient, provider string, variables ...string) (string, error) {
	t.Helper()
	command := m.program(t, "agent.js", append([]string{"CLIENT_ID=" + c.Status.ClientID}, variables...)...)
	command.Args = append(command.Args, provider)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), err
}

func (m *mcpServer) wantCalled(t *testing.T, c *v1beta1.ApiClient, provider string, variables ...string) {
	t.Helper()
	if got, err := m.agent(t, c, provider, variables...); err != nil || got != c.Status.ClientID {
		t.Errorf("the tool returned %q, %v, want %q", got, err, c.Status.ClientID)
	}
}

func (m *mcpServer) wantFailed(t *testing.T, c *v1beta1.ApiClient, message, provider string, variables ...string) {
	t.Helper()
	if got, err := m.agent(t, c, provider, variables...); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("the tool returned %q, %v, want an error with %q", got, err, message)
	}
}

func ecdsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
