package feed_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// clientRecord returns the record of a client, as the API server stores it.
func clientRecord(t *testing.T, id, version, scope string) *corev1.Secret {
	t.Helper()
	secret := stored(t)(recordsecret.ForClient("records", record.Client{
		UID: "c1", Namespace: "apps", Name: id, Identity: "c1", RealmUID: realmUID, RealmName: "acme", ClientID: id,
		Audiences: []string{"https://orders.example.com"}, Scopes: []string{scope},
	}))
	secret.ResourceVersion = version
	return secret
}

// stream delivers a list as the reflector does if the API server streams it.
func stream(t *testing.T, f *feed.Feed, version string, secrets ...*corev1.Secret) {
	t.Helper()
	var list []any
	for _, secret := range secrets {
		converted := testkit.Value(f.Transformer()(secret))(t)
		list = append(list, converted)
	}
	testkit.Do(t, f.Replace(list, version))
}

func newFeed(dir string) (*feed.Feed, *registry.Registry) {
	reg := registry.New()
	return feed.New(feed.Options{
		Registry: reg, SnapshotDir: dir, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now,
	}), reg
}

// While a new list arrives, clients whose record hasn't changed aren't in memory twice.
func TestUnchangedRecordsAreNotConvertedAgain(t *testing.T) {
	f, reg := newFeed("")
	first, second := clientRecord(t, "first", "1", "a"), clientRecord(t, "second", "2", "a")
	stream(t, f, "3", first, second)
	kept, changed := reg.ClientOf(first.Name), reg.ClientOf(second.Name)
	stream(t, f, "5", first, clientRecord(t, "second", "4", "b"))
	if got := reg.ClientOf(first.Name); got != kept || got == nil {
		t.Errorf("the unchanged client was converted again: %v", got)
	}
	if got := reg.ClientOf(second.Name); got == changed || got.Scopes[0] != "b" {
		t.Errorf("the changed client is %v", got)
	}
	stream(t, f, "6", first)
	if got := reg.ClientOf(second.Name); got != nil {
		t.Errorf("the client is %v, although the list doesn't contain it", got)
	}
}

// If a record in the list is unreadable, the next process loads the record from the snapshot. This
// works for streamed lists and for lists in one response.
func TestListIsSaved(t *testing.T) {
	first, second := clientRecord(t, "first", "1", "a"), clientRecord(t, "second", "2", "a")
	damaged := second.DeepCopy()
	damaged.Data, damaged.ResourceVersion = nil, "4"
	for name, list := range map[string]func(f *feed.Feed, secrets ...*corev1.Secret){
		"streamed": func(f *feed.Feed, secrets ...*corev1.Secret) {
			f.BeginList()
			stream(t, f, "10", secrets...)
		},
		"in one response": func(f *feed.Feed, secrets ...*corev1.Secret) {
			var all []any
			for _, secret := range secrets {
				all = append(all, secret)
			}
			testkit.Do(t, f.Replace(all, "10"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f, _ := newFeed(dir)
			list(f, first, second)
			for restarts := range 2 {
				next, reg := newFeed(dir)
				list(next, first, damaged)
				if reg.ClientOf(first.Name) == nil || reg.ClientOf(second.Name) == nil {
					t.Errorf("after %d restarts, a client is missing", restarts)
				}
			}
			f, reg := newFeed(dir)
			list(f)
			if _, clients := reg.Size(); clients != 0 {
				t.Errorf("%d clients after an empty list", clients)
			}
			f, reg = newFeed(dir)
			list(f, damaged)
			if _, clients := reg.Size(); clients != 0 {
				t.Errorf("%d clients in the snapshot of an empty list", clients)
			}
		})
	}
}

// A damaged snapshot never looks like a complete list.
func TestDamagedSnapshotIsNotServed(t *testing.T) {
	dir := t.TempDir()
	f, _ := newFeed(dir)
	f.BeginList()
	var secrets []*corev1.Secret
	for i := range 100 {
		secrets = append(secrets, clientRecord(t, strconv.Itoa(i), strconv.Itoa(i), "a"))
	}
	stream(t, f, "1000", secrets...)
	path := filepath.Join(dir, "records")
	content := testkit.Value(os.ReadFile(path))(t)
	content[len(content)/2] ^= 1
	testkit.Do(t, os.WriteFile(path, content, 0o600))
	next, reg := newFeed(dir)
	next.RestoreNow()
	if _, clients := reg.Size(); clients != 0 || reg.Loaded() {
		t.Errorf("%d clients of a damaged snapshot", clients)
	}
}
