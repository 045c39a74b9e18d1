package localissuer_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tools/localissuer"
)

const realm = `
apiVersion: auth.realmkeeper.dev/v1beta1
kind: Realm
metadata: {name: acme}
spec:
  scopes: [orders.read]
  grants: [{name: apps, namespaces: {names: [apps]}, scopes: ["*"], audiences: ["*"]}]
---
`

// client returns the YAML of an ApiClient in namespace apps.
func client(name, spec string) string {
	return "apiVersion: auth.realmkeeper.dev/v1beta1\nkind: ApiClient\nmetadata: {name: " + name + ", namespace: apps}\n" +
		"spec: {realmRef: {name: acme}, " + spec + "}\n---\n"
}

var billing = client("billing", "scopes: [orders.read], secret: {generated: {}}")

// output collects what the issuer prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// fixture is a local issuer for files in a directory.
type fixture struct {
	t           *testing.T
	dir         string
	options     localissuer.Options
	out, errOut *output
	stop        context.CancelFunc
	ended       chan error
}

func newFixture(t *testing.T, files string) *fixture {
	f := &fixture{t: t, dir: t.TempDir()}
	f.options = localissuer.Options{
		Files:          localissuer.Files{Names: []string{f.dir}, Namespace: "default"},
		CredentialsDir: filepath.Join(t.TempDir(), "credentials"),
	}
	f.write("objects.yaml", files)
	return f
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	testkit.Do(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600))
}

// start runs the issuer until the end of the test or until end is called.
func (f *fixture) start() {
	f.t.Helper()
	var ctx context.Context
	ctx, f.stop = context.WithCancel(f.t.Context())
	f.out, f.errOut, f.ended = &output{}, &output{}, make(chan error, 1)
	options := f.options
	options.Out, options.ErrOut = f.out, f.errOut
	go func() { f.ended <- localissuer.Run(ctx, options) }()
	f.t.Cleanup(f.stop)
	f.await("Press Ctrl+C")
}

// end stops the issuer and waits for it.
func (f *fixture) end() {
	f.t.Helper()
	f.stop()
	testkit.Do(f.t, <-f.ended)
}

// await waits until the output of the issuer contains a text.
func (f *fixture) await(text string) {
	f.t.Helper()
	f.eventually("output "+text, func() bool { return strings.Contains(f.out.String()+f.errOut.String(), text) })
}

func (f *fixture) eventually(what string, condition func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("timeout waiting for %s; output:\n%s%s", what, f.out, f.errOut)
		}
	}
}

// credentials returns the files of a client, by name.
func (f *fixture) credentials(name string) map[string]string {
	f.t.Helper()
	files := map[string]string{}
	entries := testkit.Value(os.ReadDir(filepath.Join(f.options.CredentialsDir, "apps", name)))(f.t)
	for _, entry := range entries {
		content := testkit.Value(os.ReadFile(filepath.Join(f.options.CredentialsDir, "apps", name, entry.Name())))(f.t)
		files[entry.Name()] = string(content)
	}
	return files
}

// token requests a token with the files of a client.
func token(t *testing.T, files map[string]string) (*oauth2.Token, error) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(files["ca.crt"])) {
		t.Fatal("no certificate authority")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	config := clientcredentials.Config{ClientID: files["client_id"], ClientSecret: files["client_secret"], TokenURL: files["token_url"]}
	return config.Token(context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: transport}))
}

func wantToken(t *testing.T, files map[string]string) {
	t.Helper()
	if got, err := token(t, files); err != nil || got.AccessToken == "" {
		t.Errorf("token: %v", err)
	}
}

func isRejected(err error) bool {
	_, rejected := errors.AsType[*oauth2.RetrieveError](err)
	return rejected
}

func TestServesTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t, billing)
	f.start()
	for _, line := range []string{
		"Name:       billing\n", "Namespace:  apps\n", "Kind:       ApiClient\n", "Status:\n  Conditions:\n    Last Transition Time:  ",
		"    Message:               Realm \"acme\" in spec.realmRef not found. Create it; this client is then reconciled automatically. If the name is misspelled, create another ApiClient, because spec.realmRef is immutable.\n" +
			"    Observed Generation:   1\n    Reason:                RealmNotFound\n    Status:                False\n    Type:                  Accepted\n",
	} {
		if !strings.Contains(f.out.String(), line) {
			t.Errorf("output lacks %q:\n%s", line, f.out)
		}
	}
	f.write("realm.yaml", realm)
	f.await("ApiClient apps/billing is Ready.")
	files := f.credentials("billing")
	wantToken(t, files)
	for _, text := range []string{
		"Issuer:          " + files["issuer"], "Token endpoint:  " + files["token_url"],
		"--data-urlencode client_secret@" + filepath.Join(f.options.CredentialsDir, "apps", "billing", "client_secret"),
	} {
		if !strings.Contains(f.out.String(), text) {
			t.Errorf("output lacks %q:\n%s", text, f.out)
		}
	}
	if files["cluster_token_url"] != files["token_url"] || !regexp.MustCompile(`^https://localhost:\d+/acme/oauth2/token$`).MatchString(files["token_url"]) {
		t.Errorf("token_url %q, cluster_token_url %q; want the same URL of localhost", files["token_url"], files["cluster_token_url"])
	}
	checkLoopback(t, regexp.MustCompile(`localhost:(\d+)`).FindStringSubmatch(f.out.String())[1])
	f.end()
	if _, err := token(t, files); err == nil || isRejected(err) {
		t.Errorf("token request after the end: %v, want no response", err)
	}
}

