package interop_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// languages are the languages on the page for application developers. main is the program in
// testdata/clients that uses the code on the page, and file is where it expects this code.
var languages = map[string]struct {
	block, file, main string
	build, run        []string
}{
	"Go": {
		block: "go", file: "client.go", main: "main.go",
		build: []string{"go", "build", "-trimpath", "-o", "$CODE/client", "$CODE/client.go", "$CODE/main.go"},
		run:   []string{"$CODE/client", "$SECRET"},
	},
	"Python": {block: "python", file: "client.py", main: "main.py", run: []string{"python3", "$CODE/main.py", "$SECRET"}},
	"Node.js": {
		block: "js", file: "client.mjs", main: "main.mjs",
		run: []string{"node", "--import", "./node/platform.js", "$CODE/main.mjs", "$SECRET"},
	},
	"Java": {
		block: "java", file: "Client.java", main: "Main.java",
		build: []string{"javac", "-d", "$CODE", "$CODE/Client.java", "$CODE/Main.java"},
		run:   []string{"java", "-XX:TieredStopAtLevel=1", "-Djdk.net.hosts.file=$CODE/hosts", "-cp", "$CODE", "Main", "$SECRET"},
	},
	"curl": {block: "bash", file: "client.sh", main: "main.sh", run: []string{"bash", "-u", "$CODE/main.sh", "$SECRET", "$CODE/response"}},
}

// application is a running program that calls an API with the code on the page.
type application struct {
	*installation
	api     *api
	name    string // of the language
	client  *v1beta1.ApiClient
	secret  *corev1.Secret
	mounted string // the directory with the files of the Secret
	lines   io.Writer
	results *bufio.Scanner
	calls   int
}

