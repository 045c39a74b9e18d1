package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/contract/heartbeat"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
)

// world is everything that takes part in a run.
type world struct {
	steps     int // automatic steps so far
	api       *api
	scope     scope
	operators []*operator
	servers   []*server
	random    io.Reader
	uids      int
	// rolledBack is when the operators found that the API had been rolled back; zero if never.
	rolledBack time.Time
	backup     backup
	started    int // processes

	history   *history
	trace     []string
	violation error
	// decided is the revision when the request that lands was sent, and heard the one up to which the sender's
	// watch of Leases had delivered.
	decided, heard int64
	// used counts how often an action has been taken.
	used map[string]int
	// digests remembers the digests of objects, which never change.
	digests map[*unstructured.Unstructured]uint64
	// saved is the directory with the records that servers save for the next process; empty: none.
	saved string
}

// process is an operator or a token server.
type process struct {
	world  *world
	name   string
	order  int // in which the processes were started
	ctx    context.Context
	cancel context.CancelFunc
	killed chan struct{}
	dead   bool
	paused bool          // starts nothing
	ahead  time.Duration // how far its clock is ahead
	server *server       // nil for an operator
	heard  atomic.Int64  // the revision up to which its watch of Leases has delivered
}

func (p *process) api() *api { return p.world.api }

// now returns the time of the process's clock.
func (p *process) now() time.Time { return time.Now().Add(p.ahead) }

// scope says what a search chooses. Everything else happens by itself, as soon as it can, so that a
// search has few choices.
type scope struct {
	// lags reports whether the events of a watch wait until the search delivers them.
	lags func(*stream) bool
	// held reports whether a request waits until the search lets it land.
	held func(*request) bool
	// clocks are how far the clocks of processes are ahead, by name. That of the API that verifies tokens is apiName.
	clocks map[string]time.Duration
	// actions are faults, edits, and times.
	actions []action
}

// action is a fault, an edit of a user, or a time that passes.
type action struct {
	name  string
	times int // how often it can be taken
	// possible reports whether it can be taken now; nil: always.
	possible func(*world) bool
	do       func(*world)
}

// newWorld returns a world with the objects of a start state. Operator 1 leads, and all caches are
// current.
func newWorld(scheme *runtime.Scheme, start state, s scope) *world {
	w := &world{scope: s, random: rand.NewChaCha8([32]byte{byte(start.age)}), history: newHistory(), used: map[string]int{}, digests: map[*unstructured.Unstructured]uint64{}}
	time.Sleep(time.Until(start.now))
	w.uids = start.uids
	w.backup = backup{objects: start.objects, at: start.now}
	w.api = &api{store: w.newStore(start.objects), scheme: scheme, stalled: map[schema.GroupVersionResource]frozen{}, names: map[string]string{}}
	w.history.begin(w)
	return w
}

func (w *world) newUID() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uids))
}

func (w *world) newProcess(name string) *process {
	w.started++
	ctx, cancel := context.WithCancel(context.Background())
	return &process{world: w, name: name, ahead: w.scope.clocks[name], order: w.started, ctx: ctx, cancel: cancel, killed: make(chan struct{})}
}

// startOperator starts an operator, which is a standby.
func (w *world) startOperator(name string) *operator {
	o := newOperator(w.newProcess(name))
	w.operators = append(w.operators, o)
	return o
}

// startServer starts a token server. The time between two starts keeps their timers apart; see elapse.
func (w *world) startServer(name string) *server {
	time.Sleep(7 * time.Millisecond)
	saved := ""
	if w.saved != "" {
		saved = filepath.Join(w.saved, name)
		must(os.MkdirAll(saved, 0o700))
	}
	s := newServer(w.newProcess(name), saved)
	for _, earlier := range w.servers {
		if earlier.name == name {
			s.renewed, s.lost, s.previous = earlier.renewed, earlier.lost, earlier.previous // The Lease and the program are the same.
		}
	}
	w.servers = append(w.servers, s)
	return s
}

