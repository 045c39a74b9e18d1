package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// node returns a command that runs a program in the directory node. The program gets only the
// credentials and URLs that a third party would have.
func (i *installation) node(ctx context.Context, t *testing.T, program string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node", "node_modules")); err != nil {
		t.Fatalf("The npm packages are missing; run `make peers` to install them: %v", err)
	}
	platform, err := filepath.Abs(filepath.Join("node", "platform.js"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, "node", "--import", platform, program)
	command.Dir = "node"
	command.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+i.authority, "ISSUER="+i.issuer, "JWKS_URL="+i.issuer+"/oauth2/jwks",
		"KEY_CLIENT_ID="+i.signer.id, "PRIVATE_KEY="+i.signer.private(t),
		"CLIENT_ID="+i.clientID, "CLIENT_SECRET="+i.clientSecret,
		"GATEWAY_CLIENT_ID="+string(i.gateway.Data["client_id"]), "GATEWAY_CLIENT_SECRET="+string(i.gateway.Data["client_secret"]),
		"AUDIENCE="+audience, "SCOPE="+scope, "SPEED_UP="+strconv.Itoa(speedUp))
	return command
}

// combinations lists the combinations of discovery and client authentication that the programs
// report.
var combinations = []string{
	"oauth2 client_secret_basic", "oauth2 client_secret_post", "oauth2 private_key_jwt",
	"oidc client_secret_basic", "oidc client_secret_post", "oidc private_key_jwt",
}

func testOpenIDClient(t *testing.T, i *installation) {
	i.runProgram(t, "openid-client.js", append(slices.Clone(combinations), "introspected by the gateway only", "rejected"))
}

func testOAuth4WebAPI(t *testing.T, i *installation) {
	i.runProgram(t, "oauth4webapi.js", combinations)
}

// runProgram runs a program that contains its own assertions and prints a line for each step.
func (i *installation) runProgram(t *testing.T, program string, steps []string, change ...func(*exec.Cmd)) {
	t.Helper()
	command := i.node(t.Context(), t, program)
	for _, c := range change {
		c(command)
	}
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s failed after %q: %v\n%s", program, out, err, stderr.String())
	}
	if diff := cmp.Diff(steps, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// joseProgram checks tokens with a program that uses jose, which must reject invalid ones.
func joseProgram(t *testing.T, i *installation) func(*testing.T, string) {
	verifier := i.startJose(t)
	return func(t *testing.T, token string) {
		verifier.wantVerified(t, i, token)
		verifier.wantRejected(t, token[:len(token)-8], "ERR_JWS_SIGNATURE_VERIFICATION_FAILED")
	}
}

// joseVerifier is a running program that verifies tokens.
type joseVerifier struct {
	tokens  io.Writer
	results *bufio.Scanner
}

type joseResult struct {
	Payload struct {
		Subject string `json:"sub"`
		Scope   string `json:"scope"`
	} `json:"payload"`
	Error string `json:"error"`
}

func (i *installation) startJose(t *testing.T) *joseVerifier {
	t.Helper()
	// Closing its standard input ends the program. Canceling the test's context must not kill it.
	command := i.node(context.WithoutCancel(t.Context()), t, "jose.js")
	command.Stderr = os.Stderr
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
		if err := command.Wait(); err != nil {
			t.Errorf("jose.js failed: %v", err)
		}
	})
	return &joseVerifier{tokens: in, results: bufio.NewScanner(out)}
}

func (j *joseVerifier) verify(t *testing.T, token string) (result joseResult) {
	t.Helper()
	if _, err := io.WriteString(j.tokens, token+"\n"); err != nil {
		t.Fatal(err)
	}
	if !j.results.Scan() {
		t.Fatalf("jose.js printed no result: %v", j.results.Err())
	}
	if err := json.Unmarshal(j.results.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func (j *joseVerifier) wantVerified(t *testing.T, i *installation, token string) {
	t.Helper()
	if got := j.verify(t, token); got.Error != "" || got.Payload.Subject != i.clientID || got.Payload.Scope != scope {
		t.Errorf("result is %+v, want sub %q and scope %q", got, i.clientID, scope)
	}
}

func (j *joseVerifier) wantRejected(t *testing.T, token, code string) {
	t.Helper()
	if got := j.verify(t, token); got.Error != code {
		t.Errorf("result is %+v, want the error %s", got, code)
	}
}
