package queue

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// order implements workqueue.Queue, which stores the waiting requests of a work queue.
type order struct {
	urgent func(reconcile.Request) bool

	mu      sync.Mutex
	lanes   [2]*lane                    // of urgent and ordinary requests
	waiting map[reconcile.Request]*lane // the lane of each waiting request
	running map[reconcile.Request]*lane
}

// lane contains requests of the same urgency.
type lane struct {
	limits  Limits
	turns   []string // the namespaces with waiting requests, in turn
	waiting map[string][]reconcile.Request
	running map[string]int
	total   int // running requests of all namespaces
}

func newOrder(limits Limits, urgent func(reconcile.Request) bool) *order {
	newLane := func() *lane {
		return &lane{limits: limits, waiting: map[string][]reconcile.Request{}, running: map[string]int{}}
	}
	return &order{
		urgent:  urgent,
		lanes:   [2]*lane{newLane(), newLane()},
		waiting: map[reconcile.Request]*lane{},
		running: map[reconcile.Request]*lane{},
	}
}

// Push adds a request.
func (o *order) Push(request reconcile.Request) {
	urgent := o.urgent(request)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(request, urgent)
}

// Touch is called if a waiting request is added again. It may have become urgent.
func (o *order) Touch(request reconcile.Request) {
	if !o.urgent(request) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := o.waiting[request]; at != nil && at != o.lanes[0] {
		at.remove(request)
		o.put(request, true)
	}
}

func (o *order) put(request reconcile.Request, urgent bool) {
	at := o.lanes[1]
	if urgent {
		at = o.lanes[0]
	}
	at.put(request)
	o.waiting[request] = at
}

// Len returns 0 if no waiting request may run now, and otherwise the number of waiting requests.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lanes {
		if l.next() >= 0 {
			return len(o.waiting)
		}
	}
	return 0
}

// Pop removes the request that runs next. It is called only if Len is not 0.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lanes {
		if turn := l.next(); turn >= 0 {
			request := l.pop(turn)
			delete(o.waiting, request)
			o.running[request] = l
			return request
		}
	}
	return reconcile.Request{}
}

func (o *order) done(request reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.running[request]; l != nil {
		delete(o.running, request)
		l.done(request.Namespace)
	}
}

// next returns the index in turns of the namespace whose request may run next; -1 if there is none.
func (l *lane) next() int {
	if l.total >= l.limits.Lane {
		return -1
	}
	return slices.IndexFunc(l.turns, func(namespace string) bool { return l.running[namespace] < l.limits.Namespace })
}

func (l *lane) put(request reconcile.Request) {
	if len(l.waiting[request.Namespace]) == 0 {
		l.turns = append(l.turns, request.Namespace)
	}
	l.waiting[request.Namespace] = append(l.waiting[request.Namespace], request)
}

// pop removes the first request of a namespace, whose next turn is after all others.
func (l *lane) pop(turn int) reconcile.Request {
	namespace := l.turns[turn]
	l.turns = slices.Delete(l.turns, turn, turn+1)
	requests := l.waiting[namespace]
	if len(requests) > 1 {
		l.waiting[namespace] = requests[1:]
		l.turns = append(l.turns, namespace)
	} else {
		delete(l.waiting, namespace)
	}
	l.running[namespace]++
	l.total++
	return requests[0]
}

func (l *lane) remove(request reconcile.Request) {
	namespace := request.Namespace
	l.waiting[namespace] = slices.DeleteFunc(l.waiting[namespace], func(r reconcile.Request) bool { return r == request })
	if len(l.waiting[namespace]) == 0 {
		delete(l.waiting, namespace)
		l.turns = slices.DeleteFunc(l.turns, func(n string) bool { return n == namespace })
	}
}

func (l *lane) done(namespace string) {
	l.total--
	if l.running[namespace]--; l.running[namespace] == 0 {
		delete(l.running, namespace)
	}
}
