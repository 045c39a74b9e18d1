package informers

import (
	"context"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/realmkeeper/realmkeeper/internal/contract/watchlist"
)

const (
	// shortTimeout is the timeout in seconds of a watch that is open only for a bookmark. The API server
	// sends one two seconds before the timeout.
	shortTimeout = 3
	// minAge is how old a watch must be before it is ended: client-go lists all objects after a watch that
	// ended within a second without an event. It measures the time from when a list that began the watch
	// was complete, which isn't known here, so a watch that is younger than listAge gets another minAge.
	minAge  = 1100 * time.Millisecond
	listAge = 15 * time.Second
)

// next says how the watch continues after the open one has been ended.
type next int

const (
	resume next = iota
	resumeShortly
	listAgain
)

// source lists and watches for one informer. It repeats failed requests, because client-go waits for up to
// a minute between two attempts.
type source struct {
	cache.ListerWatcherWithContext

	stopped context.Context //nolint:containedctx // client-go lists with a context that never ends.
	kind    string
	shared  cache.SharedIndexInformer
	// prototype has the type of the objects.
	prototype runtime.Object

	mu     sync.Mutex
	next   next
	opened time.Time
	open   watch.Interface // nil before the first watch
}

// list lists the objects. The list is consistent: client-go accepts any old state from the API server's
// cache at the start.
func (s *source) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion = ""
	return retry(ctx, s, func() (runtime.Object, error) { return s.ListWithContext(ctx, o) })
}

func (s *source) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	lists := o.SendInitialEvents != nil && *o.SendInitialEvents
	if lists {
		o.ResourceVersion = "" // as in list
	}
	timeout := o.TimeoutSeconds
	return retry(ctx, s, func() (watch.Interface, error) {
		next := s.take()
		o.TimeoutSeconds = timeout
		if next == listAgain && !lists {
			return s.opens(newStream(ctx, s, o, nil)), nil
		}
		if next == resumeShortly && !lists {
			o.TimeoutSeconds = new(int64(shortTimeout))
		}
		events, err := watchlist.Open(ctx, s.kind, o, s.WatchWithContext)
		switch {
		case lists && err == nil:
			return s.opens(events), nil
		case lists:
			return nil, err
		case err == nil:
			return s.opens(newStream(ctx, s, o, events)), nil
		case expired(err):
			o.TimeoutSeconds = timeout
			return s.opens(newStream(ctx, s, o, nil)), nil
		}
		return nil, err
	})
}

// opens stores the watch that is open.
func (s *source) opens(events watch.Interface) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.opened = events, time.Now()
	return events
}

// take returns how the watch continues, once.
func (s *source) take() next {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.next
	s.next = resume
	return taken
}

// end ends the open watch and sets how it continues.
func (s *source) end(next next) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
	if s.open == nil {
		return
	}
	if open := s.open; time.Since(s.opened) < listAge {
		time.AfterFunc(minAge, open.Stop)
	} else {
		open.Stop()
	}
}

// retry calls request until it succeeds, or until its error means something to client-go. The error is io.EOF
// if the informer stops.
func retry[T any](ctx context.Context, s *source, request func() (T, error)) (T, error) {
	delays := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 4, Cap: time.Second}
	for failed := false; ; failed = true {
		result, err := request()
		if err == nil || final(err) {
			return result, err
		}
		if !failed {
			klog.FromContext(ctx).Info("Failed to list or watch, will retry", "type", s.kind, "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return result, io.EOF // client-go doesn't report it.
		case <-s.stopped.Done():
			return result, io.EOF
		case <-time.After(delays.Step()):
		}
	}
}

// final reports whether the same request would fail again with the error.
func final(err error) bool {
	return expired(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsMethodNotSupported(err)
}
