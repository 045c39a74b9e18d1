package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// others are the IDs of the clients that only repeat what client 0000 with the same kind of hash shows.
var others = regexp.MustCompile(`-000[1-9]$`)

// Clients of other systems are imported.
func TestImport(t *testing.T) {
	inst := scenario.Running(t, env.Start(t))
	t.Run("Hydra", func(t *testing.T) { testHydra(t, inst) })
	t.Run("Keycloak", func(t *testing.T) { testKeycloak(t, inst) })
}

// The clients of Hydra become Ready without changes by hand, and each gets tokens with its old
// secret: encoded as the RFC requires, and as curl and others send it.
func testHydra(t *testing.T, inst *install.Installation) {
	cluster := inst.Env
	team := cluster.Namespace(t)
	dir := exportDir(t, "hydra")
	secrets := secretsOf(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "clients*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files of clients: %v", dir, err)
	}
	out := filepath.Join(t.TempDir(), "acme")
	arguments := append([]string{"hydra", "--hashes", filepath.Join(dir, "hashes.txt"), "--realm", "hydra", "-n", team, "--output-dir", out, "--report", "json"}, files...)
	report := importClients(t, cluster, arguments...)
	for _, f := range report.NotImported {
		t.Logf("Not imported: %s: %s", f.ClientID, f.Message)
		delete(secrets, f.ClientID)
	}

	ready := apply(t, inst, team, out)
	if ready != report.Clients {
		t.Errorf("%d ApiClients are Ready, want %d", ready, report.Clients)
	}
	endpoint := tokenEndpoint(t, inst, "hydra")
	s := inst.Servers()[0]
	maps.DeleteFunc(secrets, func(id, _ string) bool { return others.MatchString(id) })
	requestAll(t, "the secrets encoded", s, endpoint, secrets, tokenEncoded)
	requestAll(t, "the secrets as they are", s, endpoint, secrets, tokenRaw)
	wrong := map[string]string{}
	for _, id := range []string{"fixture-pbkdf2-0000", "fixture-bcrypt-0000"} {
		wrong[id] = secrets[id] + "+%41"
	}
	requestAll(t, "wrong secrets", s, endpoint, wrong, rejected)
}

func tokenEndpoint(t *testing.T, inst *install.Installation, name string) string {
	t.Helper()
	realm := &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name}}
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	return realm.Status.TokenEndpoint
}

type report struct {
	Clients               int
	NotImported, Warnings []struct{ ClientID, Message string }
}

// importClients runs the import, and returns its report.
func importClients(t *testing.T, cluster *env.Env, arguments ...string) report {
	t.Helper()
	command := exec.CommandContext(t.Context(), install.Binary(t, cluster, "realmkeeper-import"), arguments...)
	var stderr strings.Builder
	command.Stderr = &stderr
	err := command.Run()
	var r report
	if decoded := json.Unmarshal([]byte(stderr.String()), &r); decoded != nil {
		t.Fatalf("%q: %v: %s", arguments, err, stderr.String())
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	if failed != (len(r.NotImported) > 0) || failed && exit.ExitCode() != 1 {
		t.Errorf("%q: %v, but %d clients were not imported", arguments, err, len(r.NotImported))
	}
	return r
}

// apply applies the files with kubectl, first without storing anything. It waits until all ApiClients
// that aren't suspended are Ready, and returns their number.
func apply(t *testing.T, inst *install.Installation, team, dir string) int {
	t.Helper()
	user := plugin.NewUser(inst.Env)
	for _, dryRun := range []string{"server", "none"} {
		if code, out := user.Kubectl(t, "", "apply", "--dry-run="+dryRun, "--filename", dir); code != 0 {
			t.Fatalf("kubectl apply --dry-run=%s: %s", dryRun, out)
		}
	}
	clients, ready := &v1beta1.ApiClientList{}, 0
	install.Eventually(t, "all ApiClients to be Ready", func() error {
		if err := inst.Env.Client.List(t.Context(), clients, client.InNamespace(team)); err != nil {
			return err
		}
		ready = 0
		for i := range clients.Items {
			c := &clients.Items[i]
			if c.Spec.Suspend {
				continue
			}
			ready++
			for _, condition := range c.Status.Conditions {
				if condition.Type == string(v1beta1.ConditionReady) && condition.Status != metav1.ConditionTrue {
					return fmt.Errorf("%s is not Ready: %s", c.Name, condition.Message)
				}
			}
			if len(c.Status.Conditions) == 0 {
				return fmt.Errorf("%s has no conditions", c.Name)
			}
		}
		return nil
	})
	return ready
}

// request requests a token, and returns an error unless the response is as expected.
type request func(ctx context.Context, httpClient *http.Client, url, id, secret string) error

// requestAll requests a token for each client, four at a time. A request is repeated after a 503, as
// the response says.
func requestAll(t *testing.T, what string, s *install.TokenServer, endpoint string, secrets map[string]string, request request) {
	t.Helper()
	httpClient := s.Client(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(4)
	for _, id := range slices.Sorted(maps.Keys(secrets)) {
		group.Go(func() error {
			for {
				err := request(ctx, httpClient, endpoint, id, secrets[id])
				if err == nil {
					return nil
				}
				if !errors.Is(err, errBusy) {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

var errBusy = errors.New("503")

// tokenEncoded requests a token with golang.org/x/oauth2, which encodes the secret.
func tokenEncoded(ctx context.Context, httpClient *http.Client, endpoint, id, secret string) error {
	config := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: endpoint, AuthStyle: oauth2.AuthStyleInHeader}
	_, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, httpClient))
	if retrieve, ok := errors.AsType[*oauth2.RetrieveError](err); ok && retrieve.Response.StatusCode == http.StatusServiceUnavailable {
		return errBusy
	}
	return err
}

// tokenRaw requests a token with a secret that isn't encoded.
func tokenRaw(ctx context.Context, httpClient *http.Client, endpoint, id, secret string) error {
	return expectStatus(ctx, httpClient, endpoint, id, secret, http.StatusOK)
}

// rejected expects that both forms of the secret are rejected.
func rejected(ctx context.Context, httpClient *http.Client, endpoint, id, secret string) error {
	for _, sent := range []string{secret, url.QueryEscape(secret)} {
		if err := expectStatus(ctx, httpClient, endpoint, id, sent, http.StatusUnauthorized); err != nil {
			return err
		}
	}
	return nil
}

func expectStatus(ctx context.Context, httpClient *http.Client, endpoint, id, secret string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"?grant_type=client_credentials", http.NoBody)
	if err != nil {
		return err
	}
	req.SetBasicAuth(id, secret)
	response, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusServiceUnavailable:
		return errBusy
	case want:
		return nil
	}
	return fmt.Errorf("the response is %s, want %d", response.Status, want)
}

// exportDir returns the directory with an export of the given system, as the system wrote it.
func exportDir(t *testing.T, system string) string {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "internal", "tools", "migration", system, "testdata")
}

func secretsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "secrets.json"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{}
	if err := json.Unmarshal(content, &secrets); err != nil {
		t.Fatal(err)
	}
	return secrets
}
