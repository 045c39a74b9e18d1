package interop_test

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// testDPoP checks tokens that are bound to a key with the libraries that are the reference for
// clients (RFC 9449), and nginx with the configuration from the guide.
func testDPoP(t *testing.T, i *installation) {
	n := i.startNginx(t, asDocumented)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() { // the API would wait for a test that reads the headers
		for {
			select {
			case <-n.got:
			case <-done:
				return
			}
		}
	}()
	bound := i.createClient(t, "bound", func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.SenderConstraint = []string{scope}, v1beta1.SenderConstraintDPoP
	})
	authorities, err := os.ReadFile(i.authority)
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), "both.crt")
	authorities = append(authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.certificate.Raw})...)
	if err := os.WriteFile(both, authorities, 0o600); err != nil {
		t.Fatal(err)
	}
	environment := func(command *exec.Cmd) {
		command.Env = append(command.Env, "NODE_EXTRA_CA_CERTS="+both, "API_URL="+n.url+"/orders",
			"CLUSTER_TOKEN_URL="+string(bound.Data["cluster_token_url"]),
			"BOUND_CLIENT_ID="+string(bound.Data["client_id"]), "BOUND_CLIENT_SECRET="+string(bound.Data["client_secret"]))
	}
	var steps []string
	for _, method := range []string{"client_secret_basic", "private_key_jwt"} {
		for _, algorithm := range []string{"ES256", "Ed25519", "PS256"} {
			steps = append(steps, method+" "+algorithm)
		}
	}
	t.Run("openid-client", func(t *testing.T) {
		i.runProgram(t, "dpop-openid-client.js", append(slices.Clone(steps), "required"), environment)
	})
	t.Run("oauth4webapi", func(t *testing.T) {
		i.runProgram(t, "dpop-oauth4webapi.js", []string{"client_secret_basic", "private_key_jwt"}, environment)
	})
}
