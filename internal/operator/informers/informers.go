// Package informers creates the informers of the operator's caches. After an outage of the API server they
// continue within seconds, their lists are consistent, and CatchUp waits until they have delivered all
// changes of the past.
package informers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
)

const (
	// pollInterval is the time between two checks of an informer that is catching up.
	pollInterval = 50 * time.Millisecond
	// resumeTimeout is how long an informer has to catch up with a resumed watch before it lists again.
	resumeTimeout = 5 * time.Second
)

// Set is the informers of one cache.
type Set struct {
	ctx context.Context //nolint:containedctx // client-go lists with a context that never ends.

	mu  sync.Mutex
	all []*informer
}

type informer struct {
	source *source
	shared cache.SharedIndexInformer
}

// New returns an empty set. Its informers stop to retry when ctx is done.
func New(ctx context.Context) *Set { return &Set{ctx: ctx} }

// NewInformer is for cache.Options of controller-runtime. The informer never resyncs, because nothing
// follows from an object that hasn't changed.
func (s *Set) NewInformer(lw cache.ListerWatcher, object runtime.Object, _ time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	i := &informer{source: &source{ListerWatcherWithContext: cache.ToListerWatcherWithContext(lw), stopped: s.ctx, kind: fmt.Sprintf("%T", object), prototype: object}}
	i.shared = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: i.source.list, WatchFuncWithContext: i.source.watch,
	}, object, 0, indexers)
	i.source.shared = i.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, i)
	return i.shared
}

// List makes all informers list their objects again, because their watches deliver nothing.
func (s *Set) List() {
	for _, i := range s.informers() {
		i.source.end(listAgain)
	}
}

// CatchUp waits until each informer has delivered all changes before the call.
func (s *Set) CatchUp(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, i := range s.informers() {
		all.Go(func() error { return i.catchUp(ctx) })
	}
	return all.Wait()
}

func (s *Set) informers() []*informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// catchUp waits until the informer has delivered all changes before the call. An informer of a resource
// that doesn't change lags behind the resource version of a list, until a bookmark arrives. The API server
// sends one before it ends a watch, so catchUp resumes the watch for a short time only. An API server
// needn't send bookmarks, and a list works in any case.
func (i *informer) catchUp(ctx context.Context) error {
	target, err := i.source.revision(ctx)
	if err != nil {
		return fmt.Errorf("reading the current resource version of %s: %w", i.source.kind, err)
	}
	if target == "" || heartbeat.Reached(i.version(), target) {
		return nil
	}
	i.source.end(resumeShortly)
	if i.await(ctx, target, resumeTimeout) {
		return nil
	}
	i.source.end(listAgain)
	for !i.await(ctx, target, time.Minute) {
		if ctx.Err() != nil {
			return fmt.Errorf("waiting until the informer of %s has reached resource version %s: %w", i.source.kind, target, ctx.Err())
		}
		klog.FromContext(ctx).Info("Informer has not caught up yet", "type", i.source.kind, "resourceVersion", i.version(), "current", target)
	}
	return nil
}

// version returns the resource version up to which the informer's store contains all changes.
func (i *informer) version() string { return i.shared.GetIndexer().LastStoreSyncResourceVersion() }

// await reports whether the informer reached the target before the timeout.
func (i *informer) await(ctx context.Context, target string, timeout time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(context.Context) (bool, error) {
		return heartbeat.Reached(i.version(), target), nil
	})
	return err == nil
}

// revision returns the current resource version of the informer's collection. It is empty for a namespace that
// is no longer served, which has no objects. A failed request is repeated.
func (s *source) revision(ctx context.Context) (string, error) {
	list, err := retry(ctx, s, func() (runtime.Object, error) {
		list, err := s.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // There is no collection.
		}
		return list, err
	})
	if list == nil || err != nil {
		return "", err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return accessor.GetResourceVersion(), nil
}
