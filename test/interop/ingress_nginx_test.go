package interop_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

// TestIngressNginxStatesTheRequest runs nginx with the headers in the ConfigMap of the guide for
// ingress-nginx, and with the directives around them that ingress-nginx generates. The caller must
// not be able to choose what the token service compares with a proof, in particular the host, and
// each header must occur once. TLS is terminated in front of nginx.
func TestIngressNginxStatesTheRequest(t *testing.T) {
	stated, headers := ingressNginx(t)
	verified := make(chan http.Header, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/verify" {
			verified <- r.Header
		}
	}))
	t.Cleanup(service.Close)
	address := startIngressNginx(t, service.URL, headers)

	const forged = "X-Original-Method: PUT\r\nX-Original-URL: https://evil.example/\r\n" +
		"X-Forwarded-Method: PUT\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Uri: /evil\r\n"
	for name, request := range map[string]string{
		"path":                     "POST /v1/x?page=%31 HTTP/1.1\r\nHost: orders.acme.example\r\n",
		"forged headers":           "POST /v1/x?page=%31 HTTP/1.1\r\nHost: orders.acme.example\r\n" + forged + forged,
		"headers in Connection":    "POST /v1/x?page=%31 HTTP/1.1\r\nHost: orders.acme.example\r\nConnection: X-Forwarded-Host, X-Original-URL\r\n",
		"another port":             "POST /v1/x?page=%31 HTTP/1.1\r\nHost: orders.acme.example:8443\r\n",
		"absolute URL, other Host": "POST http://orders.acme.example/v1/x?page=%31 HTTP/1.1\r\nHost: evil.example\r\n" + forged,
	} {
		t.Run(name, func(t *testing.T) {
			if status := sendRaw(t, address, request+"Content-Length: 0\r\nAuthorization: DPoP token\r\nDPoP: proof\r\n\r\n"); status != http.StatusOK {
				t.Fatalf("got status %d, want 200", status)
			}
			want := map[string][]string{"Authorization": {"DPoP token"}, "Dpop": {"proof"}}
			switch stated {
			case "original":
				want["X-Original-Method"], want["X-Original-Url"] = []string{"POST"}, []string{"https://orders.acme.example/v1/x?page=%31"}
			case "forwarded":
				want["X-Forwarded-Method"], want["X-Forwarded-Proto"] = []string{"POST"}, []string{"https"}
				want["X-Forwarded-Host"], want["X-Forwarded-Uri"] = []string{"orders.acme.example"}, []string{"/v1/x?page=%31"}
			default:
				t.Fatalf("the manifest has dpop=%s", stated)
			}
			got := map[string][]string{}
			for name, values := range <-verified {
				if want[name] != nil {
					got[name] = values
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers at the token service (-want +got):\n%s", diff)
			}
		})
	}
}

// ingressNginx returns the parameter dpop of the auth-url in the guide's manifest, and the headers in
// its ConfigMap.
func ingressNginx(t *testing.T) (stated string, headers map[string]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "gateways", "ingress-nginx", "ingress.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(content), "\n---\n")
	var ingress networkingv1.Ingress
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(first), &ingress); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(second), &config); err != nil {
		t.Fatal(err)
	}
	verify, err := url.Parse(ingress.Annotations["nginx.ingress.kubernetes.io/auth-url"])
	if err != nil {
		t.Fatal(err)
	}
	if ingress.Annotations["nginx.ingress.kubernetes.io/auth-proxy-set-headers"] != config.Namespace+"/"+config.Name {
		t.Fatalf("the annotations %v don't refer to the ConfigMap %s/%s", ingress.Annotations, config.Namespace, config.Name)
	}
	return verify.Query().Get("dpop"), config.Data
}

// startIngressNginx starts nginx with a server for orders.acme.example, which asks the service about
// each request, and returns its address. ingress-nginx forwards all headers of the caller, states the
// request with the Host header of the caller, and adds the configured headers in alphabetical order.
func startIngressNginx(t *testing.T, service string, headers map[string]string) string {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	var configured strings.Builder
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&configured, "proxy_set_header '%s' '%s';\n", name, headers[name])
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"nginx.conf": nginxMain,
		"orders.conf": strings.NewReplacer("LISTEN", port.Address(), "SERVICE", service, "CONFIGURED", configured.String()).Replace(`
server {
    listen LISTEN default_server;
    return 404;
}
server {
    listen LISTEN;
    server_name orders.acme.example;
    location = /_external-auth {
        internal;
        proxy_pass_request_body off;
        proxy_pass_request_headers on;
        proxy_set_header Content-Length "";
        proxy_set_header X-Forwarded-Proto "";
        proxy_set_header Host api.example.com;
        proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
        proxy_set_header X-Original-Method $request_method;
        CONFIGURED
        set $target SERVICE/verify;
        proxy_pass $target;
    }
    location / {
        auth_request /_external-auth;
        proxy_pass SERVICE;
    }
}
`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := &nginx{url: "http://" + port.Address(), client: http.DefaultClient}
	n.start(t, dir)
	return port.Address()
}

// sendRaw sends a request, exactly as it is written, and returns the status of the response.
func sendRaw(t *testing.T, address, request string) int {
	t.Helper()
	connection, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
