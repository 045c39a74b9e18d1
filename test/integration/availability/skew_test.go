package availability_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// later is the name of what the next version adds to the records of clients: an optional member, and a
// restriction of clients with this description, which stands for a new field.
const later = "later"

// nextVersion are the changes that turn the source into that of the next version.
var nextVersion = []struct{ file, old, new string }{
	{"internal/contract/record/record.go", "	// Restrictions apply to the client.\n", "	Later string `json:\"later,omitempty\"`\n"},
	{"internal/contract/record/restriction.go", "var knownRestrictions []string\n", "var knownRestrictions = []string{\"later\"}\n"},
	{
		"internal/operator/apiclient/record.go", "		Restrictions: seen.recorded.Restrictions.Unknown(),\n",
		"		Later: \"written\", Restrictions: nextRestrictions(c, seen.recorded.Restrictions),\n",
	},
	{"internal/operator/apiclient/record.go", "// basis returns", `func nextRestrictions(c *v1beta1.ApiClient, recorded record.Restrictions) record.Restrictions {
	if c.Spec.Description == "later" {
		return record.Restrictions{"later": []byte("true")}
	}
	return recorded.Unknown()
}

// basis returns`},
}

// While versions are mixed, tokens of existing clients don't fail, suspensions and revocations take effect
// everywhere, and no token server ignores a restriction that it doesn't know. This holds in each order.
func TestMixedVersions(t *testing.T) {
	next := buildNextVersion(t)
	cluster := *env.Start(t)
	cluster.RaceDetector = false // the next version is built without it, too
	for name, test := range map[string]struct{ rollback, tokenServersFirst bool }{
		"upgrade of the operator first":       {false, false},
		"upgrade of the token servers first":  {false, true},
		"rollback of the operator first":      {true, false},
		"rollback of the token servers first": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mixed{inst: install.New(t, &cluster, install.Settings{}), next: next}
			m.replaceOperator(t, test.rollback)
			m.addTokenServer(t, test.rollback)
			m.createClients(t)
			m.check(t)
			steps := []func(){
				func() { m.replaceOperator(t, !test.rollback) },
				func() { m.addTokenServer(t, !test.rollback) },
			}
			if test.tokenServersFirst {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				step()
				m.check(t)
			}
			m.checkSuspensionOfRestricted(t)
			m.prober.Stop(t)
		})
	}
}

// mixed is an installation with programs of two versions.
type mixed struct {
	inst   *install.Installation
	next   string // the directory of the programs of the next version
	older  []*install.TokenServer
	newer  bool // whether the operator is of the next version
	prober *scenario.Prober
	// kept gets tokens all the time, changed is suspended and its secret revoked, and restricted gets the
	// restriction as soon as an operator of the next version works.
	kept, changed, restricted *v1beta1.ApiClient
}

func (m *mixed) setVersion(newer bool) {
	m.inst.Binaries = ""
	if newer {
		m.inst.Binaries = m.next
	}
}

func (m *mixed) replaceOperator(t *testing.T, newer bool) {
	t.Helper()
	m.setVersion(newer)
	m.inst.StopOperator(t)
	m.inst.StartOperator(t, "")
	m.newer = newer
}

func (m *mixed) addTokenServer(t *testing.T, newer bool) {
	t.Helper()
	m.setVersion(newer)
	if s := m.inst.StartTokenServer(t); !newer {
		m.older = append(m.older, s)
	}
}

func (m *mixed) createClients(t *testing.T) {
	t.Helper()
	namespace := m.inst.Env.Namespace(t)
	m.kept, m.changed, m.restricted = install.ApiClient(namespace, "kept", "acme"), install.ApiClient(namespace, "changed", "acme"), install.ApiClient(namespace, "restricted", "acme")
	m.inst.Create(t, install.Realm("acme"), m.kept, m.changed, m.restricted)
	for _, c := range []*v1beta1.ApiClient{m.kept, m.changed, m.restricted} {
		scenario.AwaitUsable(t, m.inst, c)
	}
}

