package feed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	// keyWorkers limits the concurrent requests to the KMS plugin.
	keyWorkers = 8
	// The delays between attempts to decrypt the keys of a realm grow between these limits.
	minKeyDelay = 250 * time.Millisecond
	maxKeyDelay = 30 * time.Second
	// statusInterval is the time between requests for the plugin's status, which only a metric shows.
	statusInterval = 30 * time.Second
	// resumeInterval is the minimum time between two times at which all realms are retried because the
	// plugin is available again, so that a plugin that often fails gets no bursts of requests.
	resumeInterval = maxKeyDelay
)

// keyring decrypts the sealed keys of realms in the background, and keeps decrypted keys in memory for
// as long as their realm signs or will sign with them. A hanging plugin delays nothing else.
type keyring struct {
	// These don't change, and are safe for concurrent use.
	plugin *keyencryption.Encrypter                     // nil without a KMS plugin
	queue  workqueue.TypedRateLimitingInterface[string] // of records; nil without a KMS plugin
	logger *slog.Logger
	now    func() time.Time
	// decrypted is called when a key is decrypted, with mu held.
	decrypted func()

	ready atomic.Bool // whether KeysReady has returned nil

	// Who holds mu owns all fields below: the feed, a worker, the publisher, or a reader of the state. Nobody holds it
	// while the plugin works.
	mu     sync.Mutex
	realms map[string]*realmKeys // by name of the record
	// unavailable is the plugin's last error if it didn't respond to the last request.
	unavailable error
	outage      bool      // whether the plugin was reported as unavailable since resumed
	resumed     time.Time // when the plugin was last reported as available again
	opened      bool      // whether any key was decrypted
	plaintext   bool      // whether any record had a key in plaintext at the last call of updatePlaintext
}

// realmKeys are the keys of one realm. Who holds the keyring's mu owns them. The realm is safe for concurrent use.
type realmKeys struct {
	realm    *registry.Realm
	known    map[string]signingkey.Key // decrypted, by ID
	waiting  []signingkey.Key          // sealed, the active one first
	rejected rejections
}

func newKeyring(o Options, decrypted func()) *keyring {
	k := &keyring{plugin: o.Keys, logger: o.Logger, now: o.Now, decrypted: decrypted, realms: map[string]*realmKeys{}}
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "realmkeeper_realms_without_signing_key",
		Help: "Realms that get no tokens from this server, because the KMS plugin has not decrypted their active signing key yet.",
	}, func() float64 {
		return float64(k.count(func(r *realmKeys) int { return boolToInt(r.waitsForState(signingkey.Active)) }))
	}))
	if k.plugin != nil {
		k.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minKeyDelay, maxKeyDelay))
		o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "realmkeeper_plaintext_signing_keys",
			Help: "Signing keys that are not encrypted in their record, although a KMS plugin is configured.",
		}, func() float64 { return float64(k.count(func(r *realmKeys) int { return r.realm.PlaintextKeys })) }))
	}
	return k
}

// track lets a realm sign if its active key is known, and requests the keys that aren't. It must be
// called before the realm is added to the registry. Keys in plaintext are kept even without a plugin,
// because the operator can encrypt them before this server is replaced by one with a plugin.
func (k *keyring) track(realm *registry.Realm) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.realms[realm.Record]
	now := &realmKeys{realm: realm, known: map[string]signingkey.Key{}}
	k.realms[realm.Record] = now
	for _, key := range realm.Keys {
		if known, ok := before.decrypted(key.ID); ok && key.Sealed() != nil {
			key = known
		}
		if key.Sealed() != nil {
			now.waiting = append(now.waiting, key)
			continue
		}
		now.known[key.ID] = key
		realm.SignWith(&key)
	}
	if before != nil && slices.ContainsFunc(now.waiting, before.waitsFor) {
		now.rejected = before.rejected
	}
	slices.SortStableFunc(now.waiting, func(a, b signingkey.Key) int { return cmp.Compare(a.State, b.State) }) // Active, Pending
	if len(now.waiting) > 0 && k.plugin != nil {
		k.queue.Add(realm.Record)
	}
}

func (r *realmKeys) decrypted(id string) (signingkey.Key, bool) {
	if r == nil {
		return signingkey.Key{}, false
	}
	key, ok := r.known[id]
	return key, ok
}

// waitsForState reports whether a key in the given state isn't decrypted yet.
func (r *realmKeys) waitsForState(state signingkey.State) bool {
	return slices.ContainsFunc(r.waiting, func(w signingkey.Key) bool { return w.State == state })
}

// waitsFor reports whether the realm waits for the same encrypted key.
func (r *realmKeys) waitsFor(key signingkey.Key) bool {
	return slices.ContainsFunc(r.waiting, func(w signingkey.Key) bool { return w.ID == key.ID && w.Sealed().Equal(key.Sealed()) })
}

