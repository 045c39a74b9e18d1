package beside_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// setup is what a program needs to verify the tokens of a realm.
type setup struct {
	section
	dir       string // for the program's files; everyone can read it
	issuer    string
	authority string // the path of the CA certificate
	// clientID and clientSecret are of a client that may introspect tokens.
	clientID, clientSecret string
	address                string // an unused address of the loopback interface
}

// instance is a program that runs with one setup.
type instance struct {
	// call sends a request with the token, or without one if it is empty. It returns what the sender sees.
	call func(token string) string
	// refresh does what the page says to do regularly. It is nil if there is nothing to do.
	refresh func() error
}

func (s *service) setup(t *testing.T, page, heading string, a *api, realm string) setup {
	t.Helper()
	realm = a.in(realm)
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil { // Some programs drop their privileges.
			t.Fatal(err)
		}
	}
	authority, err := os.ReadFile(s.authority())
	if err != nil {
		t.Fatal(err)
	}
	u := setup{
		section: readSection(t, page, heading), dir: dir, issuer: s.issuer(realm), authority: filepath.Join(dir, "ca.crt"),
		clientID: clientID(realm, a, clientIntrospects), clientSecret: s.secret(t, realm, a, clientIntrospects), address: "127.0.0.1:" + reservePort(t),
	}
	u.write(t, "ca.crt", string(authority))
	return u
}

// reservePort returns an unused port of the loopback interface.
func reservePort(t *testing.T) string {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return strconv.Itoa(port.Number())
}

// fill replaces what a reader of the page has to replace. Each pair is an old and a new text.
func (s setup) fill(text string, pairs ...string) string {
	host := strings.TrimPrefix(s.issuer, "https://")
	return strings.NewReplacer(append(pairs,
		"api.example.com/acme", host, "/etc/realmkeeper/ca.crt", s.authority, "acme-apps.orders-api", s.clientID, "rk_SECRET", s.clientSecret,
		"/var/run/secrets/realmkeeper", s.dir,
	)...).Replace(text)
}

// write writes a file into the directory of the program, and returns its path.
func (s setup) write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeCertificate writes the certificate and the key of a server at 127.0.0.1, tls.crt and tls.key, and returns the
// certificate of its CA.
func (s setup) writeCertificate(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	certificate := server.TLS.Certificates[0] // is its own CA
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encoded := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
	s.write(t, "tls.crt", encoded)
	s.write(t, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return encoded
}

// programBinaries is the environment variable with the directory of the programs that are built from source.
const programBinaries = "BESIDE_BINARIES"

// built returns the path of a program that is built from source.
func built(name string) string { return filepath.Join(os.Getenv(programBinaries), name) }

// start starts a program and waits until ready returns nil. It stops the program after the test, and logs the end of
// its log if the test failed.
func (s setup) start(t *testing.T, command process.Command, ready func() error) *process.Process {
	t.Helper()
	running, err := s.tryStart(t, command, ready)
	if err != nil {
		t.Fatal(err)
	}
	return running
}

// tryStart is start for programs that can refuse to start.
func (s setup) tryStart(t *testing.T, command process.Command, ready func() error) (*process.Process, error) {
	t.Helper()
	command.Dir = s.dir
	running, err := process.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	if err := running.Await(ctx, func(context.Context) error { return ready() }); err != nil {
		_ = running.Kill()
		return nil, err
	}
	t.Cleanup(func() {
		if err := running.Stop(20 * time.Second); err != nil {
			t.Errorf("%s: %v", command.Name, err)
		}
		if t.Failed() {
			t.Logf("End of the log of %s:\n%s", command.Name, running.LogTail())
		}
	})
	return running, nil
}

// unstarted is a program that doesn't start because it doesn't trust the CA of the token service.
func unstarted(err error, row string) instance {
	if !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		row = err.Error()
	}
	return instance{call: func(string) string { return row }}
}

// patience is how long a caller waits for a response.
const patience = 75 * time.Second

// httpCalls returns a function that calls an API behind a gateway, and the address of that API. Its responses
// show whether the gateway passes the client ID in a header, and only there.
func httpCalls(t *testing.T, gateway, header string) (call func(token string) string, api string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ids []string
		for name, values := range r.Header {
			if same(name, header) {
				ids = append(ids, values...)
			}
		}
		_ = json.NewEncoder(w).Encode(ids)
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(token string) string {
		return timed(func() string {
			request, err := http.NewRequest(http.MethodGet, "http://"+gateway+"/", http.NoBody)
			if err != nil {
				return err.Error()
			}
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			for _, forged := range []string{header, strings.ReplaceAll(header, "-", "_"), strings.ReplaceAll(header, "_", "-")} {
				request.Header[forged] = []string{"forged"}
			}
			response, err := client.Do(request)
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			return seen(response, token)
		})
	}, server.Listener.Addr().String()
}

// same reports whether frameworks such as CGI, WSGI, and Rack read two headers as the same one.
func same(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(b, "-", "_"))
}

// seen describes a response.
func seen(response *http.Response, token string) string {
	if response.StatusCode != http.StatusOK {
		result := response.Status[:3]
		challenge := response.Header.Get("WWW-Authenticate")
		if _, after, ok := strings.Cut(challenge, `error="`); ok {
			code, _, _ := strings.Cut(after, `"`)
			return result + " " + code
		}
		if challenge == "" && response.StatusCode == http.StatusUnauthorized {
			result += " without a challenge"
		}
		return result
	}
	var ids []string
	if err := json.NewDecoder(response.Body).Decode(&ids); err != nil {
		return err.Error()
	}
	if want := claim(token, "client_id"); len(ids) != 1 || ids[0] != want {
		return fmt.Sprintf("200, but the API receives %q, want %q", ids, want)
	}
	return "200"
}

// claim returns a claim of a token, without verifying it.
func claim(token, name string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	claims := map[string]any{}
	_ = json.Unmarshal(payload, &claims)
	value, _ := claims[name].(string)
	return value
}

// timed adds the duration of a call to its result if a caller notices it.
func timed(call func() string) string {
	started := time.Now()
	result := call()
	if taken := time.Since(started); taken > 3*time.Second {
		result += fmt.Sprintf(" after %d s", int(taken.Round(5*time.Second).Seconds()))
	}
	return result
}

// script runs a program that writes "ready", then reads a line with a token or URL, and writes a line with its result.
func (s setup) script(t *testing.T, name string, arg ...string) instance {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, arg...)
	command.Dir = s.dir
	var stderr strings.Builder
	command.Stderr = &stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := command.Wait(); err != nil || t.Failed() {
			t.Logf("%s: %v\n%s", name, err, stderr.String())
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("%s doesn't start:\n%s", name, stderr.String())
	}
	return instance{call: func(token string) string {
		return timed(func() string {
			if _, err := io.WriteString(in, token+"\n"); err != nil {
				return err.Error()
			}
			if !lines.Scan() {
				return "the program ended"
			}
			return lines.Text()
		})
	}}
}

// reachable returns a function that returns an error if no program listens at the address.
func reachable(address string) func() error {
	return func() error {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}
