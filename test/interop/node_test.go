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

// node runs a program of the directory node, which knows of the place what strangers are told.
func (p *place) node(ctx context.Context, t *testing.T, program string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node", "node_modules")); err != nil {
		t.Fatalf("The packages of npm are missing, which `make peers` installs: %v", err)
	}
	command := exec.CommandContext(ctx, "node", "--import", "./platform.js", program)
	command.Dir = "node"
	command.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+p.authority, "ISSUER="+p.issuer, "JWKS_URL="+p.issuer+"/oauth2/jwks",
		"KEY_CLIENT_ID="+p.signer.id, "PRIVATE_KEY="+p.signer.private(t),
		"CLIENT_ID="+p.clientID, "CLIENT_SECRET="+p.clientSecret, "AUDIENCE="+audience, "SCOPE="+scope, "SPEED_UP="+strconv.Itoa(speedUp))
	return command
}

// ways are those to discover and to authenticate, as the programs tell them.
var ways = []string{
	"oauth2 client_secret_basic", "oauth2 client_secret_post", "oauth2 private_key_jwt",
	"oidc client_secret_basic", "oidc client_secret_post", "oidc private_key_jwt",
}

func testOpenIDClient(t *testing.T, p *place) {
	p.passes(t, "openid-client.js", append(slices.Clone(ways), "refused"))
}

func testOAuth4WebAPI(t *testing.T, p *place) { p.passes(t, "oauth4webapi.js", ways) }

// passes runs a program that asserts by itself, and tells a line for each step.
func (p *place) passes(t *testing.T, program string, steps []string) {
	t.Helper()
	command := p.node(t.Context(), t, program)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v after %q:\n%s", err, out, stderr.String())
	}
	if diff := cmp.Diff(steps, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// A key set that was fetched before the rotation serves after it, and nothing else than good
// tokens passes.
func testJoseAcrossRotation(t *testing.T, p *place) {
	verifier := p.startJose(t)
	before := p.token(t)
	verifier.wantVerified(t, p, before)
	p.rotate(t)
	verifier.wantVerified(t, p, before)
	after := p.token(t)
	verifier.wantVerified(t, p, after)
	verifier.wantRefused(t, after[:len(after)-8], "ERR_JWS_SIGNATURE_VERIFICATION_FAILED")
	verifier.wantRefused(t, "x", "ERR_JWS_INVALID")
}

// joseVerifier is a running verifier of tokens.
type joseVerifier struct {
	tokens  io.Writer
	answers *bufio.Scanner
}

type joseAnswer struct {
	Payload struct {
		Subject string `json:"sub"`
		Scope   string `json:"scope"`
	} `json:"payload"`
	Error string `json:"error"`
}

func (p *place) startJose(t *testing.T) *joseVerifier {
	t.Helper()
	// Not the test's context: the program ends when it has nothing more to read.
	command := p.node(context.WithoutCancel(t.Context()), t, "jose.js")
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
			t.Errorf("The verifier ended: %v", err)
		}
	})
	return &joseVerifier{tokens: in, answers: bufio.NewScanner(out)}
}

func (j *joseVerifier) verify(t *testing.T, token string) (answer joseAnswer) {
	t.Helper()
	if _, err := io.WriteString(j.tokens, token+"\n"); err != nil {
		t.Fatal(err)
	}
	if !j.answers.Scan() {
		t.Fatalf("The verifier doesn't answer: %v", j.answers.Err())
	}
	if err := json.Unmarshal(j.answers.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func (j *joseVerifier) wantVerified(t *testing.T, p *place, token string) {
	t.Helper()
	if got := j.verify(t, token); got.Error != "" || got.Payload.Subject != p.clientID || got.Payload.Scope != scope {
		t.Errorf("answered %+v", got)
	}
}

func (j *joseVerifier) wantRefused(t *testing.T, token, code string) {
	t.Helper()
	if got := j.verify(t, token); got.Error != code {
		t.Errorf("answered %+v, want the error %s", got, code)
	}
}
