package informers_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil // The default handlers limit the rate with state that outlives a bubble.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

var errDown = errors.New("connection refused")

// server is an API server with one Secret, whose resource version is the revision.
type server struct {
	mu        sync.Mutex
	unchanged string   // the resource version of the Secret, if that isn't the revision
	others    []string // names of more Secrets
	restarted bool     // a watch can't be resumed from an older revision
	expired   bool     // no watch can be resumed
	err       error    // the response to every request
	revision  int
	bookmarks bool // whether a short watch gets a bookmark after a second, as in Kubernetes
	lists     []string
	watches   int
	open      *watch.RaceFreeFakeWatcher
}

func (s *server) list(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if o.Limit != 1 {
		s.lists = append(s.lists, o.ResourceVersion)
	}
	version := strconv.Itoa(s.revision)
	list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: []corev1.Secret{*secret(cmp.Or(s.unchanged, version))}}
	for _, name := range s.others {
		other := secret("1")
		other.Name = name
		list.Items = append(list.Items, *other)
	}
	return list, nil
}

func (s *server) watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case o.SendInitialEvents != nil:
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // as if it couldn't stream lists
	}
	s.watches++
	open := watch.NewRaceFreeFake()
	s.open = open
	if s.expired || s.restarted && o.ResourceVersion != strconv.Itoa(s.revision) {
		open.Error(&apierrors.NewResourceExpired("too old resource version").ErrStatus)
		return open, nil
	}
	if s.bookmarks && *o.TimeoutSeconds < 5 {
		bookmark := secret(strconv.Itoa(s.revision))
		time.AfterFunc(time.Second, func() { open.Action(watch.Bookmark, bookmark) })
	}
	time.AfterFunc(time.Duration(*o.TimeoutSeconds)*time.Second, open.Stop)
	return open, nil
}

func secret(version string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "one", ResourceVersion: version}}
}

// start runs an informer until the test ends.
func start(t *testing.T, s *server) (*informers.Set, cache.SharedIndexInformer) {
	t.Helper()
	set := informers.New(t.Context())
	informer := set.NewInformer(&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, &corev1.Secret{}, time.Hour, cache.Indexers{})
	go informer.RunWithContext(t.Context())
	synctest.Wait()
	return set, informer
}

// seen returns the resource versions of the lists, and the number of watches.
func (s *server) seen() (lists []string, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lists), s.watches
}

// The first list is consistent, and after an outage of any length an informer continues within 3 seconds.
func TestInformerContinuesAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{revision: 10, err: errDown}
		_, informer := start(t, s)
		time.Sleep(time.Hour)
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		if lists, _ := s.seen(); !informer.HasSynced() || len(lists) != 1 || lists[0] != "" {
			t.Fatalf("after the first outage: synced %t, lists %q", informer.HasSynced(), lists)
		}
		time.Sleep(time.Minute) // client-go lists after a watch of less than a second.
		s.mu.Lock()
		s.err = errDown
		s.open.Stop()
		s.mu.Unlock()
		time.Sleep(time.Hour)
		s.mu.Lock()
		s.err = nil
		before := s.watches
		s.mu.Unlock()
		time.Sleep(3 * time.Second)
		if lists, watches := s.seen(); watches == before || len(lists) != 1 {
			t.Errorf("after the second outage: %d new watches, %d lists, want a resumed watch", watches-before, len(lists))
		}
	})
}

