package main_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "operator", "token-server-0", "token-server-1", "portal"}

// TestLifecycle follows the commands that the demo prints. It is a single test, because each
// start takes several seconds.
func TestLifecycle(t *testing.T) {
	g := NewWithT(t)
	program := build(t)
	dir := newDir(t, program)
	_, err := controlplane.BinDir(t.Context(), os.Stderr)
	g.Expect(err).NotTo(HaveOccurred())

	out, err := run(program, dir, "up")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(And(
		ContainSubstring("ApiClient acme-apps/billing: Accepted=True Programmed=True Ready=True"),
		ContainSubstring("HTTP/2.0 200 OK\n{\"access_token\":"),
		ContainSubstring(`"sub": "acme-apps.billing"`),
		ContainSubstring("\ncurl --cacert '"+dir+"/ca.crt' --user 'acme-apps.billing:rk_"),
		ContainSubstring("no nodes and no scheduler"),
		ContainSubstring("kubectl create token initial-admin --namespace realmkeeper-system"),
		ContainSubstring("make demo-down"),
	))
	g.Expect(running(dir)).To(Equal(components))
	g.Expect(mode(g, dir)).To(Equal(os.FileMode(0o700)))
	g.Expect(mode(g, filepath.Join(dir, "env"))).To(Equal(os.FileMode(0o600)))
	first := sourced(g, dir)
	g.Expect(first["CLIENT_ID"]).To(Equal("acme-apps.billing"))
	g.Expect(first["TOKEN_URL"]).To(Equal(first["AUTH_URL"] + "/" + first["REALM"] + "/oauth2/token"))
	g.Expect(status(g, first)).To(Equal(http.StatusOK))
	metrics, err := http.Get(first["METRICS_URL"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(metrics).To(HaveHTTPBody(ContainSubstring("\nrealmkeeper_registry_clients 1\n")))
	realms := exec.Command("/bin/sh", "-c", `. "$0"; kubectl get realms --output=name`, filepath.Join(dir, "env"))
	g.Expect(realms.Output()).To(ContainSubstring("/acme\n"))
	g.Expect(out).To(ContainSubstring("\n  " + first["PORTAL_URL"] + "\n"))
	const overview = "Clients by realm"
	g.Expect(signIn(g, first["PORTAL_URL"], printedToken(out))).To(And(ContainSubstring(overview), ContainSubstring("1 client")))
	g.Expect(signIn(g, first["PORTAL_URL"], "x."+printedToken(out))).NotTo(ContainSubstring(overview))

	out, err = run(program, dir, "up")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(And(ContainSubstring("The demo is already running.\n"), ContainSubstring("200 OK")))
	g.Expect(sourced(g, dir)).To(Equal(first))

	kill(g, dir, "token-server-0")
	served := func(g Gomega) { g.Expect(status(g, first)).To(Equal(http.StatusOK)) }
	g.Eventually(served).Should(Succeed()) // the sockets can outlive the process for a moment
	g.Consistently(served).Should(Succeed())
	out, err = run(program, dir, "up")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("The demo is already running, except token-server-0.\n"))
	g.Expect(running(dir)).To(Equal(components))
	g.Expect(sourced(g, dir)).To(Equal(first))

	kill(g, dir, "kube-apiserver")
	out, err = run(program, dir, "up")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("Starting a new demo."))
	g.Expect(sourced(g, dir)["CLIENT_SECRET"]).NotTo(Equal(first["CLIENT_SECRET"]))
	g.Expect(status(g, sourced(g, dir))).To(Equal(http.StatusOK))

	out, err = run(program, dir, "down")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("Stopped: " + strings.Join(components, ", ")))
	g.Expect(dir).NotTo(BeADirectory())
	g.Expect(run(program, dir, "down")).To(ContainSubstring("No demo found"))
}

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "demo")
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the demo: %v\n%s", err, out)
	}
	return program
}

// newDir returns a directory for a demo that is stopped when the test ends. A shell waits
// until the pipe from the test is closed, so the demo is stopped even if the test is killed.
func newDir(t *testing.T, program string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	watchdog := exec.Command("/bin/sh", "-c", `cat >/dev/null; exec "$0" --dir "$1" down`, program, dir)
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := watchdog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watchdog.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pipe.Close()
		if err := watchdog.Wait(); err != nil {
			t.Errorf("stopping the demo: %v", err)
		}
	})
	return dir
}

func run(program, dir, command string) (string, error) {
	out, err := exec.Command(program, "--dir", dir, command).CombinedOutput()
	return string(out), err
}

func running(dir string) []string {
	var names []string
	for _, name := range components {
		if process.Running(filepath.Join(dir, "run"), name) {
			names = append(names, name)
		}
	}
	return names
}

// kill kills processes with the command that the demo prints.
func kill(g Gomega, dir string, names ...string) {
	for _, name := range names {
		pid, err := exec.Command("head", "-n", "1", filepath.Join(dir, "run", name+".pid")).Output()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(exec.Command("kill", "-9", strings.TrimSpace(string(pid))).Run()).To(Succeed())
		g.Eventually(func() []string { return running(dir) }).ShouldNot(ContainElement(name))
	}
}

func mode(g Gomega, path string) os.FileMode {
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	return info.Mode().Perm()
}

// sourced returns the variables of a shell that has sourced the env file of the demo.
func sourced(g Gomega, dir string) map[string]string {
	names := []string{"KUBECONFIG", "AUTH_URL", "CA_FILE", "REALM", "CLIENT_ID", "CLIENT_SECRET", "TOKEN_URL", "METRICS_URL", "PORTAL_URL"}
	values := map[string]string{}
	for _, name := range names {
		shell := exec.Command("/bin/sh", "-c", `. "$0"; printenv "$1"`, filepath.Join(dir, "env"), name)
		out, err := shell.Output()
		g.Expect(err).NotTo(HaveOccurred(), name)
		values[name] = strings.TrimSpace(string(out))
	}
	return values
}

// printedToken returns the token that the demo prints for the portal.
func printedToken(out string) string {
	_, rest, _ := strings.Cut(out, "Sign in with this token")
	_, rest, _ = strings.Cut(rest, "\n\n")
	token, _, _ := strings.Cut(rest, "\n")
	return token
}

// signIn signs in to the portal with a token and returns the page that the portal shows.
func signIn(g Gomega, portal, token string) string {
	jar, err := cookiejar.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	client := &http.Client{Jar: insecureJar{jar}}
	response, err := client.PostForm(portal+"/sign-in", url.Values{"token": {token}})
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(page)
}

// insecureJar treats http://localhost as secure, as browsers do.
type insecureJar struct{ http.CookieJar }

func (j insecureJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	j.CookieJar.SetCookies(secure(u), cookies)
}

func (j insecureJar) Cookies(u *url.URL) []*http.Cookie { return j.CookieJar.Cookies(secure(u)) }

func secure(u *url.URL) *url.URL {
	c := *u
	c.Scheme = "https"
	return &c
}

// status requests a token and returns the status code.
func status(g Gomega, env map[string]string) int {
	authority, err := os.ReadFile(env["CA_FILE"])
	g.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(authority)).To(BeTrue())
	request, err := http.NewRequest(http.MethodPost, env["TOKEN_URL"]+"?grant_type=client_credentials", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	request.SetBasicAuth(env["CLIENT_ID"], env["CLIENT_SECRET"])
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: request.URL.Hostname(), MinVersion: tls.VersionTLS12},
	}
	defer transport.CloseIdleConnections()
	request.URL.Host = "127.0.0.1:" + request.URL.Port()
	response, err := (&http.Client{Transport: transport}).Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	return response.StatusCode
}