// kill ends a process like kill -9. What it has sent still lands.
func (w *world) kill(p *process) {
	w.api.abandon(p)
	restore := func() {}
	if p.server != nil { // A process that is killed deletes nothing.
		restore = p.server.keepRecords()
	}
	p.cancel() // before its requests fail, so that it never retries one
	close(p.killed)
	synctest.Wait()
	restore()
	for _, s := range w.api.streams {
		if s.owner == p {
			s.stopped.Store(true)
		}
	}
}

// keepRecords keeps the records that a server has saved, although it deletes them when it ends.
func (s *server) keepRecords() (restore func()) {
	records := filepath.Join(s.saved, "records")
	if err := os.Link(records, records+".kept"); err != nil {
		return func() {} // There are none.
	}
	return func() { must(os.Rename(records+".kept", records)) }
}

// close ends all processes.
func (w *world) close() {
	for _, o := range w.operators {
		if !o.dead {
			w.kill(o.process)
		}
	}
	for _, s := range w.servers {
		if !s.dead {
			w.kill(s.process)
		}
	}
	synctest.Wait()
}

// note adds a line to the trace.
func (w *world) note(format string, arguments ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, arguments...))
}

func (w *world) violate(err error) {
	if w.violation == nil {
		w.violation = err
		w.note("VIOLATION of %v", err)
	}
}

// maxAutomatic is the number of automatic steps after one choice from which on a run doesn't end.
const maxAutomatic = 5000

// elapse waits until all processes wait, and lets a moment pass. What the next step starts therefore gets later
// times than what the last one started. Otherwise, timers that end at the same moment would fire in a random order, and
// two heartbeats of a server could have the same renew time.
func elapse() {
	time.Sleep(time.Microsecond)
	synctest.Wait()
}

// settle takes all automatic steps, and checks the invariants after each one.
func (w *world) settle() {
	for steps := 0; !w.endless(steps); steps++ {
		elapse()
		w.history.observe(w)
		if w.violation != nil || !w.automatic() && !w.awaitHeartbeat() {
			return
		}
	}
}

// endless reports whether the automatic steps won't end. If two operators lead of which one has an old view,
// they write their statuses in turn until it has caught up. Otherwise, that is a violation of liveness.
func (w *world) endless(steps int) bool {
	w.steps++
	if steps < maxAutomatic/50 {
		return false
	}
	leaders, behind := 0, false
	for _, o := range w.operators {
		if o.leads && !o.dead {
			leaders++
		}
	}
	for _, s := range w.openStreams() {
		_, next := w.api.next(s)
		behind = behind || next && s.owner.server == nil
	}
	if leaders > 1 && behind {
		return true
	}
	if steps >= maxAutomatic {
		w.violate(fmt.Errorf("liveness: the processes are still working after %d steps", steps))
	}
	return steps >= maxAutomatic
}

// automatic takes a step that the search doesn't choose and that takes no time, if there is one.
func (w *world) automatic() bool {
	for _, s := range w.openStreams() {
		if !w.scope.lags(s) && w.deliver(s) {
			return true
		}
	}
	for _, r := range w.api.inFlight() {
		if !w.scope.held(r) {
			w.land(r)
			return true
		}
	}
	for _, o := range w.operators {
		for _, i := range o.ready() {
			o.reconcile(i)
			return true
		}
	}
	return false
}

// awaitHeartbeat lets the time pass after which a token server reports a change that it has loaded, if there
// is such a server.
func (w *world) awaitHeartbeat() bool {
	if !slices.ContainsFunc(w.servers, w.willReport) {
		return false
	}
	w.sleep(heartbeat.MinInterval)
	return true
}

