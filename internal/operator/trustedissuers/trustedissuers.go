// Package trustedissuers fetches the public keys of the trusted issuers of Realms. Each issuer has a
// goroutine of its own, so that one that is slow or hostile affects no other.
package trustedissuers

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/metrics"
	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// Issuer describes where the keys of a trusted issuer come from.
type Issuer struct {
	Name string // in the Realm
	URL  string // the "iss" claim
	// JWKSURI is the URL of the keys. If empty, it is discovered from the issuer's metadata.
	JWKSURI string
	// CABundle contains the certificate authorities to trust, in PEM. If empty, the public ones are
	// trusted.
	CABundle []byte
	// Source identifies the other members. Keys of another source are never returned.
	Source string
	// HaveKeys means that keys of this source are in use, so that the first fetch isn't urgent.
	HaveKeys bool
	// FetchedAt identifies the recorded fetch; zero if there is none.
	FetchedAt time.Time
}

// State is the result of the fetches for an issuer since the operator became the leader. It is zero
// before the first result.
type State struct {
	// Keys are the last fetched keys, sorted; nil if none were fetched yet, and empty if the issuer
	// revoked all of them. The caller must not modify them.
	Keys []signingkey.PublicKey
	// FetchedAt is the time at which the fetch of Keys began. After is Issuer.FetchedAt at that time, and
	// always earlier.
	FetchedAt, After time.Time
	// FailingSince is the time of the first failure after the last success; zero after a success.
	FailingSince time.Time
	// Err is the reason for the last failure; empty after a success.
	Err FetchError
}

// Fetcher fetches keys while the operator is the leader. It is safe for concurrent use.
type Fetcher struct {
	// Changed reconciles a Realm when the State of one of its issuers changes.
	Changed queue.Source

	schedule  schedule
	now       func() time.Time
	random    func() float64
	metrics   *metrics.Metrics
	newSource func(Issuer) (keySource, error) // tests replace it

	mu     sync.Mutex
	spawn  func(*worker)                 // starts a worker; nil while the operator isn't the leader
	realms map[string]map[string]*worker // by realm and issuer name
	// requested contains the requests in each token server's Lease, by its name.
	requested map[string][]heartbeat.Refresh
}

// keySource returns the current keys of one issuer. The error is a FetchError.
type keySource interface {
	keys(ctx context.Context) ([]signingkey.PublicKey, error)
}

// New returns a Fetcher. The caller must start it. random returns numbers in [0, 1).
func New(instance *config.Instance, m *metrics.Metrics, now func() time.Time, random func() float64) *Fetcher {
	return &Fetcher{
		schedule: schedule{
			refresh: instance.Scaled(refreshInterval), retry: instance.Scaled(retryInterval),
			maximum: instance.Scaled(maxRetry), minimum: instance.Scaled(minInterval),
		},
		now: now, random: random, metrics: m,
		newSource: func(i Issuer) (keySource, error) { return newGetter(i, instance.TrustedIssuers.AllowLocalAddresses) },
		realms:    map[string]map[string]*worker{}, requested: map[string][]heartbeat.Refresh{},
	}
}

// Want sets the issuers of a Realm whose keys are fetched. An issuer whose source is unchanged keeps
// its schedule.
func (f *Fetcher) Want(realm string, issuers []Issuer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := make(map[string]*worker, len(issuers))
	for _, issuer := range issuers {
		if w := f.realms[realm][issuer.Name]; w != nil && w.issuer.Source == issuer.Source {
			w.replaced(issuer.FetchedAt)
			wanted[issuer.Name] = w
			continue
		}
		wanted[issuer.Name] = &worker{realm: realm, issuer: issuer, wake: make(chan struct{}, 1), recorded: issuer.FetchedAt}
	}
	for name, w := range f.realms[realm] {
		if wanted[name] != w {
			w.stop()
			f.metrics.ForgetIssuer(realm, name)
		}
	}
	if f.realms[realm] = wanted; len(wanted) == 0 {
		delete(f.realms, realm)
	}
	f.spawnAll()
}

// Forget stops the fetches for a deleted Realm.
func (f *Fetcher) Forget(realm string) { f.Want(realm, nil) }

// State returns the State of an issuer with the given source.
func (f *Fetcher) State(realm, issuer, source string) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.realms[realm][issuer]; w != nil && w.issuer.Source == source {
		return w.state
	}
	return State{}
}

// Request makes the next fetch for an issuer happen as soon as the schedule allows. Requests for
// unknown issuers are ignored.
func (f *Fetcher) Request(realm, issuer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.realms[realm][issuer]; w != nil {
		w.request()
	}
}

// Start fetches until ctx is canceled.
func (f *Fetcher) Start(ctx context.Context) error {
	var running sync.WaitGroup
	f.mu.Lock()
	f.spawn = func(w *worker) {
		var own context.Context
		own, w.cancel = context.WithCancel(ctx)
		f.metrics.IssuerWanted(w.realm, w.issuer.Name, f.now())
		running.Go(func() { f.run(own, w) })
	}
	f.spawnAll()
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.spawn = nil
	f.mu.Unlock()
	running.Wait()
	return nil
}

// spawnAll starts the workers that don't run yet. The caller must hold mu.
func (f *Fetcher) spawnAll() {
	for _, workers := range f.realms {
		for _, w := range workers {
			if w.cancel == nil && f.spawn != nil {
				f.spawn(w)
			}
		}
	}
}

// begin returns the fetch that is recorded when another one begins, and the time of the latter. That is later
// even if the clock of another operator was ahead.
func (f *Fetcher) begin(w *worker) (after, startedAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	after, startedAt = w.recorded, f.now().UTC()
	if !startedAt.After(after) {
		startedAt = after.Add(time.Microsecond)
	}
	return after, startedAt
}

// record stores the result of a fetch, and reconciles the Realm if the State changed.
func (f *Fetcher) record(ctx context.Context, w *worker, after, startedAt time.Time, keys []signingkey.PublicKey, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return // the issuer is no longer wanted
	}
	before := w.state
	if err == nil {
		w.state = State{Keys: keys, FetchedAt: startedAt, After: after}
	} else {
		if w.state.Err = fetchErrorOf(err, false); w.state.Err.revokes() {
			w.state.Keys, w.state.FetchedAt, w.state.After = []signingkey.PublicKey{}, startedAt, after
		}
		if w.state.FailingSince.IsZero() {
			w.state.FailingSince = f.now()
		}
	}
	f.metrics.IssuerFetched(w.realm, w.issuer.Name, f.now(), err)
	if before.Err != w.state.Err || !slices.EqualFunc(before.Keys, w.state.Keys, signingkey.PublicKey.Equal) {
		f.Changed.Enqueue(reconcile.Request{NamespacedName: types.NamespacedName{Name: w.realm}})
	}
	log := ctrl.LoggerFrom(ctx).WithValues("realm", w.realm, "issuer", w.issuer.Name)
	switch {
	case w.state.Err != "" && w.state.Err != before.Err:
		log.Info("Failed to get the keys of a trusted issuer, will retry", "reason", string(w.state.Err))
	case w.state.Err == "" && before.Err != "":
		log.Info("Got the keys of a trusted issuer again")
	}
}
