package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// errRolledBack means that the operator's caches contain a state that the API server has lost.
var errRolledBack = errors.New("the API server was rolled back to an earlier state")

const (
	beaconTimeout = 5 * time.Second
	beaconRetry   = time.Second
)

// rollbacks remembers what shows that the API server was rolled back, while the operator starts over.
type rollbacks struct {
	now func() time.Time // doesn't change

	// Who holds mu owns all fields below. The writer of the beacon sets written, and the handler of the informer
	// last and seen. Both set at, as does the reader's monitor, and a rollback that any of them finds clears
	// written and last.
	mu      sync.Mutex
	written string    // resource version of the last beacon that this process wrote or adopted; may be empty
	last    string    // resource version of the last beacon that arrived; may be empty
	seen    time.Time // when that was written
	at      time.Time // see RolledBackAt
}

// RolledBackAt returns when this process last found that the API server had been rolled back, or adopted that
// another operator did; zero if never.
func (r *rollbacks) RolledBackAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// arrived records a beacon that arrived, and reports whether the API server has lost the one before it. This process
// may then be the only one that knows of the rollback, because the next leader's beacon is later than both.
func (r *rollbacks) arrived(version string, content beacon.Content) (rolledBack bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rolledBack = beacon.RolledBack(r.last, version)
	if rolledBack {
		r.record()
	}
	if content.RolledBackAt.After(r.seen) {
		r.at = content.RolledBackAt // Another operator has found the same rollback.
	}
	r.last, r.seen = version, content.Time
	return rolledBack
}

// found records that the API server has been rolled back.
func (r *rollbacks) found() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record()
}

// record records a rollback with a time after that of the last one, even if the clock is slow. The caller must hold
// mu.
func (r *rollbacks) record() {
	r.written, r.last = "", ""
	r.at = slices.MaxFunc([]time.Time{r.now(), r.at.Add(1)}, time.Time.Compare)
}

// adopt records which beacon is in the API server, and reports whether that shows that the API server was
// rolled back. A deleted beacon doesn't show it.
func (r *rollbacks) adopt(version string, content beacon.Content) (rolledBack bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written != "" && version != "" && beacon.RolledBack(r.written, version) {
		r.record()
		return true
	}
	r.written = version
	// If another operator has found a rollback since the last beacon arrived here, it is the same one.
	if content.RolledBackAt.After(r.at) || content.RolledBackAt.After(r.seen) {
		r.at = content.RolledBackAt
	}
	return false
}

func (r *rollbacks) lastWritten() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

// beaconWriter changes the beacon regularly while this operator leads.
type beaconWriter struct {
	client    client.Client
	live      client.Reader
	namespace string
	rollbacks *rollbacks
	recovered func() // is called after a write that follows a failed one
}

// Start implements manager.Runnable.
//
// Errors: errRolledBack.
func (w *beaconWriter) Start(ctx context.Context) error {
	for failed := false; ; {
		next := beacon.Interval
		switch err := w.write(ctx); {
		case errors.Is(err, errRolledBack):
			return err
		case err != nil && ctx.Err() == nil:
			failed, next = true, beaconRetry
			ctrl.Log.Error(err, "Failed to write the beacon, will retry")
		case err == nil && failed:
			failed = false
			w.recovered()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
	}
}

// write writes the beacon if it is the last one that this process knows. Otherwise, another operator has
// led in the meantime, or the API server was rolled back.
func (w *beaconWriter) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beaconTimeout)
	defer cancel()
	var err error
	if known := w.rollbacks.lastWritten(); known == "" {
		err = w.adopt(ctx)
	} else {
		err = w.put(ctx, known)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return w.adopt(ctx)
	}
	return err
}

// put writes the beacon if it has the given resource version. If that is empty, put creates the beacon, because
// applying it would overwrite the first one of another leader.
func (w *beaconWriter) put(ctx context.Context, version string) error {
	content := beacon.Content{Time: w.rollbacks.now(), RolledBackAt: w.rollbacks.RolledBackAt()}
	desired := corev1ac.Secret(beacon.Name, w.namespace).WithLabels(beacon.Labels()).WithType(corev1.SecretTypeOpaque).WithData(content.Data())
	if version == "" {
		created, err := apply.Convert[corev1.Secret](desired)
		if err != nil {
			return err
		}
		if err := w.client.Create(ctx, created, client.FieldOwner(v1beta1.FieldOwner)); err != nil {
			return err
		}
		w.rollbacks.adopt(created.ResourceVersion, beacon.Content{})
		return nil
	}
	desired.WithResourceVersion(version)
	if err := w.client.Apply(ctx, desired, client.FieldOwner(v1beta1.FieldOwner), client.ForceOwnership); err != nil {
		return err
	}
	w.rollbacks.adopt(*desired.ResourceVersion, beacon.Content{})
	return nil
}