// ready returns the objects that an operator can reconcile now.
func (o *operator) ready() []item {
	if o.dead || !o.leads || o.paused || o.world.api.down {
		return nil
	}
	var ready []item
	for _, kind := range []acknowledgement.Kind{acknowledgement.Realm, acknowledgement.Client} {
		for _, name := range sortedKeys(o.dueOf(kind)) {
			if i := (item{kind, name}); !o.running[i] && !o.due[i].After(time.Now()) {
				ready = append(ready, i)
			}
		}
	}
	return ready
}

func (o *operator) dueOf(kind acknowledgement.Kind) map[types.NamespacedName]time.Time {
	due := map[types.NamespacedName]time.Time{}
	for i, at := range o.due {
		if i.kind == kind {
			due[i.name] = at
		}
	}
	return due
}

// willReport reports whether a token server is about to write its Lease, because it has loaded a change.
func (w *world) willReport(s *server) bool {
	if !s.answers() || w.api.down {
		return false
	}
	for _, r := range w.api.inFlight() {
		if r.from == s.process {
			return false
		}
	}
	return s.delivered > s.reported
}

// openStreams returns the watches that haven't ended.
func (w *world) openStreams() []*stream {
	var open []*stream
	for _, s := range w.api.streams {
		if !s.stopped.Load() {
			open = append(open, s)
		}
	}
	w.api.streams = open
	return open
}

// deliver delivers the next event of a watch, if there is one.
func (w *world) deliver(s *stream) bool {
	if w.api.down {
		return false
	}
	e, ok := w.api.next(s)
	if !ok {
		return false
	}
	s.at = e.Revision
	if server := s.owner.server; server != nil {
		server.delivered = e.Revision
	}
	if s.gvr == leaseResource {
		s.owner.heard.Store(e.Revision)
	}
	if !renewal(e.Before, e.Object) {
		w.note("  %s delivers %s %s, revision %d", s, strings.ToLower(string(e.Type)), w.api.nameOf(e.Resource, nameOf(e.Object)), e.Revision)
	}
	s.deliver(e)
	return true
}

// land lets the API server process a request and answer it.
func (w *world) land(r *request) {
	w.api.take(r)
	before, _ := w.api.store.Get(r.resource, r.name)
	w.decided, w.heard = r.decided, r.heard
	r.result, r.err = r.land()
	if object, ok := r.result.(*unstructured.Unstructured); !ok || r.err != nil || r.orphaned || !renewal(before, object) {
		w.noteLanding(r)
	}
	if s := r.from.server; s != nil && r.err == nil && r.resource == leaseResource && !r.reads() && !r.orphaned {
		lost := w.excused(s)
		s.renewed, s.lost = time.Now(), lost && !w.caughtUp(s)
		if object, ok := r.result.(*unstructured.Unstructured); ok {
			_, _ = fmt.Sscan(object.GetAnnotations()[heartbeat.LoadedAnnotation], &s.reported)
			if s.joined == 0 && s.reported > 0 {
				s.joined = w.revision()
			}
		}
	}
	close(r.answered)
}

// caughtUp reports whether a token server serves all records: its watch has delivered everything that is
// stored, and it could read that.
func (w *world) caughtUp(s *server) bool {
	if s.old {
		return false
	}
	watches := 0
	for _, stream := range w.openStreams() {
		if stream.owner == s.process {
			watches++
			if w.api.behind(stream) {
				return false
			}
		}
	}
	return watches > 0
}