// testApplications checks the code that the page for application developers shows. No call may fail while
// the client secret is rotated.
func testApplications(t *testing.T, i *installation) {
	realm := install.Realm("applications", func(r *v1beta1.Realm) { r.Spec.Scopes, r.Spec.Audiences = i.realm.Spec.Scopes, i.realm.Spec.Audiences })
	i.inst.Create(t, realm)
	i.inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	team, served := i.cluster.Namespace(t), i.startAPI(t, realm.Status.Issuer)
	var all applications
	for name, language := range languages {
		a := &application{installation: i, api: served, name: name, mounted: t.TempDir()}
		a.client = install.ApiClient(team, language.block, realm.Name, func(c *v1beta1.ApiClient) {
			c.Spec.Scopes, c.Spec.Secret = []string{scope}, install.GeneratedSecret()
			c.Spec.Secret.Generated.Rotation.Overlap = &v1beta1.Duration{Duration: speedUp * 10 * time.Second}
		})
		i.inst.Create(t, a.client)
		all = append(all, a)
	}

	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	t.Cleanup(other.Close)
	for _, a := range all {
		a.secret = a.awaitReady(t, a.client)
		untrusted := a.secret.DeepCopy()
		untrusted.Data["ca.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
		a.mount(t, untrusted)
		a.start(t)
		if result := a.call(t); !regexp.MustCompile(`(?i)certificat|PKIX`).MatchString(result) {
			t.Errorf("%s: with another CA in ca.crt, the result is %q, want an error of the certificate", a.name, result)
		}
		a.mount(t, a.secret)
		a.wantSuccess(t, "with the right CA")
		a.wantSuccess(t, "with the cached token")
		served.fail(a.client, true)
		for range 3 {
			if result := a.call(t); !strings.Contains(result, "401") {
				t.Errorf("%s: while the API responds with 401 to all tokens, the result is %s", a.name, result)
			}
		}
		served.fail(a.client, false)
		a.wantSuccess(t, "with the same token afterwards")
		a.wantTokens(t, 1)
	}

	// From now on, tokens expire so soon that each call needs a new one.
	all.change(t, func(c *v1beta1.ApiClient) { c.Spec.TokenLifetime = &v1beta1.Duration{Duration: 10 * time.Second} })
	for _, a := range all {
		served.reject(a.client)
		a.passTime(t)
		a.wantSuccess(t, "after the API rejected the token")
		a.wantTokens(t, 2)
	}
	all.rotateSecrets(t)

	all.change(t, func(c *v1beta1.ApiClient) { c.Spec.Limits.TokensPerSecondPerServer = 1 })
	for _, a := range all {
		a.exceedLimit(t, realm.Name)
		t.Logf("%s: %d calls, %d tokens", a.name, a.calls, len(served.tokens(a.client)))
	}
}

// exceedLimit checks that a call succeeds although the token server rejects a request of the program because of the
// limit. So that this happens however slow the program is, exceedLimit also requests tokens itself, until the server
// has rejected a request that isn't its own.
func (a *application) exceedLimit(t *testing.T, realm string) {
	t.Helper()
	limited := fmt.Sprintf(`realmkeeper_token_requests_total{realm=%q,reason="too_many_tokens",result="temporarily_unavailable"}`, realm)
	rejections := func() int {
		n, _ := strconv.Atoi(a.server.Metric(t, limited)) // missing before the first one
		return n
	}
	httpClient, own := a.server.Client(t), rejections()
	called := make(chan string, 1)
	call := func() {
		a.write(t, a.api.url)
		go func() { called <- a.result() }()
	}
	call()
	install.Eventually(t, "a request of "+a.name+" beyond the limit", func() error {
		response, err := install.RequestToken(t, a.server, httpClient, a.secret)
		if err != nil {
			t.Fatal(err)
		}
		if response.Status == http.StatusTooManyRequests {
			own++
		}
		if rejections() > own {
			return nil
		}
		select {
		case result := <-called: // The program was faster.
			a.wantOK(t, result, "with a limit")
			call()
		default:
		}
		return errUnlimited
	})
	a.wantOK(t, <-called, "with a limit")
}

type applications []*application

// change changes all clients.
func (all applications) change(t *testing.T, change func(*v1beta1.ApiClient)) {
	t.Helper()
	for _, a := range all {
		install.Change(t, a.inst, a.client, change)
	}
	for _, a := range all {
		a.awaitReady(t, a.client)
	}
}

// rotateSecrets rotates the client secrets, and calls the API until the old ones have expired. The
// mounted files change after the Secrets, as with the kubelet.
func (all applications) rotateSecrets(t *testing.T) {
	t.Helper()
	old := map[*application]*corev1.Secret{}
	for _, a := range all {
		old[a] = a.secret
		created := a.client.Status.Credentials[0].CreationTime
		install.Change(t, a.inst, a.client, func(c *v1beta1.ApiClient) {
			c.Spec.Secret.Generated.Rotation.RotationRequestTime = &metav1.Time{Time: created.Add(time.Second)}
		})
	}
	install.Eventually(t, "the old client secrets to expire", func() (err error) {
		for _, a := range all {
			a.wantSuccess(t, "during the rotation")
			err = errors.Join(err, a.updateFiles(t), a.rotated(t))
		}
		return err
	})
	for _, a := range all {
		if response, err := install.RequestToken(t, a.server, a.server.Client(t), old[a]); err != nil || response.Error != "invalid_client" {
			t.Errorf("%s: the old secret gets %+v, %v, want invalid_client", a.name, response, err)
		}
		a.wantSuccess(t, "after the old secret expired")
	}
}

var (
	errRotating  = errors.New("the rotation is not complete")
	errUnlimited = errors.New("the token server has not rejected a request of the program because of the limit")
)

// rotated returns nil if the client has a new secret and the old one has expired.
func (a *application) rotated(t *testing.T) error {
	t.Helper()
	if err := a.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(a.client), a.client); err != nil {
		return err
	}
	if credentials := a.client.Status.Credentials; a.client.Status.LastRotationTime == nil || len(credentials) != 1 {
		return fmt.Errorf("%w: %v", errRotating, credentials)
	}
	return nil
}

// updateFiles mounts the credentials Secret if it has changed.
func (a *application) updateFiles(t *testing.T) error {
	t.Helper()
	secret := &corev1.Secret{}
	if err := a.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(a.secret), secret); err != nil {
		return err
	}
	if secret.ResourceVersion != a.secret.ResourceVersion {
		a.mount(t, secret)
		a.secret = secret
	}
	return nil
}

