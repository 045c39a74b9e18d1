package feed_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// sealedRealms is a feed with a KMS plugin.
type sealedRealms struct {
	t         *testing.T
	plugin    *fakeKMS
	encrypter *keyencryption.Encrypter
	feed      *feed.Feed
	registry  *registry.Registry
	logs      *logs
	later     atomic.Int64 // how far the feed's clock is ahead; otherwise, it stands still
}

// newSealedRealms starts a feed whose records come from the test.
func newSealedRealms(t *testing.T, plugin *fakeKMS, dir string) *sealedRealms {
	t.Helper()
	s := &sealedRealms{t: t, plugin: plugin, encrypter: keyencryption.New(plugin), registry: registry.New(), logs: &logs{}}
	started := time.Now()
	s.feed = feed.New(feed.Options{
		Registry: s.registry, Keys: s.encrypter, SnapshotDir: dir,
		Logger: slog.New(slog.NewTextHandler(s.logs, nil)), Metrics: prometheus.NewRegistry(),
		Now: func() time.Time { return started.Add(time.Duration(s.later.Load())) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.feed.RunKeys(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// logs are the logs of a feed.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), message)
}

func newKey(t *testing.T, state signingkey.State) signingkey.Key {
	t.Helper()
	key := testkit.Value(signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader))(t)
	key.State = state
	return key
}

// seal returns the key, encrypted for the realm with the given name.
func (s *sealedRealms) seal(name string, key signingkey.Key) signingkey.Key {
	s.t.Helper()
	return testkit.Value(s.encrypter.Seal(s.t.Context(), uidOf(name), &key))(s.t)
}

func uidOf(name string) string { return "uid-of-" + name }

func realmRecord(t *testing.T, name string, keys ...signingkey.Key) *corev1.Secret {
	t.Helper()
	return stored(t)(recordsecret.ForRealm("records", &v1beta1.Realm{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uidOf(name))}}, record.Realm{
		Name: name, Issuer: "https://api.example.com/" + name, TokenLifetimeSeconds: 300, Keys: keys,
	}))
}

func (s *sealedRealms) list(records ...*corev1.Secret) {
	s.t.Helper()
	var list []any
	for _, r := range records {
		list = append(list, r)
	}
	testkit.Do(s.t, s.feed.Replace(list, "1"))
}

func (s *sealedRealms) signs(name string) bool { return s.registry.Realm(name).Signer() != nil }

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

func TestSealedRealmSignsWhenThePluginIsAvailable(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	active, retiring := s.seal("acme", newKey(t, signingkey.Active)), s.seal("acme", newKey(t, signingkey.Retiring))
	before := s.plugin.Requests("decrypt")
	s.plugin.Stop()
	s.list(realmRecord(t, "acme", active, retiring), realmRecord(t, "plain", newKey(t, signingkey.Active)))
	if s.signs("acme") || !s.signs("plain") {
		t.Fatalf("acme signs: %t, plain signs: %t", s.signs("acme"), s.signs("plain"))
	}
	if jwks := string(s.registry.Realm("acme").JWKS); !strings.Contains(jwks, active.ID) || !strings.Contains(jwks, retiring.ID) {
		t.Errorf("the published keys are %s", jwks)
	}
	eventually(t, "KeysReady says why", func() bool {
		err := s.feed.KeysReady()
		return err != nil && strings.Contains(err.Error(), "KMS plugin is unavailable")
	})
	s.plugin.Start()
	eventually(t, "acme signs", func() bool { return s.signs("acme") })
	if err := s.feed.KeysReady(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	testkit.Diff(t, "decrypted keys", 1, s.plugin.Requests("decrypt")-before)
}

// What this process has already decrypted, or has seen in plaintext, needs no plugin.
func TestKnownKeysNeedNoPlugin(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	active, pending := newKey(t, signingkey.Active), newKey(t, signingkey.Pending)
	sealedActive, sealedPending := s.seal("acme", active), s.seal("acme", pending)
	migrated := newKey(t, signingkey.Active)
	sealedMigrated := s.seal("migrating", migrated)
	before := s.plugin.Requests("decrypt")
	s.list(realmRecord(t, "acme", sealedActive, sealedPending), realmRecord(t, "migrating", migrated))
	eventually(t, "both keys are decrypted", func() bool { return s.signs("acme") && s.plugin.Requests("decrypt") == before+2 })
	eventually(t, "ready", func() bool { return s.feed.KeysReady() == nil && s.feed.WaitingKeys() == 0 })

	s.plugin.Stop()
	sealedActive.State, sealedPending.State = signingkey.Retiring, signingkey.Active
	for _, changed := range []*corev1.Secret{
		realmRecord(t, "acme", sealedActive, sealedPending), // the pending key is active
		realmRecord(t, "migrating", sealedMigrated),
	} {
		testkit.Do(t, s.feed.Update(changed))
	}
	if !s.signs("acme") || !s.signs("migrating") {
		t.Errorf("acme signs: %t, migrating signs: %t", s.signs("acme"), s.signs("migrating"))
	}
	s.list(realmRecord(t, "acme", sealedActive, sealedPending), realmRecord(t, "migrating", sealedMigrated))
	if !s.signs("acme") || !s.signs("migrating") {
		t.Errorf("after a list: acme signs: %t, migrating signs: %t", s.signs("acme"), s.signs("migrating"))
	}
	if err := s.feed.KeysReady(); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

// A token is issued again only with the key that this process has decrypted for this version of the realm. The tokens of
// other token servers are valid meanwhile, also if their signature is remembered.
func TestTokensOfKeysThatAreDecryptedLate(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	key := newKey(t, signingkey.Active)
	first, second := s.seal("acme", key), s.seal("acme", newKey(t, signingkey.Active))
	retiring := first
	retiring.State = signingkey.Retiring
	now := time.Now()
	claims := token.Claims{Issuer: "https://api.example.com/acme", ClientID: "client", Identity: "uid", Audience: []string{"orders"}, IssuedAt: now, Lifetime: time.Minute}
	elsewhere, _, err := token.NewSigner(key.Signer()).Sign(claims, rand.Reader)
	testkit.Do(t, err)
	reuse, memory := token.NewReuse(1), token.NewMemory(1<<20)
	s.plugin.Stop()
	s.list(realmRecord(t, "acme", first))
	s.registry.SetClient(&registry.Client{Record: "client", UID: "uid", Identity: "uid", RealmUID: uidOf("acme"), ID: "client"})
	change := func(keys ...signingkey.Key) func() {
		return func() { testkit.Do(t, s.feed.Update(realmRecord(t, "acme", keys...))) }
	}
	start := func() {
		s.plugin.Start()
		eventually(t, "the key is decrypted", func() bool { return s.signs("acme") })
		s.plugin.Stop()
	}
	for _, step := range []struct {
		name   string
		change func()
		want   string // of a request for a token
		valid  bool   // whether the token of another token server is
	}{
		{"not decrypted yet", func() {}, "none", true},
		{"decrypted", start, "new", true},
		{"unchanged", func() {}, "the last one", true},
		{"realm written again", change(first), "new", true},
		{"next key not decrypted yet", change(retiring, second), "none", true},
		{"next key decrypted", start, "new", true},
		{"first key withdrawn", change(second), "new", false},
		{"first key again, not decrypted", change(first), "none", true},
		{"first key decrypted again", start, "new", true},
	} {
		step.change()
		realm, got := s.registry.Realm("acme"), "none"
		if realm.Signer() != nil {
			issued := testkit.Value(reuse.Issue(realm.Signer(), claims, realm.Client("client").LastToken(), token.Credential{}, rand.Reader))(t)
			got = map[bool]string{true: "the last one", false: "new"}[issued.Reused]
			if _, _, err := realm.Verify(memory, issued.JWT, now); err != nil {
				t.Errorf("%s: the issued token is rejected: %v", step.name, err)
			}
		}
		testkit.Diff(t, step.name+": issued token", step.want, got)
		for range 2 {
			_, _, err := realm.Verify(memory, elsewhere, now)
			testkit.Diff(t, step.name+": the token of another token server is valid", step.valid, err == nil)
		}
	}
}

func TestOneRejectedRealmDoesNotBlockOthers(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	good, bad := s.seal("good", newKey(t, signingkey.Active)), s.seal("bad", newKey(t, signingkey.Active))
	altered := *bad.Sealed()
	altered.EncryptedDataKey = bytes.Repeat([]byte{7}, 40)
	s.list(realmRecord(t, "bad", bad.Seal(altered)), realmRecord(t, "good", good))
	// A plugin that starts may reject keys that it decrypts later.
	before := s.plugin.Requests("decrypt")
	eventually(t, "several attempts", func() bool { return s.signs("good") && s.plugin.Requests("decrypt") >= before+4 })
	if err := s.feed.KeysReady(); err == nil || !strings.Contains(err.Error(), "of 1 realms") {
		t.Errorf("ready before the plugin has rejected the key for a minute: %v", err)
	}
	s.later.Add(int64(time.Minute))
	if err := s.feed.Update(realmRecord(t, "bad", bad.Seal(altered))); err != nil { // with another change
		t.Fatal(err)
	}
	eventually(t, "ready", func() bool { return s.feed.KeysReady() == nil })
	if !s.signs("good") || s.signs("bad") {
		t.Errorf("good signs: %t, bad signs: %t", s.signs("good"), s.signs("bad"))
	}
	testkit.Do(t, s.feed.Update(realmRecord(t, "bad", bad)))
	eventually(t, "the repaired realm signs", func() bool { return s.signs("bad") })
}

// A rolling update must not replace working servers by servers that can't decrypt anything.
func TestNotReadyIfThePluginRejectsEverything(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	records := []*corev1.Secret{realmRecord(t, "a", s.seal("a", newKey(t, signingkey.Active))), realmRecord(t, "b", s.seal("b", newKey(t, signingkey.Active)))}
	s.plugin.Refuse(func(string) error { return keyencryption.ErrRejected })
	before := s.plugin.Requests("decrypt")
	s.list(records...)
	eventually(t, "both are rejected several times", func() bool { return s.plugin.Requests("decrypt") >= before+4 })
	s.later.Add(int64(time.Minute))
	eventually(t, "KeysReady says why", func() bool {
		err := s.feed.KeysReady()
		return err != nil && strings.Contains(err.Error(), "has not decrypted any")
	})
	s.plugin.Refuse(nil)
	eventually(t, "ready", func() bool { return s.feed.KeysReady() == nil })
}

func TestNotReadyWithSealedKeysAndNoPlugin(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	sealed := s.seal("acme", newKey(t, signingkey.Active))
	f, reg := newFeed("")
	testkit.Do(t, f.Replace([]any{realmRecord(t, "acme", sealed), realmRecord(t, "plain", newKey(t, signingkey.Active))}, "1"))
	if err := f.KeysReady(); err == nil || !strings.Contains(err.Error(), "--kms-socket is not set") {
		t.Errorf("got error %v", err)
	}
	if reg.Realm("acme").Signer() != nil || reg.Realm("plain").Signer() == nil {
		t.Error("the wrong realm signs")
	}
}

// A sealed key names the realm that it was encrypted for. After a restore, that realm has another UID.
func TestSealedKeyOfRestoredRealm(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	s.list(realmRecord(t, "acme", s.seal("acme before the restore", newKey(t, signingkey.Active))))
	eventually(t, "the restored realm signs", func() bool { return s.signs("acme") })
}

// The snapshot contains the keys as the records do, so a restarted server waits for the plugin.
func TestRestartWithSnapshot(t *testing.T) {
	dir := t.TempDir()
	plugin := newFakeKMS()
	first := newSealedRealms(t, plugin, dir)
	key, old := newKey(t, signingkey.Active), newKey(t, signingkey.Active)
	// The second realm's record is like one of an earlier version.
	first.list(realmRecord(t, "acme", first.seal("acme", key)), realmRecord(t, "old", old))
	eventually(t, "acme signs", func() bool { return first.signs("acme") })
	plugin.Stop()
	second := newSealedRealms(t, plugin, dir)
	second.feed.RestoreNow()
	if second.signs("acme") || !second.signs("old") || second.feed.KeysReady() == nil {
		t.Errorf("acme signs: %t, old signs: %t, ready: %v", second.signs("acme"), second.signs("old"), second.feed.KeysReady())
	}
	plugin.Start()
	eventually(t, "acme signs again", func() bool { return second.signs("acme") && second.feed.KeysReady() == nil })
}

// A server that can't decrypt a key that signs says so, but not while it starts: it gets no requests then.
func TestActiveKeyIsReportedUntilItIsDecrypted(t *testing.T) {
	for name, ready := range map[string]bool{"ready": true, "not ready": false} {
		t.Run(name, func(t *testing.T) {
			s := newSealedRealms(t, newFakeKMS(), "")
			active := func() []string { _, active := s.feed.UndecryptedRealms(); return active }
			sealed := s.seal("acme", newKey(t, signingkey.Active))
			s.plugin.Stop()
			if ready {
				s.list()
				testkit.Do(t, s.feed.KeysReady())
			}
			s.list(realmRecord(t, "acme", sealed))
			if !ready {
				if got := active(); got != nil {
					t.Errorf("the server starts and reports %v", got)
				}
			} else if got := active(); !slices.Equal(got, []string{"acme"}) {
				t.Errorf("got %v", got)
			}
			s.plugin.Start()
			eventually(t, "the key is decrypted", func() bool { return active() == nil && s.signs("acme") })
		})
	}
}

// A hanging plugin blocks neither the feed nor realms in plaintext.
func TestHangingPluginBlocksNothing(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	var records []*corev1.Secret
	for n := range 20 {
		name := fmt.Sprint("realm-", n)
		records = append(records, realmRecord(t, name, s.seal(name, newKey(t, signingkey.Active))))
	}
	released := make(chan struct{})
	s.plugin.Refuse(func(string) error { <-released; return keyencryption.ErrUnavailable })
	s.list(records...)
	testkit.Do(t, s.feed.Update(realmRecord(t, "plain", newKey(t, signingkey.Active))))
	if !s.signs("plain") {
		t.Error("a realm in plaintext doesn't sign")
	}
	s.plugin.Refuse(nil)
	close(released)
	eventually(t, "all realms sign", func() bool { return s.feed.KeysReady() == nil && s.feed.WaitingKeys() == 0 })
}

// A plugin whose KMS throttles it gets no burst of requests after each request that succeeds.
func TestThrottledPluginGetsNoBursts(t *testing.T) {
	s := newSealedRealms(t, newFakeKMS(), "")
	var records []*corev1.Secret
	for n := range 4 {
		name := fmt.Sprint("realm-", n)
		records = append(records, realmRecord(t, name, s.seal(name, newKey(t, signingkey.Active))))
	}
	var allowed atomic.Int64
	s.plugin.Refuse(func(operation string) error {
		if operation == "decrypt" && allowed.Add(-1) < 0 {
			return keyencryption.ErrUnavailable
		}
		return nil
	})
	s.list(records...)
	throttled := func() bool {
		return !slices.ContainsFunc(records, func(r *corev1.Secret) bool {
			return s.feed.FailedAttempts(r.Name) == 0 && s.feed.WaitsForKeys(r.Name)
		})
	}
	eventually(t, "all attempts fail", throttled)
	for n, resumed := range []int{1, 1, 2} {
		if n == 2 {
			s.later.Add(int64(time.Minute))
		}
		allowed.Store(1)
		eventually(t, "one more realm signs", func() bool { return s.feed.WaitingKeys() == len(records)-n-1 })
		if !throttled() {
			t.Error("the delays between attempts are reset")
		}
		testkit.Diff(t, "how often all were retried", resumed, s.logs.count("KMS plugin available again"))
		eventually(t, "the others fail again", func() bool { return allowed.Load() < 0 })
	}
}

// When the last key in plaintext is encrypted, the saved records contain no older version of it.
func TestSavedRecordsForgetPlaintext(t *testing.T) {
	dir := t.TempDir()
	s := newSealedRealms(t, newFakeKMS(), dir)
	s.list()
	saved := func() []byte {
		return testkit.Value(os.ReadFile(filepath.Join(dir, "records")))(t)
	}
	key := newKey(t, signingkey.Active)
	var private struct{ Keys []struct{ D string } }
	testkit.Do(t, json.Unmarshal(testkit.Value(key.PrivateJWKS())(t), &private))
	update := func(key signingkey.Key) {
		testkit.Do(t, s.feed.Update(realmRecord(t, "acme", key)))
	}
	update(key)
	for _, pair := range private.Keys {
		if !bytes.Contains(saved(), []byte(pair.D)) {
			t.Fatal("the record in plaintext was not saved")
		}
	}
	update(s.seal("acme", key))
	for _, pair := range private.Keys {
		if bytes.Contains(saved(), []byte(pair.D)) {
			t.Error("the saved records still contain the private key")
		}
	}
	update(s.seal("acme", key))
	if !s.signs("acme") {
		t.Error("the realm does not sign")
	}
}
