package sealing_test

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/keyencryption/fakekms"
	"github.com/realmkeeper/realmkeeper/internal/keyencryption/kmsclient"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

const (
	realm = "acme"
	uid   = types.UID("11111111-1111-1111-1111-111111111111")

	// limit is how long tests wait for a condition.
	limit = time.Minute
)

// operator is a fake Realm controller. It has one realm, and keys are those in the realm's record.
type operator struct {
	t         *testing.T
	plugin    *fakekms.Plugin
	encrypter *keyencryption.Encrypter
	sealer    *sealing.Sealer

	mu   sync.Mutex
	keys []signingkey.Key
	// wants makes the realm need a new key.
	wants  bool
	writes int
}

func start(t *testing.T, mode sealing.Mode, plugin *fakekms.Plugin, rewrapInterval time.Duration, keys ...signingkey.Key) *operator {
	t.Helper()
	return startWithTimeout(t, fakekms.Timeout, mode, plugin, rewrapInterval, keys...)
}

// startWithTimeout is like start, and limits each request to the plugin.
func startWithTimeout(t *testing.T, timeout time.Duration, mode sealing.Mode, plugin *fakekms.Plugin, rewrapInterval time.Duration, keys ...signingkey.Key) *operator {
	t.Helper()
	client, err := kmsclient.Dial(kmsclient.Options{Socket: plugin.Socket, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t: t, plugin: plugin, encrypter: keyencryption.New(client), keys: keys}
	o.sealer = sealing.New(sealing.Options{
		Mode: mode, Encrypter: o.encrypter, RewrapInterval: rewrapInterval, StatusInterval: 20 * time.Millisecond, Now: time.Now, Random: rand.Reader,
	})
	ctx, cancel := context.WithCancel(t.Context())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := o.sealer.Source().Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = o.sealer.Start(ctx) })
	running.Go(func() {
		for {
			request, stopped := queue.Get()
			if stopped {
				return
			}
			o.reconcile()
			queue.Done(request)
		}
	})
	t.Cleanup(func() {
		cancel()
		queue.ShutDown()
		running.Wait()
		_ = client.Close()
	})
	o.reconcile()
	return o
}

// reconcile does what the Realm controller does with keys.
func (o *operator) reconcile() {
	o.mu.Lock()
	defer o.mu.Unlock()
	var request sealing.Request
	view := o.sealer.View(realm, uid)
	keys := view.Apply(string(uid), o.keys, &request)
	if o.wants {
		if key, err := view.Generator(keys, rand.Reader, &request)(signingkey.ES256, time.Now()); err == nil {
			keys, o.wants = append(keys, key), false
		}
	}
	o.sealer.Want(realm, uid, o.keys, request)
	if !slices.EqualFunc(keys, o.keys, func(a, b signingkey.Key) bool { return a.ID == b.ID && a.Sealed().Equal(b.Sealed()) }) {
		o.writes++
	}
	o.keys = keys
}

// current returns the keys of the record. Reconciles run in another goroutine.
func (o *operator) current() []signingkey.Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.keys)
}

// written returns how often the record was written.
func (o *operator) written() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}

// want makes the realm need a new key.
func (o *operator) want() {
	o.mu.Lock()
	o.wants = true
	o.mu.Unlock()
	o.reconcile()
}

func (o *operator) eventually(what string, condition func(keys []signingkey.Key) bool) {
	o.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		o.mu.Lock()
		met := condition(o.keys)
		o.mu.Unlock()
		if met {
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("timed out: %s", what)
		}
	}
}

// unavailable reports whether the realm's condition says that the plugin failed.
func (o *operator) unavailable() bool {
	return o.sealer.View(realm, uid).Unavailable
}

func allSealedWith(keyID string) func([]signingkey.Key) bool {
	return func(keys []signingkey.Key) bool {
		return len(keys) > 0 && !slices.ContainsFunc(keys, func(k signingkey.Key) bool { return k.Sealed() == nil || k.Sealed().KeyID != keyID })
	}
}

