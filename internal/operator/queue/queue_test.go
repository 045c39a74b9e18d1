package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/realmkeeper/realmkeeper/internal/operator/queue"
)

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// fixture is a queue in which requests are urgent if they are listed or their names begin with
// "urgent".
type fixture struct {
	*queue.Queue

	mu     sync.Mutex
	listed []reconcile.Request
}

func newQueue(t *testing.T, limits queue.Limits) *fixture {
	t.Helper()
	f := &fixture{}
	f.Queue = queue.New("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), limits, func(r reconcile.Request) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return strings.HasPrefix(r.Name, "urgent") || slices.Contains(f.listed, r)
	})
	t.Cleanup(f.ShutDown)
	return f
}

func (f *fixture) add(namespace, prefix string, n int) {
	for i := range n {
		f.Add(request(namespace, fmt.Sprint(prefix, i)))
	}
}

// take returns the requests that run now, in order, without marking them as processed.
func (f *fixture) take() []string {
	var taken []string
	for f.Len() > 0 {
		r, _ := f.Get()
		taken = append(taken, r.String())
	}
	return taken
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

var unlimited = queue.Limits{Lane: 100, Namespace: 100}

func TestNamespacesTakeTurns(t *testing.T) {
	f := newQueue(t, unlimited)
	f.add("a", "x", 3)
	f.add("b", "x", 2)
	f.add("c", "x", 1)
	f.add("b", "x", 2) // again
	want(t, f.take(), "a/x0", "b/x0", "c/x0", "a/x1", "b/x1", "a/x2")
}

func TestUrgentRequestsGoFirst(t *testing.T) {
	f := newQueue(t, unlimited)
	f.add("a", "x", 2)
	f.add("b", "x", 2)
	f.add("b", "urgent", 2)
	f.add("a", "urgent", 1)
	f.listed = []reconcile.Request{request("b", "x1")}
	f.Add(request("b", "x1")) // it has become urgent
	want(t, f.take(), "b/urgent0", "a/urgent0", "b/urgent1", "b/x1", "a/x0", "b/x0", "a/x1")
}

// A namespace with many requests leaves workers to the others, and requests of the same urgency
// leave workers to those of the other one.
func TestLimits(t *testing.T) {
	f := newQueue(t, queue.Limits{Lane: 3, Namespace: 2})
	f.add("a", "x", 5)
	want(t, f.take(), "a/x0", "a/x1")
	f.add("b", "x", 5)
	want(t, f.take(), "b/x0")
	f.add("a", "urgent", 5)
	want(t, f.take(), "a/urgent0", "a/urgent1")
	f.add("c", "urgent", 2)
	want(t, f.take(), "c/urgent0")

	f.Done(request("b", "x0"))
	want(t, f.take(), "b/x1")
	f.Done(request("a", "x1"))
	want(t, f.take(), "a/x2")
	f.Done(request("a", "x0"))
	want(t, f.take(), "b/x2")
	f.Done(request("a", "urgent0"))
	want(t, f.take(), "a/urgent2")
	f.Done(request("a", "urgent1"))
	want(t, f.take(), "c/urgent1")
}

// No request is lost and none runs twice at the same time, however many workers there are.
func TestEveryRequestRuns(t *testing.T) {
	f := newQueue(t, queue.Limits{Lane: 3, Namespace: 2})
	var mu sync.Mutex
	running, ran := map[reconcile.Request]bool{}, map[reconcile.Request]int{}
	var workers, processed sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				r, stopped := f.Get()
				if stopped {
					return
				}
				mu.Lock()
				if running[r] {
					t.Errorf("%s runs twice", r)
				}
				running[r] = true
				first := ran[r] == 0
				ran[r]++
				mu.Unlock()
				if first {
					f.Add(r) // while it runs
				}
				mu.Lock()
				running[r] = false
				mu.Unlock()
				if !first {
					processed.Done()
				}
				f.Done(r)
			}
		})
	}
	for i := range 500 {
		processed.Add(1)
		name := fmt.Sprint("x", i)
		if i%3 == 0 {
			name = fmt.Sprint("urgent", i)
		}
		f.Add(request(strconv.Itoa(i%7), name))
	}
	processed.Wait()
	f.ShutDown()
	workers.Wait()
	for r, n := range ran {
		if n != 2 {
			t.Errorf("%s ran %d times, want 2", r, n)
		}
	}
}
