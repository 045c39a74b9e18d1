// Package watchlist limits how long a reflector waits for a streamed list, which is a watch with
// sendInitialEvents. An API server or a proxy can accept it and never send the bookmark that ends the list.
// client-go then waits until the watch ends after several minutes, and starts another one.
package watchlist

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// Timeout is how long a list may take to continue: with the response to the request, an object, or the bookmark.
const Timeout = 10 * time.Second

// Open opens a watch of objects of the given type. If it starts with a list that doesn't continue within Timeout,
// the watch ends with an error after which a reflector lists without streaming.
func Open(ctx context.Context, kind string, o metav1.ListOptions, open func(context.Context, metav1.ListOptions) (watch.Interface, error)) (watch.Interface, error) {
	if o.SendInitialEvents == nil || !*o.SendInitialEvents {
		return open(ctx, o)
	}
	request, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(Timeout, cancel)
	source, err := open(request, o)
	late := !timer.Stop() && ctx.Err() == nil
	if err != nil && !late {
		cancel()
		return nil, err
	}
	events := make(chan watch.Event)
	list := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer cancel()
		if source != nil {
			defer source.Stop()
		}
		if !late && !forward(list, source, events) {
			return
		}
		klog.FromContext(ctx).Info("The API server did not end a streamed list, will list without streaming",
			"type", kind, "waitedFor", "bookmark with "+metav1.InitialEventsAnnotationKey, "timeout", Timeout.String())
		send(list, events, watch.Event{Type: watch.Error, Object: &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonTimeout, Message: "the streamed list did not end",
		}})
	}()
	return list, nil
}

// forward forwards events until the watch ends, or until the list has not continued within Timeout, which it
// reports. Once an object has changed, a new object needn't belong to the list.
func forward(list *watch.ProxyWatcher, source watch.Interface, events chan<- watch.Event) (timedOut bool) {
	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	for listing := true; ; {
		select {
		case <-list.StopChan():
			return false
		case <-timer.C:
			return true
		case e, ok := <-source.ResultChan():
			if !ok || !send(list, events, e) {
				return false
			}
			switch {
			case ends(e):
				listing = false
				timer.Stop()
			case e.Type != watch.Added:
				listing = false
			case listing:
				timer.Reset(Timeout)
			}
		}
	}
}

func send(list *watch.ProxyWatcher, events chan<- watch.Event, e watch.Event) bool {
	select {
	case events <- e:
		return true
	case <-list.StopChan():
		return false
	}
}

// ends reports whether an event is the bookmark after the last object of the list.
func ends(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	bookmark, err := meta.Accessor(e.Object)
	return err == nil && bookmark.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
