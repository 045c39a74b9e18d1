package interop_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// testNginx checks nginx with the configuration from the guide. It must forward only requests with
// a valid token, pass the client's identity to the API, and soon reject the tokens of a client that
// is suspended.
func testNginx(t *testing.T, i *installation) {
	n := i.startNginx(t, asDocumented)
	good := i.token(t)
	writer := i.createClient(t, "writer", func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{"orders.write"} })
	identity := map[string]string{"X-Auth-Client-Id": i.clientID, "X-Auth-Realm": i.realm.Name, "X-Auth-Scope": scope, "X-Auth-Subject": i.clientID}
	// A client finds the realm with this document (RFC 9728).
	metadata := i.issuer + "/oauth2/resource-metadata/" + base64.RawURLEncoding.EncodeToString([]byte(audience))
	challenge := func(start string) string {
		return start + ` resource_metadata="` + metadata + `", scope="` + scope + `"`
	}
	tests := map[string]struct {
		method        string
		authorization string
		forged        bool // whether the caller sends headers that only the gateway may set
		wantStatus    int
		wantChallenge string
		wantHeaders   map[string]string // X-Auth-* headers that the API receives
	}{
		"valid token":                   {http.MethodGet, "Bearer " + good, false, 200, "", identity},
		"request body":                  {http.MethodPost, "Bearer " + good, false, 200, "", identity},
		"forged identity":               {http.MethodGet, "Bearer " + good, true, 200, "", identity},
		"no token":                      {http.MethodGet, "", false, 401, challenge("Bearer"), nil},
		"forged identity without token": {http.MethodGet, "", true, 401, challenge("Bearer"), nil},
		"truncated token":               {http.MethodGet, "Bearer " + good[:len(good)-8], false, 401, challenge(`Bearer error="invalid_token",`), nil},
		"missing scope":                 {http.MethodGet, "Bearer " + i.tokenOf(t, writer), false, 403, "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := n.call(t, tc.method, tc.authorization, tc.forged)
			if got.status != tc.wantStatus || got.challenge != tc.wantChallenge {
				t.Errorf("status %d, challenge %q, want %d, %q", got.status, got.challenge, tc.wantStatus, tc.wantChallenge)
			}
			if diff := cmp.Diff(tc.wantHeaders, got.headers); diff != "" {
				t.Errorf("headers of the API's request (-want +got):\n%s", diff)
			}
		})
	}
	n.testPreflight(t)
	n.wantMetadata(t, i.issuer)
	install.Change(t, i.inst, i.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	n.awaitStatus(t, good, http.StatusUnauthorized)
	install.Change(t, i.inst, i.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
	n.awaitStatus(t, good, http.StatusOK)
}

// testPreflight checks that the API gets only CORS preflights without a token, and without forged identities.
func (n *nginx) testPreflight(t *testing.T) {
	t.Helper()
	forged := http.Header{"X-Auth-Client-Id": {"root"}, "X-Auth-Realm": {"acme"}, "X-Auth-Scope": {"everything"}, "X-Auth-Subject": {"root"}}
	origin, method := http.Header{"Origin": {"https://shop.acme.example"}}, http.Header{"Access-Control-Request-Method": {"POST"}}
	tests := map[string]struct {
		method     string
		headers    []http.Header
		wantStatus int
	}{
		"preflight":                       {http.MethodOptions, []http.Header{origin, method}, 200},
		"preflight, forged identity":      {http.MethodOptions, []http.Header{origin, method, forged}, 200},
		"preflight of a private page":     {http.MethodOptions, []http.Header{{"Origin": {"null"}}, method}, 200},
		"OPTIONS":                         {http.MethodOptions, nil, 401},
		"OPTIONS without method":          {http.MethodOptions, []http.Header{origin}, 401},
		"OPTIONS without origin":          {http.MethodOptions, []http.Header{method}, 401},
		"OPTIONS with an empty origin":    {http.MethodOptions, []http.Header{{"Origin": {""}}, method}, 401},
		"GET with a preflight's headers":  {http.MethodGet, []http.Header{origin, method}, 401},
		"POST with a preflight's headers": {http.MethodPost, []http.Header{origin, method}, 401},
		"lower-case method":               {"options", []http.Header{origin, method}, 400},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tc.method, n.url+"/orders", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			for _, headers := range tc.headers {
				maps.Copy(request.Header, headers)
			}
			response, err := n.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			received := n.received()
			if response.StatusCode != tc.wantStatus || (received != nil) != (tc.wantStatus == http.StatusOK) || len(received) > 0 {
				t.Errorf("status %d and the API received %v, want %d and no identity", response.StatusCode, received, tc.wantStatus)
			}
		})
	}
}

