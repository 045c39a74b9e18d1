package interop_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

// testListAsToken checks that no verifier accepts a status list, which anyone can get, in place of a token, even if
// it checks neither typ nor audience. Each of them accepts the token, which refers to the list.
func testListAsToken(t *testing.T, i *installation, token string) {
	list := i.get(t, statuslist.Of(t, token).URI)
	keys := i.serveKeys(t)
	verifiers := map[string]func(*testing.T, string) bool{
		"verify endpoint": func(t *testing.T, token string) bool {
			return call(t, i.httpClient(t), i.issuer+"/oauth2/verify", token) == http.StatusOK
		},
		"go-oidc with SkipClientIDCheck": i.lenientGoOIDC(t),
		"jose without typ and audience":  i.lenientJose(t),
		"PyJWT without audience":         keys.pyJWT(t),
	}
	for module, accepts := range keys.apache(t) {
		verifiers["Apache with "+module] = accepts
	}
	for name, accepts := range verifiers {
		t.Run(name, func(t *testing.T) {
			if !accepts(t, token) {
				t.Error("the token is rejected")
			}
			if accepts(t, list) {
				t.Error("the status list is accepted")
			}
		})
	}
}

// get returns a public document of the realm.
func (i *installation) get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := i.httpClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s responded with %s %s: %v", url, response.Status, body, err)
	}
	return string(body)
}

// call returns the status of a request with a bearer token.
func call(t *testing.T, httpClient *http.Client, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

func (i *installation) lenientGoOIDC(t *testing.T) func(*testing.T, string) bool {
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, i.httpClient(t))
	provider, err := oidc.NewProvider(ctx, i.issuer)
	if err != nil {
		t.Fatal(err)
	}
	verifier := provider.VerifierContext(ctx, &oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: []string{string(v1beta1.SigningAlgorithmES256)}})
	return func(t *testing.T, token string) bool {
		_, err := verifier.Verify(t.Context(), token)
		return err == nil
	}
}

func (i *installation) lenientJose(t *testing.T) func(*testing.T, string) bool {
	return i.startVerifier(t, "jose.js", "LENIENT=1").accepts
}

func (n *verifierProgram) accepts(t *testing.T, token string) bool {
	got := n.verify(t, token)
	return got.Error == "" && got.Payload.Subject != ""
}

// keyServer serves keys at an address of the loopback interface, for programs that can't resolve
// names under localhost or trust only the CAs of the system.
type keyServer struct {
	encrypted, plain string // URLs
	authority        string // path of the certificate of the encrypted one
}

func (i *installation) serveKeys(t *testing.T) keyServer {
	t.Helper()
	return serveKeySet(t, i.get(t, i.issuer+"/oauth2/jwks"))
}

func serveKeySet(t *testing.T, keys string) keyServer {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, keys)
	})
	encrypted, plain := httptest.NewTLSServer(handler), httptest.NewServer(handler)
	t.Cleanup(encrypted.Close)
	t.Cleanup(plain.Close)
	authority := filepath.Join(readableDir(t), "ca.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: encrypted.Certificate().Raw}
	if err := os.WriteFile(authority, pem.EncodeToMemory(block), 0o644); err != nil {
		t.Fatal(err)
	}
	return keyServer{encrypted: encrypted.URL + "/jwks", plain: plain.URL + "/jwks", authority: authority}
}

// readableDir returns a directory that the account of a server can read.
func readableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pyJWT runs PyJWT as its documentation shows for keys at a URL, without audience.
func (k keyServer) pyJWT(t *testing.T, variables ...string) func(*testing.T, string) bool {
	t.Helper()
	// Debian's package is for Debian's Python, which isn't the first one everywhere.
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "/usr/bin/python3", filepath.Join("testdata", "pyjwt.py"))
	command.Env = append(os.Environ(), "SSL_CERT_FILE="+k.authority, "JWKS_URL="+k.encrypted)
	command.Env = append(command.Env, variables...)
	return startVerifier(t, "pyjwt.py", command).accepts
}

// apacheConfig has one location for each of the two modules that verify tokens, as their manuals configure them.
const apacheConfig = `ServerRoot DIR
ServerName 127.0.0.1
Listen LISTEN
PidFile apache.pid
ErrorLog /dev/stderr
User www-data
Group www-data
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authn_core_module MODULES/mod_authn_core.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LoadModule authz_user_module MODULES/mod_authz_user.so
LoadModule status_module MODULES/mod_status.so
LoadModule auth_openidc_module MODULES/mod_auth_openidc.so
LoadModule oauth2_module MODULES/mod_oauth2.so

OIDCCABundlePath AUTHORITY
OIDCOAuthVerifyJwksUri ENCRYPTED
<Location /mod_auth_openidc>
  AuthType oauth20
  Require valid-user
  SetHandler server-status
</Location>

OAuth2TokenVerify jwks_uri PLAIN
<Location /mod_oauth2>
  AuthType oauth2
  Require valid-user
  SetHandler server-status
</Location>
`

// apache starts Apache. It returns a verifier for each module.
func (k keyServer) apache(t *testing.T) map[string]func(*testing.T, string) bool {
	t.Helper()
	port, err := controlplane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	dir := readableDir(t)
	config := strings.NewReplacer(
		"DIR", dir, "LISTEN", port.Address(), "MODULES", "/usr/lib/apache2/modules", "AUTHORITY", k.authority, "ENCRYPTED", k.encrypted, "PLAIN", k.plain,
	).Replace(apacheConfig)
	if err := os.WriteFile(filepath.Join(dir, "apache.conf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	url := "http://" + port.Address() + "/"
	startServer(t, process.Command{
		Name: "apache", Path: "/usr/sbin/apache2", Dir: dir, Args: []string{"-d", dir, "-f", "apache.conf", "-DFOREGROUND"},
	}, http.DefaultClient, http.MethodGet, url)
	verifiers := map[string]func(*testing.T, string) bool{}
	for _, module := range []string{"mod_auth_openidc", "mod_oauth2"} {
		verifiers[module] = func(t *testing.T, token string) bool {
			status := call(t, http.DefaultClient, url+module+"?auto", token)
			if status != http.StatusOK && status != http.StatusUnauthorized {
				t.Errorf("status is %d", status)
			}
			return status == http.StatusOK
		}
	}
	return verifiers
}
