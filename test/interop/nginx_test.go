package interop_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// nginx with the server of the guide lets through what the token service does, tells the API
// who calls, and knows within a moment that a client was suspended.
func testNginx(t *testing.T, p *place) {
	n := p.startNginx(t)
	good := p.token(t)
	writer := p.another(t, "writer", func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{"orders.write"} })
	known := map[string]string{"X-Auth-Client-Id": p.clientID, "X-Auth-Realm": p.realm.Name, "X-Auth-Scope": scope}
	tests := map[string]struct {
		method        string
		authorization string
		forged        bool // the caller sends headers that only the gateway may set
		wantStatus    int
		wantChallenge string
		wantHeaders   map[string]string // of the request that the API gets
	}{
		"good":                {http.MethodGet, "Bearer " + good, false, 200, "", known},
		"with a body":         {http.MethodPost, "Bearer " + good, false, 200, "", known},
		"who calls is forged": {http.MethodGet, "Bearer " + good, true, 200, "", known},
		"no token":            {http.MethodGet, "", false, 401, "Bearer", nil},
		"no token but forged": {http.MethodGet, "", true, 401, "Bearer", nil},
		"cut off":             {http.MethodGet, "Bearer " + good[:len(good)-8], false, 401, `Bearer error="invalid_token"`, nil},
		"without the scope":   {http.MethodGet, "Bearer " + p.tokenOf(t, writer), false, 403, "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := n.call(t, tc.method, tc.authorization, tc.forged)
			if got.status != tc.wantStatus || got.challenge != tc.wantChallenge {
				t.Errorf("status %d, challenge %q, want %d, %q", got.status, got.challenge, tc.wantStatus, tc.wantChallenge)
			}
			if diff := cmp.Diff(tc.wantHeaders, got.headers); diff != "" {
				t.Errorf("the API gets (-want +got):\n%s", diff)
			}
		})
	}
	testinstall.Change(t, p.install, p.client, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	n.awaitStatus(t, good, http.StatusUnauthorized)
	testinstall.Change(t, p.install, p.client, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	n.awaitStatus(t, good, http.StatusOK)
}

// nginx is a running one, before an API that tells what headers it got.
type nginx struct {
	url    string
	client *http.Client
	got    chan http.Header
}

func (p *place) startNginx(t *testing.T) *nginx {
	t.Helper()
	n := &nginx{got: make(chan http.Header, 1)}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.got <- r.Header
		_, _ = io.Copy(w, r.Body) // what isn't read can't be told from lost
	}))
	t.Cleanup(api.Close)
	// A server that isn't asked has a certificate for 127.0.0.1 and a client that trusts it.
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	n.client = tls.Client()

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
		"orders.conf": []byte(p.guideOfNginx(t, dir, port.Address(), api.Listener.Addr().String())),
		"nginx.conf": []byte(`daemon off;
user root;  # ignored where the test runs as another
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
`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.start(t, dir)
	return n
}

// guideOfNginx returns the server of the guide with the names of this place.
func (p *place) guideOfNginx(t *testing.T, dir, listen, api string) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "nginx", "orders.conf"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := url.Parse(p.issuer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(
		"server api.example.com:443;", "server "+p.server.Address+";",
		"api.example.com", issuer.Hostname(),
		"listen 443 ssl;", "listen "+listen+" ssl;",
		"orders.internal:8080", api,
		"/etc/nginx/realmkeeper-ca.crt", p.authority,
		"/etc/nginx/", dir+"/",
	).Replace(string(guide))
}

func (n *nginx) start(t *testing.T, dir string) {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx" // where Debian has it, which is not in everybody's PATH
	}
	running, err := process.Start(process.Command{Name: "nginx", Path: path, Dir: dir, Args: []string{"-p", dir, "-c", "nginx.conf"}})
	if err != nil {
		t.Fatalf("nginx is missing, which `make peers` installs: %v", err)
	}
	t.Cleanup(func() {
		if err := running.Stop(10 * time.Second); err != nil {
			t.Errorf("Stopping nginx: %v", err)
		}
		if t.Failed() {
			t.Logf("End of the log of nginx:\n%s", running.LogTail())
		}
	})
	err = running.Await(t.Context(), func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := n.client.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

type nginxAnswer struct {
	status    int
	challenge string
	headers   map[string]string // X-Auth-* that the API got; nil when it wasn't asked
}

func (n *nginx) call(t *testing.T, method, authorization string, forged bool) nginxAnswer {
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
	}
	answer, err := n.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	echo, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := nginxAnswer{status: answer.StatusCode, challenge: answer.Header.Get("WWW-Authenticate")}
	select {
	case header := <-n.got:
		got.headers = map[string]string{}
		for name, values := range header {
			if strings.HasPrefix(name, "X-Auth-") {
				got.headers[name] = strings.Join(values, ", ")
			}
		}
		if !bytes.Equal(echo, body) {
			t.Errorf("the API got %d bytes of %d", len(echo), len(body))
		}
	default:
	}
	return got
}

func (n *nginx) awaitStatus(t *testing.T, token string, want int) {
	t.Helper()
	testinstall.Eventually(t, fmt.Sprintf("nginx to answer %d", want), func() error {
		if got := n.call(t, http.MethodGet, "Bearer "+token, false); got.status != want {
			return fmt.Errorf("%w: %d", errAnswer, got.status)
		}
		return nil
	})
}