// forget drops the keys of a removed realm.
func (k *keyring) forget(record string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.realms, record)
}

// only drops the keys of realms whose record isn't kept.
func (k *keyring) only(keep func(record string) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for record := range k.realms {
		if !keep(record) {
			delete(k.realms, record)
		}
	}
}

// run decrypts keys until ctx is done.
func (k *keyring) run(ctx context.Context) {
	if k.plugin == nil {
		return
	}
	var running sync.WaitGroup
	for range keyWorkers {
		running.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) { _, _ = k.plugin.Status(ctx) }, statusInterval) // the plugin's client measures it
	})
	<-ctx.Done()
	k.queue.ShutDown()
	running.Wait()
}

// next decrypts the waiting keys of one realm.
func (k *keyring) next(ctx context.Context) bool {
	record, stopped := k.queue.Get()
	if stopped || ctx.Err() != nil {
		return false
	}
	defer k.queue.Done(record)
	k.mu.Lock()
	var waiting []signingkey.Key
	if r := k.realms[record]; r != nil {
		waiting = slices.Clone(r.waiting)
	}
	k.mu.Unlock()
	failed := false
	for i := range waiting {
		opened, err := k.plugin.Open(ctx, &waiting[i])
		if ctx.Err() != nil {
			return false
		}
		k.finish(record, &waiting[i], &opened, err)
		failed = failed || err != nil
		if errors.Is(err, keyencryption.ErrUnavailable) {
			break
		}
	}
	if failed {
		k.queue.AddRateLimited(record)
	} else {
		k.queue.Forget(record)
	}
	return true
}

// finish stores the result for a key, unless the realm has changed and no longer waits for it.
func (k *keyring) finish(record string, key, opened *signingkey.Key, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observe(err)
	r := k.realms[record]
	if r == nil {
		return
	}
	at := slices.IndexFunc(r.waiting, func(w signingkey.Key) bool { return w.ID == key.ID })
	switch {
	case at < 0:
	case err == nil:
		k.opened = true
		r.waiting = slices.Delete(r.waiting, at, at+1)
		r.known[key.ID] = *opened
		r.rejected = rejections{}
		r.realm.SignWith(opened)
		k.decrypted()
	case !errors.Is(err, keyencryption.ErrUnavailable):
		if r.rejected.err == nil || r.rejected.err.Error() != err.Error() {
			k.logger.Error("Failed to decrypt a signing key, will retry", "realm", r.realm.Name, "keyID", key.ID, "error", err)
		}
		r.rejected.add(err, k.now())
	}
}

// observe logs when the plugin becomes unavailable. When it responds again, all realms are retried, at
// most once per resumeInterval. Their delays keep growing until an attempt succeeds.
func (k *keyring) observe(err error) {
	if errors.Is(err, keyencryption.ErrUnavailable) {
		if !k.outage {
			k.logger.Warn("KMS plugin unavailable, will retry; keys that are already decrypted stay in use", "error", err)
		}
		k.outage, k.unavailable = true, err
		return
	}
	k.unavailable = nil
	now := k.now()
	if !k.outage || now.Sub(k.resumed) < resumeInterval {
		return
	}
	k.logger.Info("KMS plugin available again")
	k.outage, k.resumed = false, now
	for record, r := range k.realms {
		if len(r.waiting) > 0 {
			k.queue.Add(record)
		}
	}
}

// undecrypted returns the names of the realms with a Pending key that isn't decrypted yet, and of those
// with such an Active key. The latter are empty until the server is ready, because it gets no requests
// before. Otherwise, the status of all Realms would change whenever a server starts.
func (k *keyring) undecrypted() (pending, active []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.realms {
		if r.waitsForState(signingkey.Pending) {
			pending = append(pending, r.realm.Name)
		}
		if k.ready.Load() && r.waitsForState(signingkey.Active) {
			active = append(active, r.realm.Name)
		}
	}
	return pending, active
}

// updatePlaintext notes whether any key is in plaintext, and reports whether all have been encrypted since
// the last call. The saved records then still contain older versions with keys in plaintext.
func (k *keyring) updatePlaintext() (replaced bool) {
	plaintext := k.count(func(r *realmKeys) int { return r.realm.PlaintextKeys }) > 0
	k.mu.Lock()
	defer k.mu.Unlock()
	replaced = k.plaintext && !plaintext
	k.plaintext = plaintext
	return replaced
}

// count returns the sum of a number over all realms.
func (k *keyring) count(of func(*realmKeys) int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := 0
	for _, r := range k.realms {
		sum += of(r)
	}
	return sum
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
