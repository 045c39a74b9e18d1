package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin/output"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// largeCluster serves one Realm and many ApiClients with their records, in pages.
type largeCluster struct {
	clients  int
	onPage   func(page int)
	pages    atomic.Int64
	tooLarge atomic.Bool // a list without a limit was requested
	heap     atomic.Uint64
}

// discovery contains the resources of the API, by path.
var discovery = map[string]string{
	"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","namespaced":true},{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
		{"name":"auth.realmkeeper.dev","versions":[{"groupVersion":"auth.realmkeeper.dev/v1beta1","version":"v1beta1"}]},
		{"name":"rbac.authorization.k8s.io","versions":[{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}]}]}`,
	"/apis/auth.realmkeeper.dev/v1beta1": `{"kind":"APIResourceList","groupVersion":"auth.realmkeeper.dev/v1beta1","resources":[
		{"name":"realms","kind":"Realm","namespaced":false},{"name":"apiclients","kind":"ApiClient","namespaced":true}]}`,
	"/apis/rbac.authorization.k8s.io/v1": `{"kind":"APIResourceList","groupVersion":"rbac.authorization.k8s.io/v1","resources":[{"name":"clusterrolebindings","kind":"ClusterRoleBinding","namespaced":false}]}`,
}

const largeRealm = "0c418334-4051-4c52-ab24-e8cd01ceba00"

func (c *largeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	switch path := r.URL.Path; {
	case discovery[path] != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(discovery[path]))
	case strings.HasSuffix(path, "/clusterrolebindings/realmkeeper-instance"):
		respond(w, map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "roleRef": map[string]any{"name": "system:records"}})
	case strings.HasSuffix(path, "/apiclients"):
		c.list(w, query.Get("continue"), limit, "ApiClientList", func(i int) any {
			return map[string]any{
				"apiVersion": "auth.realmkeeper.dev/v1beta1", "kind": "ApiClient",
				"metadata": map[string]any{"namespace": "apps", "name": fmt.Sprintf("client-%d", i), "uid": fmt.Sprintf("uid-%d", i), "annotations": map[string]any{"a": strings.Repeat("x", 2000)}},
				"spec":     map[string]any{"realmRef": map[string]any{"name": "acme"}},
			}
		})
	case strings.HasSuffix(path, "/secrets") && strings.HasSuffix(query.Get("labelSelector"), "=client"):
		c.list(w, query.Get("continue"), limit, "SecretList", clientRecord)
	case strings.HasSuffix(path, "/realms"):
		respond(w, map[string]any{"kind": "RealmList", "apiVersion": "auth.realmkeeper.dev/v1beta1", "items": []any{}})
	case strings.HasSuffix(path, "/secrets"):
		respond(w, map[string]any{"kind": "SecretList", "apiVersion": "v1", "items": []any{}})
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		respond(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	}
}

// clientRecord returns the record of a client.
func clientRecord(i int) any {
	id := fmt.Sprintf("apps.client-%d", i)
	body := record.Client{UID: "uid", Namespace: "apps", Name: fmt.Sprintf("client-%d", i), RealmUID: largeRealm, RealmName: "acme", ClientID: id, Identity: "x", Audiences: []string{"x"}}
	encoded, _ := json.Marshal(map[string]any{"schemaVersion": record.SchemaVersion, "body": body})
	encoded = bytes.Replace(encoded, []byte(`"uid":"uid"`), []byte(fmt.Sprintf(`"uid":"uid-%d"`, i)), 1)
	return map[string]any{
		"metadata": map[string]any{"namespace": "records", "name": record.ClientRecordName(largeRealm, id), "uid": fmt.Sprintf("record-%d", i)},
		"data":     map[string]any{record.DataKey: encoded},
	}
}

func (c *largeCluster) list(w http.ResponseWriter, next string, limit int, kind string, item func(i int) any) {
	if limit == 0 || limit > 500 {
		c.tooLarge.Store(true)
		limit = 500
	}
	from, _ := strconv.Atoi(next)
	to := min(from+limit, c.clients)
	var items []any
	for i := from; i < to; i++ {
		items = append(items, item(i))
	}
	metadata := map[string]any{}
	if to < c.clients {
		metadata["continue"] = strconv.Itoa(to)
	}
	apiVersion := "auth.realmkeeper.dev/v1beta1"
	if kind == "SecretList" {
		apiVersion = "v1"
	}
	if page := int(c.pages.Add(1)); c.onPage != nil {
		c.onPage(page)
	}
	respond(w, map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "items": items})
}

func respond(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// backUp backs up the cluster to a directory.
func (c *largeCluster) backUp(ctx context.Context, t *testing.T, dir string, recipient age.Recipient) (code int, out string) {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL)
	testkit.Do(t, os.WriteFile(kubeconfig, []byte(content), 0o600))
	var b bytes.Buffer
	streams := output.Streams{In: &b, Out: &b, ErrOut: &b}
	code = plugin.Run(ctx, streams, []string{"backup", "--kubeconfig", kubeconfig, "--recipient", fmt.Sprint(recipient), "--output", filepath.Join(dir, "large.backup")})
	return code, b.String()
}

// A backup of many clients is read in pages, and its size in memory doesn't depend on that of the
// objects, which have 10 MB here.
func TestLargeBackup(t *testing.T) {
	identity := testkit.Value(age.GenerateX25519Identity())(t)
	c, dir := &largeCluster{clients: 1500}, t.TempDir()
	var least uint64
	c.onPage = func(page int) {
		if page%2 != 0 {
			return
		}
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		if least == 0 {
			least = stats.HeapAlloc
		}
		c.heap.Store(max(c.heap.Load(), stats.HeapAlloc))
	}
	if code, out := c.backUp(t.Context(), t, dir, identity.Recipient()); code != 0 || !strings.Contains(out, "1500 clients") {
		t.Fatalf("backup: exit code %d, %s", code, out)
	}
	if c.tooLarge.Load() || c.pages.Load() != 6 {
		t.Errorf("The backup read %d pages, too large: %t; want 6 with at most 500 objects", c.pages.Load(), c.tooLarge.Load())
	}
	if grown := c.heap.Load() - least; grown > 3<<20 {
		t.Errorf("Memory grew by %d MiB, want at most 3", grown>>20)
	}
	file := testkit.Value(os.Open(filepath.Join(dir, "large.backup")))(t)
	defer file.Close()
	r := testkit.Value(backup.NewReader(file, identity))(t)
	if contents, err := backup.Check(r); err != nil || contents.Counts.Clients != c.clients || contents.Counts.ClientRecords != c.clients {
		t.Errorf("Contents: %+v, %v", contents, err)
	}
}

// A backup that is interrupted leaves no file.
func TestInterruptedBackup(t *testing.T) {
	identity := testkit.Value(age.GenerateX25519Identity())(t)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	c := &largeCluster{clients: 2_000, onPage: func(page int) {
		if page != 3 {
			return
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("Files during the backup: %v, %v; want a temporary one", files, err)
		}
		cancel()
	}}
	if code, out := c.backUp(ctx, t, dir, identity.Recipient()); code != 1 || !strings.Contains(out, "canceled") {
		t.Errorf("backup: exit code %d, %s", code, out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("Files after the backup: %v, %v; want none", files, err)
	}
}