// await waits until something is in the view of a realm that isn't reconciled.
func await(t *testing.T, s *sealing.Sealer, uid types.UID, what string, condition func(sealing.View) bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(s.View(realm, uid)); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

func generated(v sealing.View) bool { return v.Generated != nil }

func newKey(t *testing.T) signingkey.Key {
	t.Helper()
	key, err := signingkey.Generate(signingkey.ES256, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// opens checks that the key in the record is the original one.
func (o *operator) opens(original signingkey.Key) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := slices.IndexFunc(o.keys, func(k signingkey.Key) bool { return k.ID == original.ID })
	opened, err := o.encrypter.Open(o.t.Context(), string(uid), &o.keys[at])
	if err != nil {
		o.t.Fatal(err)
	}
	signature, err := opened.Signer().Sign(nil, []byte("x"))
	if err != nil {
		o.t.Fatal(err)
	}
	if err := original.Public().Verifier().Verify([]byte("x"), signature); err != nil {
		o.t.Error(err)
	}
}

func TestPlaintextKeysAreEncrypted(t *testing.T) {
	first, second := newKey(t), newKey(t)
	o := start(t, sealing.Encrypt, fakekms.New(t), time.Hour, first, second)
	o.eventually("all keys are encrypted", allSealedWith("1"))
	o.opens(first)
	o.opens(second)
}

// A plugin that encrypts, but can't decrypt the result, must not replace a key.
func TestPlaintextKeyStaysUntilThePluginDecryptsIt(t *testing.T) {
	key := newKey(t)
	plugin := fakekms.New(t)
	plugin.Corrupt(true)
	o := start(t, sealing.Encrypt, plugin, time.Hour, key)
	o.eventually("the realm reports the failure", func([]signingkey.Key) bool { return o.unavailable() })
	o.eventually("another attempt", func([]signingkey.Key) bool { return plugin.Requests("encrypt") > 1 })
	if o.current()[0].Sealed() != nil {
		t.Fatal("the key in plaintext was replaced")
	}
	plugin.Corrupt(false)
	o.eventually("the key is encrypted", allSealedWith("1"))
	o.opens(key)
}

func TestNewKeyIsGeneratedOnlyWhenItCanBeEncrypted(t *testing.T) {
	plugin := fakekms.New(t)
	plugin.Stop()
	o := start(t, sealing.Encrypt, plugin, time.Hour)
	o.want()
	o.eventually("the realm reports the failure", func([]signingkey.Key) bool { return o.unavailable() })
	if len(o.current()) > 0 {
		t.Fatal("a key was generated without the plugin")
	}
	plugin.Start()
	o.eventually("the realm has an encrypted key", allSealedWith("1"))
	if o.unavailable() {
		t.Error("the failure is still reported")
	}
}

func TestHangingPluginDoesNotBlockReconciles(t *testing.T) {
	plugin := fakekms.New(t)
	plugin.Hang(true)
	const timeout = 2 * time.Second
	o := startWithTimeout(t, timeout, sealing.Encrypt, plugin, time.Hour, newKey(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			o.reconcile()
		}
	}()
	select {
	case <-done:
	case <-time.After(limit): // 1000 timeouts are much longer
		t.Error("reconciles wait for the plugin")
	}
	plugin.Hang(false)
	o.eventually("the key is encrypted", allSealedWith("1"))
}

func TestKeysAreRewrappedWithTheNewKeyOfTheKMS(t *testing.T) {
	key := newKey(t)
	plugin := fakekms.New(t)
	o := start(t, sealing.Encrypt, plugin, time.Millisecond, key)
	o.eventually("the key is encrypted", allSealedWith("1"))
	o.eventually("the key ID is known", func([]signingkey.Key) bool { return o.sealer.View(realm, uid).KeyID == "1" })
	plugin.SetKeyID("2", "2")
	o.eventually("the key is rewrapped", allSealedWith("2"))
	o.opens(key)
}

// Nothing is written while the plugin's status has a new key ID, but Encrypt still uses the old one.
func TestKeyIDOfStatusBeforeThatOfEncrypt(t *testing.T) {
	plugin := fakekms.New(t)
	o := start(t, sealing.Encrypt, plugin, 10*time.Millisecond, newKey(t))
	o.eventually("the key is encrypted", allSealedWith("1"))
	plugin.SetKeyID("2", "1")
	before := plugin.Requests("encrypt")
	o.eventually("several attempts", func([]signingkey.Key) bool { return plugin.Requests("encrypt") > before+3 })
	if writes := o.written(); writes != 1 {
		t.Errorf("the record was written %d times", writes)
	}
	o.want()
	o.eventually("a new key is encrypted all the same", func(keys []signingkey.Key) bool { return len(keys) == 2 })
	plugin.SetKeyID("2", "2")
	o.eventually("the keys are rewrapped", allSealedWith("2"))
}

// A plugin that reports another key ID each time causes no rewrapping. The plugin changes the ID itself: if
// the test did, several requests in a row could get the same ID.
func TestFlappingKeyID(t *testing.T) {
	plugin := fakekms.New(t)
	o := start(t, sealing.Encrypt, plugin, time.Millisecond, newKey(t))
	o.eventually("the key ID is known", func([]signingkey.Key) bool {
		return o.sealer.View(realm, uid).KeyID == "1" && o.keys[0].Sealed() != nil
	})
	before := plugin.Requests("encrypt")
	plugin.Flap("2", "3")
	polled := plugin.Requests("status")
	o.eventually("several requests for the status", func([]signingkey.Key) bool { return plugin.Requests("status") > polled+10 })
	if got := plugin.Requests("encrypt") - before; got > 0 {
		t.Errorf("%d keys were rewrapped", got)
	}
}

func TestRewrapIsLimitedPerRealm(t *testing.T) {
	plugin := fakekms.New(t)
	o := start(t, sealing.Encrypt, plugin, time.Hour, newKey(t))
	o.eventually("the key ID is known", func([]signingkey.Key) bool {
		return o.sealer.View(realm, uid).KeyID == "1" && o.keys[0].Sealed() != nil
	})
	plugin.SetKeyID("2", "2")
	o.eventually("the key is rewrapped", allSealedWith("2"))
	before := plugin.Requests("encrypt")
	plugin.SetKeyID("3", "3")
	o.eventually("the next key ID is accepted", func([]signingkey.Key) bool { return o.sealer.View(realm, uid).KeyID == "3" })
	for range 100 {
		o.reconcile()
	}
	if got := plugin.Requests("encrypt") - before; got > 0 || !allSealedWith("2")(o.current()) {
		t.Errorf("the realm was rewrapped again within an hour (%d requests)", got)
	}
}

func TestDecryptMode(t *testing.T) {
	key := newKey(t)
	plugin := fakekms.New(t)
	encrypting := start(t, sealing.Encrypt, plugin, time.Hour, key)
	encrypting.eventually("the key is encrypted", allSealedWith("1"))
	sealed := encrypting.current()[0]
	plugin.RefuseAll(codes.Unavailable)
	o := start(t, sealing.Decrypt, plugin, time.Hour, sealed)
	o.eventually("the realm reports the failure", func([]signingkey.Key) bool { return o.unavailable() })
	if o.current()[0].Sealed() == nil {
		t.Fatal("the key is in plaintext without the plugin")
	}
	plugin.Refuse(nil)
	o.eventually("the key is in plaintext", func(keys []signingkey.Key) bool { return keys[0].Sealed() == nil })
	o.opens(key)
	o.want()
	o.eventually("a new key in plaintext", func(keys []signingkey.Key) bool { return len(keys) == 2 && keys[1].Sealed() == nil })
}

// Without a plugin, encrypted keys stay as they are, and no key in plaintext is added to them.
func TestOffKeepsEncryptedKeys(t *testing.T) {
	sealed := newKey(t)
	sealed = sealed.Seal(signingkey.Sealed{RealmUID: string(uid), KeyID: "1", EncryptedDataKey: []byte("x"), Ciphertext: []byte("x")})
	var request sealing.Request
	view := sealing.New(sealing.Options{}).View(realm, uid)
	keys := view.Apply(string(uid), []signingkey.Key{sealed}, &request)
	if keys[0].Sealed() == nil || request.Urgent() {
		t.Errorf("keys %v, request %v", keys, request)
	}
	if _, err := view.Generator(keys, rand.Reader, &request)(signingkey.ES256, time.Now()); err != signingkey.ErrLater { //nolint:errorlint // It is not wrapped.
		t.Errorf("got error %v, want ErrLater", err)
	}
	if _, err := view.Generator(nil, rand.Reader, &request)(signingkey.ES256, time.Now()); err != nil {
		t.Error(err)
	}
}

// Restored keys were encrypted for a realm with another UID, or are in plaintext.
func TestRestoredKeysAreAdopted(t *testing.T) {
	const oldUID = "22222222-2222-2222-2222-222222222222"
	o := start(t, sealing.Encrypt, fakekms.New(t), time.Hour)
	plain, other := newKey(t), newKey(t)
	foreign, err := o.encrypter.Seal(t.Context(), oldUID, &other)
	if err != nil {
		t.Fatal(err)
	}
	restored := []signingkey.Key{plain, foreign}
	var keys []signingkey.Key
	o.eventually("the restored keys are encrypted for this realm", func([]signingkey.Key) bool {
		var request sealing.Request
		var ready bool
		keys, ready = o.sealer.View(realm, uid).Adopt(string(uid), restored, &request)
		o.sealer.Want(realm, uid, nil, request)
		return ready
	})
	o.mu.Lock()
	o.keys = keys
	o.mu.Unlock()
	o.opens(plain)
	o.opens(other)

	var request sealing.Request
	if _, ready := (sealing.View{}).Adopt(string(uid), restored[1:], &request); ready {
		t.Error("an encrypted key was adopted without a plugin")
	}
	if _, ready := (sealing.View{}).Adopt(string(uid), restored[:1], &request); !ready {
		t.Error("a key in plaintext was not adopted without a plugin")
	}
}

// Results for a deleted realm with the same name are not used.
func TestResultsBelongToTheUID(t *testing.T) {
	o := start(t, sealing.Encrypt, fakekms.New(t), time.Hour)
	o.mu.Lock() // no reconciles
	defer o.mu.Unlock()
	o.sealer.Want(realm, "old", nil, sealing.Request{Generate: signingkey.ES256})
	await(t, o.sealer, "old", "a key is generated", generated)
	if o.sealer.View(realm, uid).Generated != nil {
		t.Error("another realm gets the key")
	}
	o.sealer.Forget(realm)
	if o.sealer.View(realm, "old").Generated != nil {
		t.Error("a deleted realm gets the key")
	}
}
