package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/tools/tokenagent"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// tokenFile is the file on the page about the token agent.
const tokenFile = "/var/run/token/access_token"

// tokenAgents are two token agents, and programs that read their files and call an API all the time.
type tokenAgents struct {
	withSecret  *application // as in the tests of code for applications: the client, and the mounted Secret
	withAccount *v1beta1.ApiClient
	pod         *corev1.Pod
	assertion   string // the file with the service account token
	files       struct{ secret, account string }
	log         string
	readers     map[string]*reader
	stop        func()
}

// startTokenAgents starts token agents whose tokens expire after 15 seconds, and their readers.
func (i *installation) startTokenAgents(t *testing.T) *tokenAgents {
	t.Helper()
	dir := t.TempDir()
	a := &tokenAgents{readers: map[string]*reader{}, assertion: filepath.Join(dir, "assertion"), log: filepath.Join(dir, "token-agent.log")}
	a.files.secret, a.files.account = filepath.Join(dir, "secret"), filepath.Join(dir, "account")
	short := func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.Audiences, c.Spec.TokenLifetime = []string{scope}, []string{audience}, &v1beta1.Duration{Duration: 15 * time.Second}
	}
	namespace := i.client.Namespace
	a.withSecret = &application{installation: i, name: "token-agent", mounted: t.TempDir(), client: install.ApiClient(namespace, "token-agent", i.realm.Name, short, func(c *v1beta1.ApiClient) {
		c.Spec.Secret = install.GeneratedSecret()
		c.Spec.Secret.Generated.Rotation.Overlap = &v1beta1.Duration{Duration: speedUp * 10 * time.Second}
	})}
	a.withAccount = install.ApiClient(namespace, "token-agent-account", i.realm.Name, short, func(c *v1beta1.ApiClient) {
		c.Spec.Identities = install.ServiceAccounts("token-agent-account")
	})
	a.pod = install.CreatePod(t, i.cluster.Client, namespace, "token-agent-account")
	i.inst.Create(t, a.withSecret.client, a.withAccount)
	i.inst.AwaitReady(t, a.withAccount, metav1.ConditionTrue, v1beta1.ReasonReady)
	a.withSecret.secret = i.awaitReady(t, a.withSecret.client)
	a.withSecret.mount(t, a.withSecret.secret)
	a.renewAssertion(t, i)

	binary := install.Binary(t, i.cluster, "token-agent")
	var agents []*process.Process
	for _, arguments := range [][]string{
		{"--output", a.files.secret, "--credentials-dir", a.withSecret.mounted},
		{
			"--output", a.files.account, "--service-account-token-file", a.assertion, "--token-url", a.withAccount.Status.TokenEndpoint, "--ca-file", i.authority,
			"--client-id", a.withAccount.Status.ClientID, "--scope", scope, "--audience", audience, "--keep-expired",
		},
	} {
		p, err := process.Start(process.Command{Name: "token-agent", Path: binary, Args: arguments, Env: []string{"HTTPS_PROXY=" + tunnelURL}, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, p)
	}
	t.Cleanup(func() {
		for _, p := range agents {
			_ = p.Stop(10 * time.Second)
		}
	})
	for _, file := range []string{a.files.secret, a.files.account} {
		install.Eventually(t, "a token in the file", func() error {
			return exec.CommandContext(t.Context(), binary, "check", "--output", file).Run()
		})
	}
	served := i.startAPI(t, i.issuer)
	programs := buildClients(t)
	a.readers["prometheus"] = startReader(t, programs, "prometheus", served.url, prometheusConfiguration(t, a.files.secret))
	a.readers["bearertokenauth"] = startReader(t, programs, "bearertokenauth", served.url, collectorConfiguration(t, a.files.account))
	a.stop = func() {
		for _, r := range a.readers {
			r.stop()
		}
	}
	return a
}

