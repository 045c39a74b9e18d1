package interop_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// TestIssuerRelay runs the relay of the guide with an HTTP proxy. The TLS connection must end at the issuer,
// so that the relay can't replace keys and doesn't have to know about new keys and certificates.
func TestIssuerRelay(t *testing.T) {
	keys := `{"keys":[{"kid":"first"}]}`
	issuer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, keys) }))
	defer issuer.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "login.acme.example:443" {
			t.Errorf("the proxy got %s %s", r.Method, r.Host)
		}
		connectThrough(t, w, issuer.Listener.Addr().String())
	}))
	defer proxy.Close()
	host, port, _ := net.SplitHostPort(proxy.Listener.Addr().String())
	listen, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Release()

	manifest, err := os.ReadFile("../../docs/operations/network/issuer-relay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(manifest), "\n---\n")[0]), &deployment); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	replace := strings.NewReplacer("TCP-LISTEN:8443", "TCP-LISTEN:"+strconv.Itoa(listen.Number())+",bind=127.0.0.1", "proxy.acme.example", host, "proxyport=3128", "proxyport="+port)
	var args []string
	for _, arg := range container.Args {
		args = append(args, replace.Replace(arg))
	}
	client := issuer.Client()
	client.Transport.(*http.Transport).DisableKeepAlives = true
	url := "https://" + listen.Address() + "/keys"
	startServer(t, process.Command{Name: "socat", Path: container.Command[0], Dir: t.TempDir(), Args: args}, client, http.MethodGet, url)

	for _, id := range []string{"first", "second"} {
		keys = `{"keys":[{"kid":"` + id + `"}]}`
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(got) != keys {
			t.Errorf("got %s and error %v, want %s", got, err, keys)
		}
	}
}

// connectThrough answers a CONNECT request and passes bytes on until one side ends.
func connectThrough(t *testing.T, w http.ResponseWriter, address string) {
	var dialer net.Dialer
	server, err := dialer.DialContext(context.WithoutCancel(t.Context()), "tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var both errgroup.Group
	both.Go(func() error { _, err := io.Copy(server, client); _ = server.Close(); return err })
	both.Go(func() error { _, err := io.Copy(client, server); _ = client.Close(); return err })
	_ = both.Wait()
}