// adopt reads the beacon and writes the next one.
//
// Errors: errRolledBack.
func (w *beaconWriter) adopt(ctx context.Context) error {
	secret, err := readBeacon(ctx, w.live, w.namespace)
	if err != nil {
		return err
	}
	if w.rollbacks.adopt(secret.ResourceVersion, beacon.Read(secret)) {
		return errRolledBack
	}
	return w.put(ctx, secret.ResourceVersion)
}

// beaconReader checks whether the changes of the records reach this operator.
type beaconReader struct {
	records   cache.Cache
	monitor   *beacon.Monitor
	rollbacks *rollbacks
	namespace string
	failed    chan error // receives the error with which Start returns
}

// newBeaconReader returns a reader that gets the beacon from the cache of the records. list makes the cache
// list the records again, and recovered is called after an outage.
func newBeaconReader(records cache.Cache, live client.Reader, namespace string, rolledBack *rollbacks, list, recovered func()) *beaconReader {
	r := &beaconReader{records: records, rollbacks: rolledBack, namespace: namespace, failed: make(chan error, 1)}
	r.monitor = beacon.NewMonitor(beacon.Options{
		Read: func(ctx context.Context) (string, error) { return r.version(ctx, live) },
		List: list,
		RolledBack: func() {
			rolledBack.found()
			r.startOver()
		},
		Recovered: recovered,
		Now:       time.Now,
	})
	return r
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. Standby operators must have current caches,
// too.
func (*beaconReader) NeedLeaderElection() bool { return false }

var _ manager.LeaderElectionRunnable = &beaconReader{}

// Start implements manager.Runnable.
//
// Errors: errRolledBack.
func (r *beaconReader) Start(ctx context.Context) error {
	informer, err := r.records.GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("watching the beacon: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			secret, ok := obj.(*corev1.Secret)
			return ok && secret.Name == beacon.Name
		},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    r.arrived,
			UpdateFunc: func(_, obj any) { r.arrived(obj) },
			DeleteFunc: func(any) { r.monitor.Deleted() },
		},
	})
	if err != nil {
		return fmt.Errorf("watching the beacon: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	version, err := r.version(ctx, r.records)
	if err != nil {
		return err
	}
	r.monitor.Listed(version)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.monitor.Run(ctx)
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.failed:
		return err
	}
}

func (r *beaconReader) arrived(obj any) {
	secret, ok := obj.(*corev1.Secret)
	switch {
	case !ok:
	case r.rollbacks.arrived(secret.ResourceVersion, beacon.Read(apply.Unpack(secret))):
		r.startOver()
	default:
		r.monitor.Arrived(secret.ResourceVersion)
	}
}

// startOver makes Start return, because the caches contain what the API server has lost.
func (r *beaconReader) startOver() {
	select {
	case r.failed <- errRolledBack:
	default:
	}
}

// version returns the resource version of the beacon, or an empty string if there is none.
func (r *beaconReader) version(ctx context.Context, reader client.Reader) (string, error) {
	secret, err := readBeacon(ctx, reader, r.namespace)
	if err != nil {
		return "", err
	}
	return secret.ResourceVersion, nil
}

// readBeacon returns the beacon, or an empty Secret if there is none.
func readBeacon(ctx context.Context, reader client.Reader, namespace string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: beacon.Name}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the beacon: %w", err)
	}
	return secret, nil
}

// addBeacon adds the reader and the writer of the beacon in namespace. Both call recovered after an outage,
// when changes of the records arrive again.
func addBeacon(mgr ctrl.Manager, c *caches, namespace string, rolledBack *rollbacks, recovered func()) error {
	reader := newBeaconReader(c.records, mgr.GetAPIReader(), namespace, rolledBack, c.recordSecrets.List, recovered)
	if err := mgr.Add(reader); err != nil {
		return fmt.Errorf("adding the reader of the beacon: %w", err)
	}
	writer := &beaconWriter{client: mgr.GetClient(), live: mgr.GetAPIReader(), namespace: namespace, rollbacks: rolledBack, recovered: recovered}
	if err := mgr.Add(writer); err != nil {
		return fmt.Errorf("adding the writer of the beacon: %w", err)
	}
	return nil
}