// checkLoopback checks that nothing listens on the port at other addresses.
func checkLoopback(t *testing.T, port string) {
	t.Helper()
	addresses := testkit.Value(net.InterfaceAddrs())(t)
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok || network.IP.IsLoopback() || network.IP.IsLinkLocalUnicast() {
			continue
		}
		dialer := net.Dialer{Timeout: time.Second}
		if connection, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(network.IP.String(), port)); err == nil {
			connection.Close()
			t.Errorf("the issuer listens on %s", network.IP)
		}
	}
}

func TestReloadsFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t, realm+billing)
	f.start()
	before := f.credentials("billing")
	f.write("orders.yaml", client("orders", "secret: {generated: {}}"))
	f.await("ApiClient apps/orders is Ready.")
	f.eventually("credentials of the new client", func() bool { return f.credentials("orders")["client_secret"] != "" })
	if !maps.Equal(f.credentials("billing"), before) {
		t.Error("the credentials of the other client changed")
	}

	f.write("objects.yaml", realm+client("billing", "suspend: true, scopes: [orders.read], secret: {generated: {}}"))
	f.await("The client is suspended")
	f.eventually("suspension", func() bool { _, err := token(t, before); return isRejected(err) })

	orders := f.credentials("orders")
	testkit.Do(t, os.Remove(filepath.Join(f.dir, "orders.yaml")))
	f.await("ApiClient apps/orders was removed.")
	f.eventually("its secret to be rejected", func() bool { _, err := token(t, orders); return isRejected(err) })
	if _, err := os.Stat(filepath.Join(f.options.CredentialsDir, "apps", "orders")); !os.IsNotExist(err) {
		t.Errorf("credentials of the removed client: %v, want none", err)
	}
	f.write("objects.yaml", realm+billing)
	f.eventually("the client to get tokens again", func() bool { _, err := token(t, before); return err == nil })

	// Invalid files don't affect the objects that were admitted before.
	f.write("objects.yaml", realm+client("billing", "tokenLifetime: 1s, scopes: [orders.read], secret: {generated: {}}"))
	f.await(`Error in ` + filepath.Join(f.dir, "objects.yaml") + `: ApiClient.auth.realmkeeper.dev "billing" is invalid: spec.tokenLifetime: Invalid value: "1s"`)
	wantToken(t, before)
	f.write("objects.yaml", "kind: [")
	f.await("Error: error parsing " + filepath.Join(f.dir, "objects.yaml"))
	wantToken(t, before)
}

func TestInvalidFilesAtStart(t *testing.T) {
	for name, test := range map[string]struct{ files, want string }{
		"twice":  {realm + billing + billing, "ApiClient apps/billing: the object is also in"},
		"group":  {strings.Replace(realm, "auth.realmkeeper.dev", "realmkeeper.dev", 1), "no such kind: realmkeeper.dev/v1beta1 Realm; the kinds are Realm and ApiClient in version auth.realmkeeper.dev/v1beta1"},
		"Secret": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: apps}\ndatas: {}\n", `unknown field "datas"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.files)
			var errOut output
			f.options.Out, f.options.ErrOut = &output{}, &errOut
			if err := localissuer.Run(t.Context(), f.options); err == nil || !strings.Contains(errOut.String(), test.want) {
				t.Errorf("error %v, output %q; want an error and %q", err, errOut.String(), test.want)
			}
		})
	}
}

func TestPortInUse(t *testing.T) {
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	f := newFixture(t, realm)
	f.options.Out, f.options.ErrOut, f.options.Port = &output{}, &output{}, listener.Addr().(*net.TCPAddr).Port
	if err := localissuer.Run(t.Context(), f.options); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("error %v, want one that names --port", err)
	}
}

func TestStateSurvivesRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, realm+billing+`
apiVersion: v1
kind: Secret
metadata: {name: vault, namespace: apps, labels: {auth.realmkeeper.dev/client-secret: "true"}}
stringData: {client_secret: correct horse battery staple}
---
`+client("provided", "secret: {provided: {secretRef: {name: vault}}}"))
	f.options.StateDir = filepath.Join(t.TempDir(), "state")
	f.start()
	before := f.credentials("billing")
	f.end()
	if info, err := os.Stat(filepath.Join(f.options.StateDir, "state.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state: %v, %v; want mode 0600", info, err)
	}
	f.start()
	if err := localissuer.Run(t.Context(), f.options); err == nil || !strings.Contains(err.Error(), "another process uses the directory") {
		t.Errorf("two issuers with the same state directory: %v, want an error", err)
	}
	after := f.credentials("billing")
	if after["client_secret"] != before["client_secret"] || after["ca.crt"] != before["ca.crt"] {
		t.Error("the client secret or the certificate authority changed")
	}
	provided := maps.Clone(after)
	provided["client_id"], provided["client_secret"] = "apps.provided", "correct horse battery staple"
	wantToken(t, provided)
	f.end()

	// A value that changes while the issuer is stopped is loaded at the next start.
	f.write("objects.yaml", strings.Replace(read(t, filepath.Join(f.dir, "objects.yaml")), "battery staple", "battery clip", 1))
	f.start()
	provided["token_url"], provided["client_secret"] = f.credentials("billing")["token_url"], "correct horse battery clip"
	wantToken(t, provided)
	f.end()

	testkit.Do(t, os.WriteFile(filepath.Join(f.options.StateDir, "state.json"), []byte("{}"), 0o600))
	if err := localissuer.Run(t.Context(), f.options); err == nil || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("damaged state: %v, want an error that says what to do", err)
	}
	f.options.StateDir = ""
	f.start()
	if f.credentials("billing")["client_secret"] == before["client_secret"] {
		t.Error("without a state directory, the client secret is the same")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := testkit.Value(os.ReadFile(path))(t)
	return string(content)
}
