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
	return nodeCommand(ctx, t, program, "NODE_EXTRA_CA_CERTS="+i.authority, "ISSUER="+i.issuer, "JWKS_URL="+i.issuer+"/oauth2/jwks",
		"KEY_CLIENT_ID="+i.signer.id, "PRIVATE_KEY="+i.signer.private(t),
		"CLIENT_ID="+i.clientID, "CLIENT_SECRET="+i.clientSecret,
		"GATEWAY_CLIENT_ID="+string(i.gateway.Data["client_id"]), "GATEWAY_CLIENT_SECRET="+string(i.gateway.Data["client_secret"]),
		"AUDIENCE="+audience, "SCOPE="+scope, "SPEED_UP="+strconv.Itoa(speedUp))
}

func nodeCommand(ctx context.Context, t *testing.T, program string, env ...string) *exec.Cmd {
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
	command.Env = append(os.Environ(), env...)
	return command
}

// combinations lists the combinations of discovery and client authentication that the programs
// report.
var combinations = []string{
	"oauth2 client_secret_basic", "oauth2 client_secret_post", "oauth2 private_key_jwt",
	"oidc client_secret_basic", "oidc client_secret_post", "oidc private_key_jwt",
}

func testOpenIDClient(t *testing.T, i *installation) {
	i.runProgram(t, "openid-client.js", append(slices.Clone(combinations), "introspected by the gateway only", "token URL with a query", "rejected"))
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
	verifier := i.startVerifier(t, "jose.js")
	return func(t *testing.T, token string) {
		verifier.wantVerified(t, i, token)
		verifier.wantRejected(t, token[:len(token)-8], "ERR_JWS_SIGNATURE_VERIFICATION_FAILED")
	}
}

// awsJWTVerify checks tokens with a program that uses aws-jwt-verify, which must reject invalid ones.
func awsJWTVerify(t *testing.T, i *installation) func(*testing.T, string) {
	verifier := i.startVerifier(t, "aws-jwt-verify.js")
	return func(t *testing.T, token string) {
		verifier.wantVerified(t, i, token)
		verifier.wantRejected(t, token[:len(token)-8]+"AAAAAAAA", "JwtInvalidSignatureError")
	}
}

func testAWSJWTVerify(t *testing.T, i *installation) { awsJWTVerify(t, i)(t, i.token(t)) }

// verifierProgram is a running program that verifies tokens.
type verifierProgram struct {
	program string

	tokens  io.Writer
	results *bufio.Scanner
}

type verifierResult struct {
	Payload struct {
		Subject string `json:"sub"`
		Scope   string `json:"scope"`
	} `json:"payload"`
	Error string `json:"error"`
}

// startVerifier starts a program that verifies tokens, with additional environment variables.
func (i *installation) startVerifier(t *testing.T, program string, variables ...string) *verifierProgram {
	t.Helper()
	// Closing its standard input ends the program. Canceling the test's context must not kill it.
	command := i.node(context.WithoutCancel(t.Context()), t, program)
	command.Env = append(command.Env, variables...)
	return startVerifier(t, program, command)
}

func startVerifier(t *testing.T, program string, command *exec.Cmd) *verifierProgram {
	t.Helper()
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
			t.Errorf("%s failed: %v", program, err)
		}
	})
	return &verifierProgram{program: program, tokens: in, results: bufio.NewScanner(out)}
}

func (n *verifierProgram) verify(t *testing.T, token string) (result verifierResult) {
	t.Helper()
	if _, err := io.WriteString(n.tokens, token+"\n"); err != nil {
		t.Fatal(err)
	}
	if !n.results.Scan() {
		t.Fatalf("%s printed no result: %v", n.program, n.results.Err())
	}
	if err := json.Unmarshal(n.results.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func (n *verifierProgram) wantVerified(t *testing.T, i *installation, token string) {
	t.Helper()
	if got := n.verify(t, token); got.Error != "" || got.Payload.Subject != i.clientID || got.Payload.Scope != scope {
		t.Errorf("result is %+v, want sub %q and scope %q", got, i.clientID, scope)
	}
}

func (n *verifierProgram) wantRejected(t *testing.T, token, code string) {
	t.Helper()
	if got := n.verify(t, token); got.Error != code {
		t.Errorf("result is %+v, want the error %s", got, code)
	}
}
