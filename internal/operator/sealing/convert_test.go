package sealing_test

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption/fakekms"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// A generated key that no reconcile needs, because the cache lagged when it was requested, isn't kept
// until the next rotation: the KMS may no longer have the key that encrypted it.
func TestGeneratedKeyIsKeptOnlyWhileItIsRequested(t *testing.T) {
	plugin := fakekms.New(t)
	o := start(t, sealing.Encrypt, plugin, time.Hour)
	o.mu.Lock() // no reconciles
	defer o.mu.Unlock()
	request := sealing.Request{Generate: signingkey.ES256}
	for name, next := range map[string]sealing.Request{
		"nothing is requested":           {},
		"another algorithm is requested": {Generate: signingkey.RS256},
		"only a conversion is requested": {Convert: []signingkey.Key{newKey(t)}},
		"only rewrapping is requested":   {Rewrap: []signingkey.Key{newKey(t)}},
	} {
		o.sealer.Want(realm, uid, nil, request)
		await(t, o.sealer, uid, "a key is generated", generated)
		if o.sealer.Want(realm, uid, nil, request); !generated(o.sealer.View(realm, uid)) {
			t.Error("the key is lost although it is still requested")
		}
		if o.sealer.Want(realm, uid, nil, next); generated(o.sealer.View(realm, uid)) {
			t.Errorf("the key is kept although %s", name)
		}
		o.sealer.Forget(realm)
	}
}

func TestGeneratedKeyIsDroppedIfItArrivesTooLate(t *testing.T) {
	plugin := fakekms.New(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	plugin.Refuse(func(operation string) error {
		if operation == "encrypt" {
			once.Do(func() { close(entered); <-release })
		}
		return nil
	})
	o := start(t, sealing.Encrypt, plugin, time.Hour)
	o.mu.Lock() // no reconciles
	defer o.mu.Unlock()
	o.sealer.Want(realm, uid, nil, sealing.Request{Generate: signingkey.ES256})
	<-entered
	next := newKey(t)
	o.sealer.Want(realm, uid, nil, sealing.Request{Convert: []signingkey.Key{next}})
	close(release)
	// The sealer does one thing at a time for a realm.
	await(t, o.sealer, uid, "the next request is served", func(v sealing.View) bool { return len(v.Converted) == 1 })
	if generated(o.sealer.View(realm, uid)) {
		t.Error("the key is kept")
	}
}

// A key that was generated before the KMS replaced its key isn't used.
func TestGeneratedKeyIsDroppedWhenTheKMSHasANewKey(t *testing.T) {
	plugin := fakekms.New(t)
	o := start(t, sealing.Encrypt, plugin, time.Hour)
	o.mu.Lock() // no reconciles
	defer o.mu.Unlock()
	o.sealer.Want(realm, uid, nil, sealing.Request{Generate: signingkey.ES256})
	await(t, o.sealer, uid, "a key is generated", func(v sealing.View) bool { return generated(v) && v.KeyID == "1" })
	plugin.SetKeyID("2", "2")
	await(t, o.sealer, uid, "the key ID is accepted", func(v sealing.View) bool { return v.KeyID == "2" })
	if generated(o.sealer.View(realm, uid)) {
		t.Error("the key is kept")
	}
	o.sealer.Want(realm, uid, nil, sealing.Request{Generate: signingkey.ES256})
	await(t, o.sealer, uid, "another key is generated", func(v sealing.View) bool {
		return generated(v) && v.Generated.Sealed().KeyID == "2"
	})
}

// A key that can't be converted doesn't hold back others, and only this key is retried.
func TestOneFailingKeyDoesNotHoldBackOthers(t *testing.T) {
	plugin := fakekms.New(t)
	damaged, plain := newKey(t), newKey(t)
	damaged = damaged.Seal(signingkey.Sealed{RealmUID: "other", KeyID: "1", EncryptedDataKey: []byte("x"), Ciphertext: []byte("x")})
	o := start(t, sealing.Encrypt, plugin, time.Hour, damaged)
	o.eventually("the realm reports the failure", func([]signingkey.Key) bool { return o.unavailable() })
	o.mu.Lock()
	o.keys, o.wants = append(o.keys, plain), true
	o.mu.Unlock()
	o.reconcile()
	o.eventually("the other keys are encrypted", func(keys []signingkey.Key) bool {
		return len(keys) == 3 && allSealedWith("1")(keys[1:])
	})
	if !o.unavailable() {
		t.Error("the failure is no longer reported")
	}
	encrypted, decrypted := plugin.Requests("encrypt"), plugin.Requests("decrypt")
	o.eventually("another attempt", func([]signingkey.Key) bool { return plugin.Requests("decrypt") > decrypted })
	if got := plugin.Requests("encrypt") - encrypted; got > 0 || encrypted != 2 {
		t.Errorf("%d data keys were encrypted for 2 keys, and %d more for another attempt", encrypted, got)
	}
}

// If the plugin is unavailable, the remaining keys wait, too: each would wait for the timeout.
func TestRemainingKeysWaitForAnUnavailablePlugin(t *testing.T) {
	plugin := fakekms.New(t)
	plugin.Refuse(func(operation string) error {
		if operation == "encrypt" {
			return status.Error(codes.Unavailable, "refused by the test")
		}
		return nil
	})
	var keys []signingkey.Key
	for range 10 {
		keys = append(keys, newKey(t))
	}
	o := start(t, sealing.Encrypt, plugin, time.Hour)
	o.mu.Lock() // no reconciles
	defer o.mu.Unlock()
	o.sealer.Want(realm, uid, nil, sealing.Request{Convert: keys, Generate: signingkey.ES256})
	await(t, o.sealer, uid, "the realm reports the failure", func(v sealing.View) bool { return v.Unavailable })
	if got := plugin.Requests("encrypt"); got >= len(keys) {
		t.Errorf("%d requests in an attempt", got)
	}
}