// start builds and starts the program.
func (a *application) start(t *testing.T) {
	t.Helper()
	language, code := languages[a.name], t.TempDir()
	content, err := os.ReadFile(filepath.Join("testdata", "clients", language.main))
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(a.client.Status.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		language.file: onlyBlock(t, "for-applications.md", language.block), language.main: string(content),
		"hosts": "127.0.0.1 " + endpoint.Hostname() + "\n",
	} {
		if err := os.WriteFile(filepath.Join(code, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := func(ctx context.Context, words []string) *exec.Cmd {
		words = slices.Clone(words)
		for k, word := range words {
			words[k] = strings.NewReplacer("$CODE", code, "$SECRET", a.mounted).Replace(word)
		}
		c := exec.CommandContext(ctx, words[0], words[1:]...)
		c.Env = append(os.Environ(), "HTTPS_PROXY="+tunnelURL, "https_proxy="+tunnelURL, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
		return c
	}
	if language.build != nil {
		if out, err := command(t.Context(), language.build).CombinedOutput(); err != nil {
			t.Fatalf("%s: the code on the page doesn't compile: %v\n%s", a.name, err, out)
		}
	}
	// Closing its standard input ends the program. Canceling the test's context must not kill it.
	program := command(context.WithoutCancel(t.Context()), language.run)
	program.Stderr = os.Stderr
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := program.Wait(); err != nil {
			t.Errorf("%s: the program failed: %v", a.name, err)
		}
	})
	a.lines, a.results = in, bufio.NewScanner(out)
}

// mount writes the files of a Secret like the kubelet, which replaces all of them at once. The test has
// no Service, so cluster_token_url is the public URL.
func (a *application) mount(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	version := filepath.Join(a.mounted, "..version-"+rand.Text())
	if err := os.Mkdir(version, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range secret.Data {
		if name == v1beta1.SecretKeyClusterTokenURL {
			content = secret.Data[v1beta1.SecretKeyTokenURL]
		}
		err := os.WriteFile(filepath.Join(version, name), content, 0o600)
		if link := os.Symlink(filepath.Join("..data", name), filepath.Join(a.mounted, name)); !errors.Is(link, fs.ErrExist) {
			err = errors.Join(err, link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	next := filepath.Join(a.mounted, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(version), next), os.Rename(next, filepath.Join(a.mounted, "..data"))); err != nil {
		t.Fatal(err)
	}
}

// call makes the program call the API, and returns the status or an error.
func (a *application) call(t *testing.T) string {
	t.Helper()
	a.write(t, a.api.url)
	return a.result()
}

// passTime makes the token of the program older than 30 seconds, which is the minimum age to replace it.
func (a *application) passTime(t *testing.T) {
	t.Helper()
	a.write(t, "later")
}

// write gives the program a line: a URL to call, or "later".
func (a *application) write(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(a.lines, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// result returns what the program prints about the next call.
func (a *application) result() string {
	a.calls++
	if !a.results.Scan() {
		return fmt.Sprintf("missing, because the program has ended: %v", a.results.Err())
	}
	return a.results.Text()
}

func (a *application) wantSuccess(t *testing.T, when string) {
	t.Helper()
	a.wantOK(t, a.call(t), when)
}

func (a *application) wantOK(t *testing.T, result, when string) {
	t.Helper()
	if result != "200" {
		t.Fatalf("%s: call %d, %s: the result is %s, want 200", a.name, a.calls, when, result)
	}
}

func (a *application) wantTokens(t *testing.T, want int) {
	t.Helper()
	if got := len(a.api.tokens(a.client)); got != want {
		t.Errorf("%s: %d calls used %d tokens, want %d", a.name, a.calls, got, want)
	}
}

// onlyBlock returns the only block of a language on a page in docs.
func onlyBlock(t *testing.T, page, language string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(content), -1)
	if len(blocks) != 1 {
		t.Fatalf("%s has %d blocks of %s, want 1", page, len(blocks), language)
	}
	code := blocks[0][1]
	if language == "go" {
		if formatted, err := format.Source([]byte(code)); err != nil || string(formatted) != code {
			t.Errorf("%s contains Go code that isn't formatted: %v", page, err)
		}
	}
	return code
}

// api accepts tokens that the verify endpoint of its realm accepts.
type api struct {
	url  string
	mu   sync.Mutex
	used map[string][]string // the tokens of each client in the order of their first use
	// rejected are the tokens that the API rejects, as if they were revoked.
	rejected map[string]bool
	// failing are the clients all of whose tokens the API rejects, as middlewares do that can't reach the issuer.
	failing map[string]bool
}

func (i *installation) startAPI(t *testing.T, issuer string) *api {
	t.Helper()
	a := &api{used: map[string][]string{}, rejected: map[string]bool{}, failing: map[string]bool{}}
	httpClient := i.httpClient(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization := r.Header.Get("Authorization")
		verify, err := http.NewRequestWithContext(r.Context(), http.MethodGet, issuer+"/oauth2/verify?scope="+scope, http.NoBody)
		if err != nil {
			panic(err)
		}
		verify.Header.Set("Authorization", authorization)
		response, err := httpClient.Do(verify)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		response.Body.Close()
		status, clientID, token := response.StatusCode, response.Header.Get("X-Auth-Client-Id"), strings.TrimPrefix(authorization, "Bearer ")
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.rejected[token] || a.failing[clientID] {
			status = http.StatusUnauthorized
		}
		if !slices.Contains(a.used[clientID], token) {
			a.used[clientID] = append(a.used[clientID], token)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL + "/orders"
	return a
}

func (a *api) tokens(c *v1beta1.ApiClient) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.used[c.Status.ClientID])
}

// fail sets whether the API rejects all tokens of the client.
func (a *api) fail(c *v1beta1.ApiClient, failing bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing[c.Status.ClientID] = failing
}

// reject rejects the tokens that the client has used.
func (a *api) reject(c *v1beta1.ApiClient) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, token := range a.used[c.Status.ClientID] {
		a.rejected[token] = true
	}
}
