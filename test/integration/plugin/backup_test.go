package plugin_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
)

// testBackup checks what a backup contains, and that its file is written only completely. It returns
// the path of a backup with a client in a state of every kind.
func testBackup(t *testing.T, s *source, recipient string) string {
	t.Helper()
	waiting := install.ApiClient(shopTeam, "waiting", "none")
	deleted := install.ApiClient(shopTeam, "deleted", "acme", func(c *v1beta1.ApiClient) { c.Finalizers = []string{"example.com/hold"} })
	unreadable := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.RecordsNamespace, Name: "realm-broken", Labels: record.Labels(record.KindRealm)},
	}
	s.Create(t, waiting, deleted)
	s.AwaitReady(t, waiting, metav1.ConditionFalse, v1beta1.ReasonRealmNotFound)
	if err := s.Env.Client.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.backup")
	out := s.user.Succeeds(t, "backup", "--recipient", recipient, "--output", file)
	for _, want := range []string{"2 realms and 3 clients", "being deleted", shopTeam + "/deleted", "without a record", "whose Realm does not exist"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("Report of the backup does not contain %q:\n%s", want, out)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Mode of the backup: %v, %v; want 0600", info.Mode(), err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.user.Fails(t, "the file exists", "backup", "--recipient", recipient, "--output", file)
	s.user.Fails(t, "recipient not valid", "backup", "--recipient", "age1x", "--output", file)
	s.user.Fails(t, "age-keygen", "backup", "--output", file)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.user.Run(canceled, "backup", "--recipient", recipient, "--overwrite", "--output", file); got.Code != 1 {
		t.Errorf("A backup that is interrupted succeeds: %+v", got)
	}
	if after, err := os.ReadFile(file); err != nil || !slices.Equal(before, after) {
		t.Errorf("The file changed: %v", err)
	}
	s.user.Succeeds(t, "backup", "--recipient", recipient, "--output", dir) // a new file in the directory
	s.Create(t, unreadable)
	s.user.Fails(t, "1 records cannot be read", "backup", "--recipient", recipient, "--overwrite", "--output", file)
	s.Delete(t, unreadable)
	if left, err := fs.Glob(os.DirFS(dir), "*"); err != nil || len(left) != 2 {
		t.Errorf("Files in the directory: %q, %v; want 2", left, err)
	}
	return file
}

// testBackupPermissions backs up with the documented permissions, as the documented CronJob does.
func testBackupPermissions(t *testing.T, s *source, recipient string) {
	t.Helper()
	if code, out := s.user.Kubectl(t, "", "apply", "--validate=strict", "--filename", filepath.Join("..", "..", "..", "docs", "backup", "backup.yaml")); code != 0 {
		t.Errorf("kubectl apply: %s", out)
	}
	s.ApplyFile(t, "docs", "backup", "backup-rbac.yaml")
	file := filepath.Join(t.TempDir(), "a.backup")
	account := "system:serviceaccount:realmkeeper-backup:backup"
	s.user.Succeeds(t, "backup", "--recipient", recipient, "--output", file, "--as", account)
	s.user.Fails(t, "forbidden", "backup", "--recipient", recipient, "--output", file+"2", "--as", "restorer")
}

// testRejected checks that a backup that can't be used changes nothing, and that the error says why.
func testRejected(t *testing.T, to *install.Installation, identity, file string) {
	t.Helper()
	u := plugin.NewUser(to.Env)
	before := objects(t, to.Env)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := plugin.NewIdentity(t)
	u.Fails(t, "not encrypted to this identity", "restore", "--identity", other, file)
	u.Fails(t, "identity file not valid", "restore", "--identity", file, file)
	u.Fails(t, "not a backup", "restore", "--identity", identity, identity)
	u.Fails(t, "no such file", "restore", "--identity", identity, file+"x")
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	u.Fails(t, "the backup is damaged", "restore", "--identity", identity, damaged)
	u.Fails(t, "the base URL of the token service is unknown", "restore", "--identity", identity, file)
	u.Fails(t, "belongs to another token service", "restore", "--identity", identity, "--service-url", "https://api.other.example", file)
	if diff := cmp.Diff(before, objects(t, to.Env)); diff != "" {
		t.Errorf("A rejected backup changed objects (-before +after):\n%s", diff)
	}
}

// testInterrupted stops the restore of two realms and their clients after each write. In the end,
// everything is as after a restore that isn't interrupted.
func testInterrupted(t *testing.T, to *install.Installation, identity, file string) {
	t.Helper()
	u := plugin.NewUser(to.Env)
	restore := []string{"restore", "--identity", identity, file}
	before := objects(t, to.Env)
	u.Succeeds(t, append(restore, "--dry-run")...)
	if diff := cmp.Diff(before, objects(t, to.Env)); diff != "" {
		t.Errorf("--dry-run changed objects (-before +after):\n%s", diff)
	}
	writes := 0
	for ; ; writes++ {
		interrupted := plugin.NewUser(to.Env)
		proxy := to.StartFaultProxy(t, install.Faults{Of: func(w install.Write) install.Fault {
			if w.Number > 1 {
				return install.RequestLost
			}
			return install.ResponseLost
		}})
		interrupted.Kubeconfig = to.KubeconfigFor(t, proxy.URL)
		got := interrupted.Run(t.Context(), restore...)
		if got.Code == 0 {
			break
		}
		if !strings.Contains(got.Stderr, "run the same command again") {
			t.Errorf("The error does not say what to do: %s", got.Stderr)
		}
		if writes > 30 {
			t.Fatal("The restore makes no progress")
		}
	}
	if writes < 10 {
		t.Errorf("The restore was interrupted %d times, want at least once for each of the 5 objects, the 4 records, and the credentials Secret", writes)
	}
	stepwise := written(t, to.Env)
	remove(t, to)
	u.Succeeds(t, restore...)
	defer remove(t, to)
	if diff := cmp.Diff(stepwise, written(t, to.Env)); diff != "" {
		t.Errorf("State after interruptions (-interrupted +not interrupted):\n%s", diff)
	}
}
