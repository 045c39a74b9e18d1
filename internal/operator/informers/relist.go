package informers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// settleTimeout is how long an informer has to store the events of its last watch.
const settleTimeout = 10 * time.Second

// errNotSettled makes client-go list the objects.
var errNotSettled = errors.New("the informer has not stored the last events yet")

// stream is a watch that doesn't end when it can't be resumed. It then lists the objects, and its events are
// what has changed. client-go would wait before its list, up to a minute if the API server has restarted
// several times.
type stream struct {
	source  *source
	options metav1.ListOptions
	events  chan watch.Event
	// listed means that the stream has listed the objects. If the API server can't resume the watch that
	// followed either, client-go lists them after its delay, so that lists don't follow one another.
	listed bool

	stopped context.Context //nolint:containedctx // Stop ends it.
	stop    context.CancelFunc
	mu      sync.Mutex
	open    watch.Interface // nil before the first watch
}

// newStream returns a stream of the events of a watch. If the watch is nil, the stream begins with a list.
func newStream(ctx context.Context, s *source, options metav1.ListOptions, open watch.Interface) *stream {
	st := &stream{source: s, options: options, events: make(chan watch.Event), open: open}
	st.stopped, st.stop = context.WithCancel(ctx)
	go st.run()
	return st
}

// ResultChan returns the events.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// Stop ends the stream.
func (s *stream) Stop() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		s.open.Stop()
	}
}

func (s *stream) run() {
	defer close(s.events)
	defer s.Stop()
	if s.open == nil && !s.list() {
		return
	}
	for {
		e, ok := <-s.open.ResultChan()
		switch {
		case !ok:
			return
		case e.Type == watch.Error && !s.listed && expired(apierrors.FromObject(e.Object)):
			if !s.list() {
				return
			}
		case !s.send(e):
			return
		}
	}
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

func (s *stream) send(e watch.Event) bool {
	select {
	case s.events <- e:
		return true
	case <-s.stopped.Done():
		return false
	}
}

// list sends what has changed since the last event, and opens another watch. It returns false if the stream
// has ended.
func (s *stream) list() bool {
	s.listed = true
	changes, open, err := s.source.relist(s.stopped, s.options)
	if err != nil {
		s.send(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired(err.Error()).ErrStatus})
		return false
	}
	s.mu.Lock()
	s.open = open
	s.mu.Unlock()
	for _, e := range changes {
		if !s.send(e) {
			return false
		}
	}
	return s.stopped.Err() == nil
}

// relist returns the events that lead from what the informer has stored to a consistent list, and a watch that
// follows the list.
func (s *source) relist(ctx context.Context, o metav1.ListOptions) ([]watch.Event, watch.Interface, error) {
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, settleTimeout, true, func(context.Context) (bool, error) {
		return s.shared.GetIndexer().LastStoreSyncResourceVersion() == s.shared.LastSyncResourceVersion(), nil
	}); err != nil {
		return nil, nil, errNotSettled
	}
	list, err := retry(ctx, s, func() (runtime.Object, error) { return s.ListWithContext(ctx, metav1.ListOptions{}) })
	if err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", s.kind, err)
	}
	changes, version, err := compare(s.shared.GetStore(), list)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing a list of %s: %w", s.kind, err)
	}
	o.ResourceVersion = version
	open, err := retry(ctx, s, func() (watch.Interface, error) { return s.WatchWithContext(ctx, o) })
	if err != nil {
		return nil, nil, fmt.Errorf("watching %s: %w", s.kind, err)
	}
	bookmark := s.prototype.DeepCopyObject()
	accessor, err := meta.Accessor(bookmark)
	if err != nil {
		return nil, nil, err
	}
	accessor.SetResourceVersion(version)
	return append(changes, watch.Event{Type: watch.Bookmark, Object: bookmark}), open, nil
}

// compare returns the events that lead from the stored objects to those of a list, and the list's resource
// version. Deletions come first, and then the changes in their order: the watch can end after each event and is
// then resumed from its resource version.
func compare(store cache.Store, list runtime.Object) (changes []watch.Event, version string, err error) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	version = accessor.GetResourceVersion()
	listed := map[string]bool{}
	var incomparable error
	// An object that is stored must not keep the list in memory.
	err = meta.EachListItemWithAlloc(list, func(o runtime.Object) error {
		key, err := cache.MetaNamespaceKeyFunc(o)
		if err != nil {
			return err
		}
		listed[key] = true
		stored, exists, err := store.GetByKey(key)
		if err != nil || exists && versionOf(stored) == versionOf(o) {
			return err
		}
		changes = append(changes, watch.Event{Type: watch.Modified, Object: o})
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(changes, func(a, b watch.Event) int {
		order, err := resourceversion.CompareResourceVersion(versionOf(a.Object), versionOf(b.Object))
		incomparable = cmp.Or(incomparable, err)
		return order
	})
	var deletions []watch.Event
	for _, stored := range store.List() {
		key, err := cache.MetaNamespaceKeyFunc(stored)
		object, ok := stored.(runtime.Object)
		if err == nil && ok && !listed[key] {
			// The informer transforms the object of an event in place.
			deletions = append(deletions, watch.Event{Type: watch.Deleted, Object: object.DeepCopyObject()})
		}
	}
	return append(deletions, changes...), version, incomparable
}

func versionOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}
