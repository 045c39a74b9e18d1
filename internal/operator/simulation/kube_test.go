package simulation

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"

	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
)

// newClient returns the client of a token server's feed.
func newClient(l *live) feed.Client {
	return feed.Client{Secrets: secretClient{live: l, namespace: recordsNamespace}, Leases: leaseClient{live: l, namespace: recordsNamespace}}
}

type secretClient struct {
	live      *live
	namespace string
}

// List lists the records. With a resource version, the answer comes from the watch cache.
func (s secretClient) List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	a, list := s.live.api, &corev1.SecretList{}
	_, err = a.send(ctx, &request{from: s.live.from, verb: "LIST", resource: secretResource, name: types.NamespacedName{Namespace: s.namespace}, land: func() (any, error) {
		objects, revision, err := a.listFrom(o.ResourceVersion, memory.Selection{Namespace: s.namespace, Labels: selector})
		if err != nil {
			return nil, err
		}
		list.ResourceVersion = strconv.FormatInt(revision, 10)
		for _, object := range objects {
			list.Items = append(list.Items, *s.live.from.readable(asSecret(object)))
		}
		return nil, nil
	}})
	return list, err
}

// Watch opens a watch. If it is to begin with a list, it first delivers all objects and a bookmark.
func (s secretClient) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	a, server := s.live.api, s.live.from
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	w := &watcher{events: make(chan watch.Event, 1000)}
	w.stream = &stream{owner: server, what: "records", gvr: secretResource, selection: memory.Selection{Namespace: s.namespace, Labels: selector}, deliver: func(e memory.Event) {
		w.send(e.Type, server.readable(asSecret(e.Object)))
	}, bookmark: func(revision int64) { w.send(watch.Bookmark, bookmark(revision)) }, expired: func() { w.events <- expired() }}
	_, err = a.send(ctx, &request{from: server, verb: "WATCH", resource: secretResource, name: types.NamespacedName{Namespace: s.namespace}, land: func() (any, error) {
		if o.SendInitialEvents != nil && *o.SendInitialEvents {
			objects, revision, err := a.listFrom(o.ResourceVersion, w.stream.selection)
			if err != nil {
				return nil, err
			}
			for _, object := range objects {
				w.send(watch.Added, server.readable(asSecret(object)))
			}
			end := bookmark(revision)
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			w.send(watch.Bookmark, end)
			w.stream.at = revision
		} else if w.stream.at, err = strconv.ParseInt(o.ResourceVersion, 10, 64); err != nil {
			return nil, err
		}
		if server.server != nil {
			server.server.delivered = max(server.server.delivered, w.stream.at)
		}
		a.open(w.stream)
		return nil, nil
	}})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// listFrom lists Secrets at a resource version or a later one. Without one, the list is consistent. The
// other lists come from the watch cache, if it has reached the version.
func (a *api) listFrom(version string, selection memory.Selection) ([]*unstructured.Unstructured, int64, error) {
	if wanted, err := strconv.ParseInt(version, 10, 64); err == nil && len(a.stalled) > 0 && wanted > a.stalled[secretResource].revision {
		tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
		tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		return nil, 0, tooLarge
	}
	objects, revision := a.list(secretResource, selection, version != "")
	return objects, revision, nil
}

func asSecret(object *unstructured.Unstructured) *corev1.Secret {
	secret := &corev1.Secret{}
	if err := decode(object, secret); err != nil {
		panic(err)
	}
	return secret
}

func bookmark(revision int64) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(revision, 10)}}
}

// watcher is an open watch of a token server.
type watcher struct {
	stream *stream
	events chan watch.Event
	once   sync.Once
}

func (w *watcher) send(kind watch.EventType, object runtime.Object) {
	if !w.stream.stopped.Load() {
		w.events <- watch.Event{Type: kind, Object: object}
	}
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop is called by goroutines of the server, which the scheduler waits for.
func (w *watcher) Stop() {
	w.once.Do(func() {
		w.stream.stopped.Store(true)
		close(w.events)
	})
}

// Get reads the beacon. No operator of the model writes it, so an API server that answers proves that the
// records are current.
func (s secretClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.live.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, secret)
	return secret, err
}

type leaseClient struct {
	live      *live
	namespace string
}

// Patch applies a heartbeat.
func (l leaseClient) Patch(ctx context.Context, _ string, _ types.PatchType, data []byte, o metav1.PatchOptions, _ ...string) (*coordinationv1.Lease, error) {
	desired := &coordinationv1ac.LeaseApplyConfiguration{}
	if err := json.Unmarshal(data, desired); err != nil {
		return nil, err
	}
	return &coordinationv1.Lease{}, l.live.apply(ctx, "APPLY", desired, memory.WriteOptions{Manager: o.FieldManager, Force: *o.Force})
}

func (l leaseClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, l.live.Get(ctx, types.NamespacedName{Namespace: l.namespace, Name: name}, lease)
}

func (l leaseClient) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	return l.live.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}})
}