// check checks the installation after a step.
func (m *mixed) check(t *testing.T) {
	t.Helper()
	before := m.prober
	m.prober = scenario.StartProber(t, m.inst) // also for the new token server
	m.prober.Watch("kept", scenario.MountedCredentials(m.inst, m.kept))
	if before != nil {
		before.Stop(t)
	}
	install.Eventually(t, "the record of the operator's version", func() error {
		if body := m.record(t, m.kept); m.newer && body[later] == nil {
			return fmt.Errorf("it has the members %v", body)
		}
		return nil
	})

	old := m.inst.CredentialsSecret(t, m.changed)
	install.Change(t, m.inst, m.changed, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	m.inst.AwaitReady(t, m.changed, metav1.ConditionFalse, v1beta1.ReasonSuspended)
	m.inst.AwaitTokens(t, old, false)
	install.Change(t, m.inst, m.changed, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
	scenario.AwaitUsable(t, m.inst, m.changed)
	m.inst.Delete(t, old)
	m.inst.AwaitTokens(t, old, false)
	m.inst.AwaitTokens(t, m.inst.CredentialsSecret(t, m.changed), true)

	scenario.AwaitUsable(t, m.inst, m.kept)
	m.checkRestricted(t)
}

// checkRestricted checks the client with the restriction, and restricts it if an operator of the next
// version works.
func (m *mixed) checkRestricted(t *testing.T) {
	t.Helper()
	if m.newer && m.restricted.Spec.Description != later {
		install.Change(t, m.inst, m.restricted, func(c *v1beta1.ApiClient) { c.Spec.Description = later })
	}
	if m.restricted.Spec.Description != later {
		return
	}
	if len(m.older) == 0 {
		scenario.AwaitUsable(t, m.inst, m.restricted)
	} else {
		m.inst.AwaitReady(t, m.restricted, metav1.ConditionUnknown, v1beta1.ReasonProgressing)
	}
	credentials := m.inst.CredentialsSecret(t, m.restricted)
	for _, s := range m.inst.Servers() {
		want, wantReported := http.StatusOK, "0"
		if slices.Contains(m.older, s) {
			want, wantReported = http.StatusUnauthorized, "1"
		}
		httpClient := s.Client(t)
		install.Eventually(t, fmt.Sprintf("%s to respond to the restricted client with %d", s.Name, want), func() error {
			got, err := install.RequestToken(t, s, httpClient, credentials)
			if err == nil && got.Status != want {
				err = fmt.Errorf("the status is %d", got.Status)
			}
			return err
		})
		if got := s.Metric(t, "realmkeeper_registry_unreadable_records"); got != wantReported {
			t.Errorf("%s reports %s records, want %s", s.Name, got, wantReported)
		}
	}
}

// checkSuspensionOfRestricted suspends and resumes the client with the restriction.
func (m *mixed) checkSuspensionOfRestricted(t *testing.T) {
	t.Helper()
	credentials := m.inst.CredentialsSecret(t, m.restricted)
	install.Change(t, m.inst, m.restricted, func(c *v1beta1.ApiClient) { c.Spec.Suspend = true })
	m.inst.AwaitReady(t, m.restricted, metav1.ConditionFalse, v1beta1.ReasonSuspended)
	install.Eventually(t, "every token server to have loaded the suspension", func() error {
		if err := m.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(m.restricted), m.restricted); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(m.restricted.Status.Conditions, string(v1beta1.ConditionProgrammed)) {
			return fmt.Errorf("the conditions are %v", m.restricted.Status.Conditions)
		}
		return nil
	})
	m.inst.AwaitTokens(t, credentials, false)
	install.Change(t, m.inst, m.restricted, func(c *v1beta1.ApiClient) { c.Spec.Suspend = false })
	m.checkRestricted(t)
}

// record returns the members of a client's record.
func (m *mixed) record(t *testing.T, c *v1beta1.ApiClient) map[string]json.RawMessage {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: m.inst.RecordsNamespace, Name: scenario.RecordName(t, m.inst, c)}
	if err := m.inst.Env.Client.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Body map[string]json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(secret.Data[record.DataKey], &stored); err != nil {
		t.Fatal(err)
	}
	return stored.Body
}

// buildNextVersion builds the operator and the token server of the next version and returns their directory.
func buildNextVersion(t *testing.T) string {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sources := map[string]string{}
	for _, change := range nextVersion {
		source, replacement := filepath.Join(root, change.file), filepath.Join(dir, strings.ReplaceAll(change.file, "/", "_"))
		if sources[source] != "" {
			source = replacement // which already has another change
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte(change.old)) {
			t.Fatalf("%s no longer contains %q", change.file, change.old)
		}
		if err := os.WriteFile(replacement, bytes.Replace(text, []byte(change.old), []byte(change.new), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		sources[filepath.Join(root, change.file)] = replacement
	}
	encoded, err := json.Marshal(map[string]any{"Replace": sources})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"build", "-overlay", overlay, "-o", dir + "/"}, controlplane.ProductFlags)
	build := exec.CommandContext(t.Context(), "go", append(args, "./cmd/operator", "./cmd/token-server")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the next version: %v\n%s", err, out)
	}
	return dir
}