// An API server that has restarted can't resume a watch. However often that happens, the informer has what has
// changed within 3 seconds.
func TestInformerContinuesAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{revision: 10, restarted: true, others: []string{"a", "b"}}
		_, informer := start(t, s)
		time.Sleep(time.Minute)
		var (
			mu     sync.Mutex
			events []string
		)
		record := func(what string) func(any) {
			return func(o any) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, what+" "+o.(*corev1.Secret).Name)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: record("add"), UpdateFunc: func(_, o any) { record("update")(o) }, DeleteFunc: record("delete"),
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		events = nil
		mu.Unlock()
		for _, others := range [][]string{{"a"}, {"a", "c"}, nil, {"b"}, {"b"}, {"b", "c"}, {"a"}, {"c"}} {
			if slices.Equal(others, []string{"c"}) {
				s.unchanged = strconv.Itoa(s.revision)
			}
			s.mu.Lock()
			s.err = errDown
			s.open.Stop()
			s.mu.Unlock()
			time.Sleep(6 * time.Second)
			s.mu.Lock()
			s.err, s.others = nil, others
			s.revision += 10
			s.mu.Unlock()
			time.Sleep(3 * time.Second)
			var stored []string
			for _, o := range informer.GetStore().List() {
				if name := o.(*corev1.Secret).Name; name != "one" {
					stored = append(stored, name)
				}
			}
			slices.Sort(stored)
			if version := informer.GetIndexer().LastStoreSyncResourceVersion(); version != strconv.Itoa(s.revision) || !slices.Equal(stored, others) {
				t.Fatalf("version %s, want %d; Secrets %q, want %q", version, s.revision, stored, others)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"delete b", "update one", "add c", "update one"}; !slices.Equal(events[:4], want) {
			t.Errorf("events %q, want them to begin with %q", events, want)
		}
	})
}

// An API server that can't even resume the watch after a list isn't flooded with lists.
func TestListsDoNotFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{revision: 10, expired: true}
		start(t, s)
		time.Sleep(time.Minute)
		if lists, _ := s.seen(); len(lists) > 20 {
			t.Errorf("%d lists in a minute", len(lists))
		}
	})
}

func TestCatchUp(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*server)
		wantLists int           // at most, in addition to the first one
		wantIn    time.Duration // at most
	}{
		"quiet, with a bookmark":    {change: func(s *server) { s.revision, s.bookmarks = 50, true }, wantIn: 3 * time.Second},
		"quiet, without a bookmark": {change: func(s *server) { s.revision = 50 }, wantLists: 1, wantIn: 8 * time.Second},
		"a change hasn't arrived":   {change: func(s *server) { s.revision = 50; time.AfterFunc(time.Second, s.deliver) }, wantIn: 2 * time.Second},
		"a request fails": {change: func(s *server) {
			s.revision, s.bookmarks, s.err = 50, true, errDown
			time.AfterFunc(time.Second, func() { s.mu.Lock(); s.err = nil; s.mu.Unlock() })
		}, wantIn: 5 * time.Second},
		"the namespace was deleted": {change: func(s *server) { s.err = apierrors.NewForbidden(schema.GroupResource{}, "", nil) }},
		"the watch is too old, 410s": {change: func(s *server) {
			s.revision = 50
			s.open.Error(&metav1.Status{Reason: metav1.StatusReasonExpired, Code: 410})
		}, wantLists: 2, wantIn: 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{revision: 10}
				set, informer := start(t, s)
				time.Sleep(time.Minute)
				s.mu.Lock()
				test.change(s)
				want := s.revision
				s.mu.Unlock()
				started := time.Now()
				testkit.Do(t, set.CatchUp(t.Context()))
				took := time.Since(started)
				synctest.Wait()
				lists, _ := s.seen()
				if version := informer.LastSyncResourceVersion(); version != strconv.Itoa(want) || took > test.wantIn || len(lists) > 1+test.wantLists {
					t.Errorf("version %s after %s and %d lists, want %d, at most %s, %d lists", version, took, len(lists), want, test.wantIn, 1+test.wantLists)
				}
			})
		})
	}
}

func (s *server) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Modify(secret(strconv.Itoa(s.revision)))
}

// A watch that delivers nothing is replaced by a list.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{revision: 10}
		set, informer := start(t, s)
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.revision = 50
		s.mu.Unlock()
		set.List()
		time.Sleep(3 * time.Second)
		lists, _ := s.seen()
		if version := informer.LastSyncResourceVersion(); version != "50" || len(lists) != 2 || lists[1] != "" {
			t.Errorf("version %s after the lists %q", version, lists)
		}
	})
}

// An operator that starts over leaves nothing behind that would repeat requests.
func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{err: errDown}
		set := informers.New(ctx)
		informer := set.NewInformer(&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, &corev1.Secret{}, 0, cache.Indexers{})
		go informer.RunWithContext(ctx)
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait() // The bubble fails if a goroutine is left.
	})
}