// renewAssertion replaces the service account token, as the kubelet does.
func (a *tokenAgents) renewAssertion(t *testing.T, i *installation) {
	t.Helper()
	if err := os.WriteFile(a.assertion, []byte(install.PodToken(t, i.cluster.Client, a.pod, i.issuer)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// buildClients returns the path of the program oauthclients.
func buildClients(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "oauthclients")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, ".")
	build.Dir = filepath.Join("..", "oauthclients")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// reader is a program that calls the API every 100 ms.
type reader struct {
	mu        sync.Mutex
	responses map[string]int
	stop      func()
}

func startReader(t *testing.T, program, name, url, configuration string) *reader {
	t.Helper()
	command := exec.Command(program, name, url, "100ms")
	command.Stdin, command.Stderr = strings.NewReader(configuration), os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	r := &reader{responses: map[string]int{}}
	var running sync.WaitGroup
	running.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.mu.Lock()
			r.responses[lines.Text()]++
			r.mu.Unlock()
		}
	})
	r.stop = sync.OnceFunc(func() {
		_ = command.Process.Kill()
		running.Wait()
		_ = command.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// failures returns the numbers of responses other than 200, and resets them. There must be others.
func (r *reader) failures() (failed map[string]int, succeeded int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed, r.responses = r.responses, map[string]int{}
	succeeded = failed["200 OK"]
	delete(failed, "200 OK")
	return failed, succeeded
}

var errNoResponses = errors.New("the reader got no other responses yet")

// test checks that no request of a reader has failed since the agents were started, while keys of the
// realm were rotated. Then it rotates the secret, renews the service account token, and suspends the client.
func (a *tokenAgents) test(t *testing.T, i *installation) {
	old := a.withSecret.secret
	created := a.withSecret.client.Status.Credentials[0].CreationTime
	install.Change(t, i.inst, a.withSecret.client, func(c *v1beta1.ApiClient) {
		c.Spec.Secret.Generated.Rotation.RotationRequestTime = &metav1.Time{Time: created.Add(time.Second)}
	})
	a.renewAssertion(t, i)
	install.Eventually(t, "the old client secret to expire", func() error {
		return errors.Join(a.withSecret.updateFiles(t), a.withSecret.rotated(t))
	})
	if response, err := install.RequestToken(t, i.server, i.server.Client(t), old); err != nil || response.Error != "invalid_client" {
		t.Errorf("the old secret gets %+v, %v, want invalid_client", response, err)
	}
	first := readFile(t, a.files.secret)
	install.Eventually(t, "a token for the new secret", func() error {
		if readFile(t, a.files.secret) == first {
			return errNoResponses
		}
		return nil
	})
	for name, r := range a.readers {
		failed, succeeded := r.failures()
		t.Logf("%s: %d responses with status 200, %v", name, succeeded, failed)
		if len(failed) > 0 || succeeded < 100 {
			t.Errorf("%s: %d responses with status 200, and others: %v; want none", name, succeeded, failed)
		}
	}

	t.Run("suspension", func(t *testing.T) { a.testSuspension(t, i) })
	t.Run("curl", func(t *testing.T) { a.testCurl(t, i) })
	t.Run("kubectl", func(t *testing.T) { a.testKubectl(t, i) })
	a.stop()
	log := readFile(t, a.log)
	for _, secret := range []string{string(old.Data["client_secret"]), string(a.withSecret.secret.Data["client_secret"]), readFile(t, a.assertion), readFile(t, a.files.secret)} {
		if strings.Contains(log, secret) {
			t.Error("the log of an agent contains a secret or a token")
		}
	}
	if n := strings.Count(log, "Failed to renew the token"); n != 1 || !strings.Contains(log, "invalid_client") {
		t.Errorf("the agents log %d failures, want one, that of the suspended client:\n%s", n, log)
	}
}

// testSuspension suspends a client until its token has expired. The agent removes the file, and gets a token after the
// client is resumed.
func (a *tokenAgents) testSuspension(t *testing.T, i *installation) {
	install.Change(t, i.inst, a.withSecret.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	install.Eventually(t, "the file to be removed", func() error {
		if _, err := os.Stat(a.files.secret); err == nil {
			return errNotRemoved
		}
		return nil
	})
	install.Change(t, i.inst, a.withSecret.client, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
	install.Eventually(t, "a token after the client was resumed", func() error {
		_, err := os.Stat(a.files.secret)
		return err
	})
	r := a.readers["prometheus"]
	failed, _ := r.failures()
	t.Logf("prometheus: %v", failed)
	if failed["401 Unauthorized"] == 0 || len(failed) != 2 { // and that the file is missing
		t.Errorf("Prometheus got %v", failed)
	}
	install.Eventually(t, "responses after the suspension", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.responses["200 OK"] < 10 {
			return errNoResponses
		}
		return nil
	})
	if failed, _ := a.readers["bearertokenauth"].failures(); len(failed) > 0 {
		t.Errorf("the reader of another client got %v", failed)
	}
}

var errNotRemoved = errors.New("the file still exists")

// testCurl runs the command on the page.
func (a *tokenAgents) testCurl(t *testing.T, i *installation) {
	const api = "https://orders.acme.example"
	block := onlyBlockWith(t, "console", "curl")
	command, _, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
	served := i.startAPI(t, i.issuer)
	text := strings.NewReplacer(tokenFile, a.files.secret, api, served.url, "curl ", "curl --silent --show-error --fail-with-body ").Replace(command)
	out, err := exec.CommandContext(t.Context(), "bash", "-c", text).CombinedOutput()
	if err != nil || len(served.tokens(a.withSecret.client)) != 1 {
		t.Errorf("%s\n%v: %s", command, err, out)
	}
}

// testKubectl runs kubectl with the kubeconfig on the page against an API server that trusts the realm.
func (a *tokenAgents) testKubectl(t *testing.T, i *installation) {
	dir := t.TempDir()
	authority, kubeconfig := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "kubeconfig")
	content := strings.NewReplacer(tokenFile, a.files.secret, "https://kubernetes.example.com:6443", i.cluster.Config.Host, "/etc/edge/ca.crt", authority).
		Replace(onlyBlockWith(t, "yaml", "kind: Config\n"))
	for path, content := range map[string][]byte{authority: i.cluster.Config.CAData, kubeconfig: []byte(content)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kubectl := exec.CommandContext(t.Context(), filepath.Join(i.cluster.BinDir, "kubectl"), "auth", "whoami", "--output", "json", "--kubeconfig", kubeconfig)
	out, err := kubectl.Output()
	var review authenticationv1.SelfSubjectReview
	if err := errors.Join(err, json.Unmarshal(out, &review)); err != nil {
		t.Fatal(err)
	}
	if got, want := review.Status.UserInfo.Username, "acme:"+a.withSecret.client.Status.ClientID; got != want {
		t.Errorf("the API server authenticates %q, want %q", got, want)
	}
}

// TestTokenFileForEnvoy checks the file and the filters on the page with the types of Envoy, which doesn't run.
func TestTokenFileForEnvoy(t *testing.T) {
	var listener struct {
		Filters []struct {
			TypedConfig map[string]any `json:"typed_config"`
		} `json:"http_filters"`
	}
	if err := yaml.Unmarshal([]byte(onlyBlockWith(t, "yaml", "http_filters:")), &listener); err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	for _, filter := range listener.Filters {
		if err := json.NewEncoder(&messages).Encode(filter.TypedConfig); err != nil {
			t.Fatal(err)
		}
	}
	file := tokenagent.File{Path: filepath.Join(t.TempDir(), "access_token.json"), Mode: 0o600, Format: tokenagent.FormatEnvoySDS}
	if err := file.Write(tokenagent.Token{Value: "header.claims.signature", Expires: time.Now()}); err != nil {
		t.Fatal(err)
	}
	messages.WriteString(readFile(t, file.Path))
	program := buildClients(t)
	check := func(messages string) error {
		command := exec.CommandContext(t.Context(), program, "envoy")
		command.Stdin = strings.NewReader(messages)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := check(messages.String()); err != nil {
		t.Errorf("%v in %s", err, messages.String())
	}
	for _, field := range []string{"header_value_prefix", "path_config_source", "generic_secret", "inline_string"} {
		if err := check(strings.Replace(messages.String(), field, "other", 1)); err == nil {
			t.Errorf("there is no error if a message has the field other instead of %s", field)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// onlyBlockWith returns the only block of a language with a text on the page about the token agent.
func onlyBlockWith(t *testing.T, language, text string) (found string) {
	t.Helper()
	page := readFile(t, filepath.Join("..", "..", "docs", "token-agent.md"))
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(block[1], text) {
			continue
		}
		if found != "" {
			t.Fatalf("the page has several blocks with %q", text)
		}
		found = block[1]
	}
	if found == "" {
		t.Fatalf("the page has no block with %q", text)
	}
	return found
}

// prometheusConfiguration returns what the page configures for the HTTP client of Prometheus.
func prometheusConfiguration(t *testing.T, file string) string {
	t.Helper()
	var configuration struct {
		ScrapeConfigs []struct {
			Authorization map[string]any `json:"authorization"`
		} `json:"scrape_configs"`
	}
	return readerConfiguration(t, "scrape_configs:", file, &configuration, func() any { return configuration.ScrapeConfigs[0] })
}

// collectorConfiguration returns what the page configures for the extension bearertokenauth.
func collectorConfiguration(t *testing.T, file string) string {
	t.Helper()
	var configuration struct {
		Extensions map[string]map[string]any `json:"extensions"`
	}
	return readerConfiguration(t, "bearertokenauth:", file, &configuration, func() any { return configuration.Extensions["bearertokenauth"] })
}

// readerConfiguration returns a part of a block on the page, with the path of another file.
func readerConfiguration(t *testing.T, text, file string, into any, part func() any) string {
	t.Helper()
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(onlyBlockWith(t, "yaml", text), tokenFile, file)), into); err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(part())
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