// renewal reports whether a change only renews a Lease, which traces omit.
func renewal(before, after *unstructured.Unstructured) bool {
	return before != nil && after != nil && after.GetKind() == "Lease" && maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

func (w *world) revision() int64 {
	_, revision := w.api.store.List(secretResource, memory.Selection{Namespace: "none"})
	return revision
}

// noteLanding describes a request that landed. Successful reads of the present state aren't interesting.
func (w *world) noteLanding(r *request) {
	late := ""
	if r.orphaned {
		late = " (late, the sender is gone)"
	}
	object, _ := r.result.(*unstructured.Unstructured)
	switch {
	case r.err != nil:
		w.note("  %s%s fails: %s", r, late, oneLine(r.err))
	case r.reads() && r.verb != "WATCH":
	case object != nil:
		w.note("  %s%s lands: %s", r, late, describe(object))
	default:
		w.note("  %s%s lands", r, late)
	}
}

// sleep lets time pass. Everything that isn't chosen happens meanwhile, and watches without events deliver
// bookmarks.
func (w *world) sleep(d time.Duration) {
	const slice = 5 * time.Second
	for d > 0 && w.violation == nil {
		time.Sleep(min(d, slice))
		synctest.Wait()
		if d -= slice; d <= 0 {
			return
		}
		w.api.store.CollectGarbage()
		w.proceed()
		for _, s := range w.openStreams() {
			if _, behind := w.api.next(s); !behind && s.bookmark != nil && !w.scope.lags(s) && !w.api.down {
				s.bookmark(s.at)
				elapse()
			}
		}
	}
}

// proceed takes all automatic steps that take no time.
func (w *world) proceed() {
	for steps := 0; !w.endless(steps); steps++ {
		if w.violation != nil || !w.automatic() {
			return
		}
		elapse()
		w.history.observe(w)
	}
}

// choice is a step that a search can take.
type choice struct {
	name string
	do   func()
}

// choices returns the steps that a search can take now. Their names are unique.
func (w *world) choices() []choice {
	var choices []choice
	for _, s := range w.openStreams() {
		if e, ok := w.api.next(s); ok && w.scope.lags(s) && !w.api.down {
			choices = append(choices, choice{fmt.Sprintf("%s delivers %s", s, w.api.nameOf(e.Resource, nameOf(e.Object))), func() { w.deliver(s) }})
		}
	}
	names := map[string]int{}
	for _, r := range w.api.inFlight() {
		if !w.scope.held(r) || w.api.down {
			continue
		}
		name := r.String() + " lands"
		if names[name]++; names[name] > 1 {
			name += fmt.Sprintf(" (%d)", names[name])
		}
		choices = append(choices, choice{name, func() { w.land(r) }})
	}
	for _, a := range w.scope.actions {
		if w.used[a.name] < a.times && (a.possible == nil || a.possible(w)) {
			choices = append(choices, choice{a.name, func() {
				w.used[a.name]++
				a.do(w)
			}})
		}
	}
	return choices
}

// take takes a step and all automatic ones that follow. It reports whether the step exists.
func (w *world) take(name string) bool {
	for _, c := range w.choices() {
		if c.name == name {
			w.note("* %s", name)
			c.do()
			w.settle()
			return true
		}
	}
	return false
}

// hash identifies the state as far as it is visible: the API, what is in flight, caches, and the memory of
// the processes. Two runs with the same hash and the same choices continue in the same way.
func (w *world) hash() uint64 {
	h := newHash()
	_ = binary.Write(h, binary.LittleEndian, time.Now().UnixMilli())
	for _, object := range w.api.store.Objects() {
		_ = binary.Write(h, binary.LittleEndian, w.digest(object))
	}
	for _, s := range w.openStreams() {
		next := int64(0)
		if e, ok := w.api.next(s); ok {
			next = e.Revision
		}
		fmt.Fprintln(h, s, next)
	}
	for _, r := range w.api.inFlight() {
		fmt.Fprintln(h, r, r.orphaned, r.body)
	}
	for _, o := range w.operators {
		fmt.Fprintln(h, o.dead, o.leads, o.paused, o.due, o.running)
		o.memory(h)
	}
	for _, s := range w.servers {
		fmt.Fprintln(h, s.dead, s.old, s.delivered, s.reported, s.registry.Loaded())
	}
	fmt.Fprintln(h, w.used, w.api.down, len(w.api.stalled), w.backup.at, w.rolledBack)
	return h.Sum64()
}
