package sealing

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

const (
	// workers limits the concurrent requests for realms that wait.
	workers = 4
	// The delays between attempts for a realm grow between these limits.
	minDelay = 500 * time.Millisecond
	maxDelay = time.Minute
)

// Options configures a Sealer. All fields are required unless Mode is Off.
type Options struct {
	Mode      Mode
	Encrypter *keyencryption.Encrypter
	// RewrapInterval is the minimum time between two attempts to rewrap the keys of a realm.
	RewrapInterval time.Duration
	// StatusInterval is the time between requests for the plugin's status.
	StatusInterval time.Duration
	Now            func() time.Time
	Random         io.Reader
}

// Sealer encrypts and decrypts keys while the operator is the leader. It keeps the results in memory
// until they are in a record. It is safe for concurrent use.
type Sealer struct {
	Options
	urgent  workqueue.TypedRateLimitingInterface[string] // of names of realms
	rewraps workqueue.TypedDelayingInterface[string]

	mu     sync.Mutex
	realms map[string]*state // by name
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	plugin plugin
}

// state is what the sealer knows about a realm.
type state struct {
	uid       types.UID
	request   Request
	converted map[string]signingkey.Key
	generated *signingkey.Key // of the requested algorithm; nil if none is requested
	failed    bool            // the last attempt
	rewrapAt  time.Time
	counts    counts
}

// New returns a sealer. The caller must start it unless the mode is Off.
func New(o Options) *Sealer {
	s := &Sealer{Options: o, realms: map[string]*state{}}
	if o.Mode != Off {
		s.urgent = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minDelay, maxDelay))
		s.rewraps = workqueue.NewTypedDelayingQueue[string]()
	}
	return s
}

// Source returns a source that reconciles a Realm when a result for it is known, and when something
// else in its View changes.
func (s *Sealer) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queue = queue
		return nil
	})
}

// View returns what is known about the keys of a realm.
func (s *Sealer) View(realm string, uid types.UID) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := View{Mode: s.Mode, KeyID: s.plugin.keyID}
	if r := s.realms[realm]; r != nil && r.uid == uid {
		view.Generated, view.Unavailable = r.generated, r.request.Urgent() && (r.failed || s.plugin.err != nil)
		view.Converted = maps.Clone(r.converted)
	}
	return view
}

// Want replaces the request of a realm. recorded are the keys in its record; results that are recorded
// are dropped. A generated key is dropped when it isn't requested, because it was used or isn't needed. If
// it were kept until the next rotation, the KMS might no longer have the key that encrypted it.
func (s *Sealer) Want(realm string, uid types.UID, recorded []signingkey.Key, request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.realms[realm]
	if r == nil || r.uid != uid {
		r = &state{uid: uid, converted: map[string]signingkey.Key{}}
		s.realms[realm] = r
	}
	for i := range recorded {
		key := &recorded[i]
		if result, ok := r.converted[key.ID]; ok && key.Sealed().Equal(result.Sealed()) {
			delete(r.converted, key.ID)
		}
	}
	if r.generated != nil && r.generated.Algorithm != request.Generate {
		r.generated = nil
	}
	r.counts = countKeys(recorded, s.plugin.keyID)
	r.request = request
	if s.Mode == Off {
		return
	}
	if !request.Urgent() {
		r.failed = false
		s.urgent.Forget(realm)
	} else if !r.failed { // a failed request is already waiting for the next attempt
		s.urgent.Add(realm)
	}
	if len(request.Rewrap) > 0 {
		s.rewraps.AddAfter(realm, r.rewrapAt.Sub(s.Now()))
	}
}

// Forget drops what is known about a deleted realm.
func (s *Sealer) Forget(realm string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.realms, realm)
}

// Start works until ctx is canceled.
func (s *Sealer) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { run(ctx, s.urgent, s.convert) })
	}
	running.Go(func() { run(ctx, s.rewraps, s.rewrap) })
	running.Go(func() { s.poll(ctx) })
	<-ctx.Done()
	s.urgent.ShutDown()
	s.rewraps.ShutDown()
	running.Wait()
	return nil
}

func run(ctx context.Context, queue workqueue.TypedInterface[string], process func(context.Context, string)) {
	for {
		realm, stopped := queue.Get()
		if stopped {
			return
		}
		if ctx.Err() == nil {
			process(ctx, realm)
		}
		queue.Done(realm)
	}
}

// rewrap encrypts the keys of a realm with the current key of the KMS. Only one realm at a time is
// rewrapped, and each realm at most once per interval, so that a plugin whose key ID changes often
// doesn't cause many writes.
func (s *Sealer) rewrap(ctx context.Context, realm string) {
	uid, request := s.missing(realm)
	s.mu.Lock()
	r, keyID := s.realms[realm], s.plugin.keyID
	if r == nil || len(request.Rewrap) == 0 {
		s.mu.Unlock()
		return
	}
	if wait := r.rewrapAt.Sub(s.Now()); wait > 0 {
		s.rewraps.AddAfter(realm, wait)
		s.mu.Unlock()
		return
	}
	r.rewrapAt = s.Now().Add(s.RewrapInterval)
	s.mu.Unlock()
	for i := range request.Rewrap {
		result, err := s.Encrypter.Rewrap(ctx, uid, &request.Rewrap[i])
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to rewrap a signing key with the KMS plugin, will retry", "realm", realm, "keyID", request.Rewrap[i].ID)
			if errors.Is(err, keyencryption.ErrUnavailable) {
				break
			}
			continue
		}
		if result.Sealed().KeyID != keyID {
			ctrl.LoggerFrom(ctx).Info("KMS plugin encrypts with another key than its status reports, will retry", "realm", realm, "keyID", result.ID)
			continue
		}
		s.store(realm, uid, func(r *state) { r.addConverted(result) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewraps.AddAfter(realm, s.RewrapInterval) // for keys that failed
	s.reconcile(realm)
}

// reconcile requests a reconcile of a Realm.
func (s *Sealer) reconcile(realm string) {
	if s.queue != nil {
		s.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: realm}})
	}
}
