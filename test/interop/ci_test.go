package interop_test

import (
	"crypto"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/issuer"
)

// ciSystem signs the tokens of jobs, like GitHub Actions and GitLab CI.
type ciSystem struct {
	key    crypto.Signer
	issuer string
	claims func(issuer, audience string, now time.Time) issuer.Claims
}

// tokenInLog matches a line with a token that doesn't tell GitHub to hide it.
var tokenInLog = regexp.MustCompile(`(?m)^(?:[^:\n]|:[^:\n])*eyJ`)

// testCIScripts runs the scripts in the guides for CI systems, with the realm and the client in the
// guides' manifests and with tokens of the systems' form.
func testCIScripts(t *testing.T, i *installation) {
	for guide, tc := range map[string]struct {
		ciSystem
		shell   string
		script  func(*testing.T) string
		another map[string]any // claims of a job that must get no token
	}{
		"github-actions": {
			ciSystem: ciSystem{rsaKey(t), "https://token.actions.githubusercontent.com", issuer.GitHub}, shell: "bash", script: workflowScript,
			another: map[string]any{"repository_owner_id": "4712"},
		},
		"gitlab-ci": {
			ciSystem: ciSystem{rsaKey(t), "https://gitlab.com", issuer.GitLab}, shell: "sh", script: jobScript,
			another: map[string]any{"ref_protected": "false"},
		},
	} {
		t.Run(guide, func(t *testing.T) {
			realm, c := i.applyGuide(t, guide, tc.keys(t))
			out, err := i.runJob(t, tc.shell, tc.script(t), realm, tc.ciSystem, nil)
			if want := "called by " + c.Status.ClientID; err != nil || !strings.Contains(out, want) {
				t.Errorf("the script failed with %v, want %q:\n%s", err, want, out)
			}
			if tokenInLog.MatchString(out) {
				t.Errorf("the script prints a token:\n%s", out)
			}
			if out, err := i.runJob(t, tc.shell, tc.script(t), realm, tc.ciSystem, tc.another); err == nil || !strings.Contains(out, "400") {
				t.Errorf("the script succeeded with the claims %v, want an error: %v\n%s", tc.another, err, out)
			}
		})
	}
}

// keys returns the system's keys for a Realm.
func (s ciSystem) keys(t *testing.T) v1beta1.IssuerKeys {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: "ci", Algorithm: "RS256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(set)}
}

func (s ciSystem) token(t *testing.T, audience string, change map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: s.key, KeyID: "ci"}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	claims := s.claims(s.issuer, audience, time.Now())
	maps.Copy(claims, change)
	token, err := jwt.Signed(signer).Claims(map[string]any(claims)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// applyGuide creates the realm and the client in the guide's manifests, with a name of its own and
// the given keys instead of those that are discovered.
func (i *installation) applyGuide(t *testing.T, guide string, keys v1beta1.IssuerKeys) (*v1beta1.Realm, *v1beta1.ApiClient) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", guide, "manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(content), "\n---\n")
	realm, c := &v1beta1.Realm{}, &v1beta1.ApiClient{}
	if err := yaml.UnmarshalStrict([]byte(documents[0]), realm); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(documents[1]), c); err != nil {
		t.Fatal(err)
	}
	realm.Name = guide
	realm.Spec.TrustedIssuers[0].Keys = keys
	realm.Spec.Grants[0].Namespaces.Names = []string{i.client.Namespace}
	realm.Spec.Grants[0].ClientIDs = []string{"*"}
	c.Spec.ClientID = c.Namespace + "." + c.Name
	c.Name, c.Namespace, c.Spec.RealmRef.Name = guide, i.client.Namespace, guide
	i.inst.Create(t, realm, c)
	i.inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	i.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	return realm, c
}

// runJob runs a script with the variables that the CI systems set. change changes claims of the
// job's token.
func (i *installation) runJob(t *testing.T, shell, script string, realm *v1beta1.Realm, system ciSystem, change map[string]any) (string, error) {
	t.Helper()
	requestToken := "request-token"
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/id-token" && r.Header.Get("Authorization") == "Bearer "+requestToken && r.URL.Query().Get("api-version") == "2.0":
			fmt.Fprintf(w, `{"value": %q}`, system.token(t, r.URL.Query().Get("audience"), change))
		case r.URL.Path == "/deployments" && r.Method == http.MethodPost && r.PostFormValue("revision") == "714a629c":
			fmt.Fprintf(w, "called by %s\n", callerOf(t, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
		default:
			http.Error(w, "unexpected request", http.StatusBadRequest)
		}
	}))
	defer platform.Close()
	command := exec.CommandContext(t.Context(), shell, "-c", script)
	command.Env = append(os.Environ(), "CURL_HOME="+t.TempDir(), "CURL_CA_BUNDLE="+i.authority,
		"ISSUER="+realm.Status.Issuer, "ORDERS="+platform.URL,
		"ACTIONS_ID_TOKEN_REQUEST_URL="+platform.URL+"/id-token?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN="+requestToken,
		"GITHUB_SHA=714a629c", "CI_COMMIT_SHA=714a629c", "REALM_TOKEN="+system.token(t, realm.Status.Issuer, change))
	out, err := command.CombinedOutput()
	return string(out), err
}

// callerOf returns the client ID in an access token, or an empty string.
func callerOf(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return ""
	}
	var claims struct {
		ClientID string `json:"client_id"`
	}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	return claims.ClientID
}

// workflowScript returns the script in the guide for GitHub Actions, which runs in bash there.
func workflowScript(t *testing.T) string {
	t.Helper()
	var workflow struct {
		Jobs struct {
			Deploy struct {
				Steps []struct {
					Run string `json:"run"`
				} `json:"steps"`
			} `json:"deploy"`
		} `json:"jobs"`
	}
	readGuide(t, "github-actions/workflow.yaml", &workflow)
	return workflow.Jobs.Deploy.Steps[0].Run
}

// jobScript returns the script in the guide for GitLab CI.
func jobScript(t *testing.T) string {
	t.Helper()
	var file struct {
		Deploy struct {
			Script []string `json:"script"`
		} `json:"deploy"`
	}
	readGuide(t, "gitlab-ci/gitlab-ci.yaml", &file)
	return strings.Join(file.Deploy.Script, "\n")
}

func readGuide(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}