// nginx is a running nginx in front of an API that records the headers it receives.
type nginx struct {
	url         string
	certificate *x509.Certificate
	client      *http.Client
	got         chan http.Header
}

// nginxMain is the main configuration of nginx. It includes the servers in orders.conf.
const nginxMain = `daemon off;
user root;  # ignored unless the test runs as root
worker_processes 1;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include orders.conf;
}
`

// asDocumented leaves the guide's configuration unchanged.
func asDocumented(config string) string { return config }

// startNginx starts nginx with the guide's configuration, to which change is applied.
func (i *installation) startNginx(t *testing.T, change func(config string) string) *nginx {
	t.Helper()
	n := &nginx{got: make(chan http.Header, 1)}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.got <- r.Header
		_, _ = io.Copy(w, r.Body) // The caller checks that this is the body that it sent.
	}))
	t.Cleanup(api.Close)
	// This server only provides a certificate for 127.0.0.1 and a client that trusts it.
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	n.client, n.certificate = tls.Client(), tls.Certificate()

	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	n.url = "https://" + port.Address()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(tls.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"orders.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}),
		"orders.key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"orders.conf": []byte(change(i.nginxConfig(t, dir, port.Address(), api.Listener.Addr().String()))),
		"nginx.conf":  []byte(nginxMain),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.start(t, dir)
	return n
}

// nginxConfig returns the server block from the guide with this installation's addresses and files.
func (i *installation) nginxConfig(t *testing.T, dir, listen, api string) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "nginx", "orders.conf"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := url.Parse(i.issuer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(
		"server api.example.com:443;", "server "+i.server.Address+";",
		"api.example.com", issuer.Hostname(),
		"listen 443 ssl;", "listen "+listen+" ssl;",
		"orders.internal:8080", api,
		"https://orders.acme.example$request_uri", "https://"+listen+"$request_uri",
		"/etc/nginx/realmkeeper-ca.crt", i.authority,
		"/etc/nginx/", dir+"/",
	).Replace(string(guide))
}

func (n *nginx) start(t *testing.T, dir string) {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // Debian's path, which is often missing from PATH
	}
	command := process.Command{Name: "nginx", Path: path, Dir: dir, Args: []string{"-p", dir, "-c", "nginx.conf"}}
	startServer(t, command, n.client, http.MethodGet, n.url)
}

type nginxResponse struct {
	status    int
	challenge string
	headers   map[string]string // X-Auth-* headers that the API received; nil if it was not called
}

func (n *nginx) call(t *testing.T, method, authorization string, forged bool) nginxResponse {
	t.Helper()
	body := []byte(strings.Repeat("an order ", 10_000))
	if method == http.MethodGet {
		body = nil
	}
	request, err := http.NewRequestWithContext(t.Context(), method, n.url+"/orders?audience=x", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	if forged {
		request.Header["X-Auth-Client-Id"] = []string{"root", "admin"}
		request.Header.Set("X-Auth-Scope", "everything")
		request.Header.Set("X-Auth-Subject", "root")
		request.Header["X_Auth_Client_Id"] = []string{"root"} // the same variable in CGI, WSGI, PHP, and Rack
	}
	response, err := n.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	echo, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := nginxResponse{response.StatusCode, response.Header.Get("WWW-Authenticate"), n.received()}
	if got.headers != nil && !bytes.Equal(echo, body) {
		t.Errorf("the API received %d bytes, want %d", len(echo), len(body))
	}
	return got
}

// received returns the X-Auth-* headers of the request that the API received, also in spellings with
// underscores, or nil if it was not called.
func (n *nginx) received() map[string]string {
	select {
	case header := <-n.got:
		headers := map[string]string{}
		for name, values := range header {
			if strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "x-auth-") {
				headers[name] = strings.Join(values, ", ")
			}
		}
		return headers
	default:
		return nil
	}
}

// wantMetadata checks that a client without a token finds the realm at the API's well-known path
// (RFC 9728 §3).
func (n *nginx) wantMetadata(t *testing.T, issuer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/.well-known/oauth-protected-resource", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := n.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Resource != audience || !slices.Equal(got.Servers, []string{issuer}) {
		t.Errorf("status %d and metadata %+v, want %s and %s: %v", response.StatusCode, got, audience, issuer, err)
	}
}

func (n *nginx) awaitStatus(t *testing.T, token string, want int) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("nginx to return status %d", want), func() error {
		if got := n.call(t, http.MethodGet, "Bearer "+token, false); got.status != want {
			return fmt.Errorf("%w: %d", errStatus, got.status)
		}
		return nil
	})
}
