package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/realmkeeper/realmkeeper/internal/contract/beacon"
	"github.com/realmkeeper/realmkeeper/internal/kubeapi/memory"
)

// backup is a state to which the API server can be rolled back.
type backup struct {
	objects []*unstructured.Unstructured
	at      time.Time
	lifted  map[types.UID]int64 // as in history
}

func (w *world) save() {
	w.backup = backup{w.api.store.Objects(), time.Now(), maps.Clone(w.history.lifted)}
}

// bump is by how much a restored etcd increases the revision (docs/backup.md).
const bump = 1_000_000

// rollBack restores etcd from the backup. Every watch expires. The operators find this out, because the beacon is older
// than the one that they know, and start over.
func (w *world) rollBack() {
	revision := w.revision() + bump
	last := object("v1", "Namespace", "", "revision-"+strconv.FormatInt(revision, 10), nil) // the store continues after it
	last.SetResourceVersion(strconv.FormatInt(revision, 10))
	w.restartOperators(func() { w.restoreStore(last) })
}

// restartOperators ends all operators, and starts them again after a change. They lead again with caches that contain it.
func (w *world) restartOperators(change func()) {
	var leaders []string
	for _, o := range w.operators {
		if !o.dead {
			if o.leads {
				leaders = append(leaders, o.name)
			}
			w.kill(o.process)
		}
	}
	change()
	for _, name := range []string{"operator 1", "operator 2"} {
		o := w.startOperator(name)
		if slices.Contains(leaders, name) {
			o.lead()
		}
	}
	w.elect()
}

// restoreStore replaces the store by the backup.
func (w *world) restoreStore(last *unstructured.Unstructured) {
	w.api.store = w.newStore(append(slices.Clone(w.backup.objects), last))
	clear(w.api.stalled)
	for _, r := range w.api.inFlight() {
		w.api.take(r)
		r.err = errDown
		close(r.answered)
		elapse()
	}
	for _, s := range w.openStreams() {
		s.expire()
		elapse()
	}
	for _, s := range w.servers {
		s.lost = true // until it has the restored records
	}
	w.history = w.history.rolledBack(w)
	// Two rollbacks are never found in the same nanosecond.
	w.rolledBack = slices.MaxFunc([]time.Time{time.Now(), w.rolledBack.Add(1)}, time.Time.Compare)
}

// expired is what a watch delivers from which the API server can't continue.
func expired() watch.Event {
	status := apierrors.NewResourceExpired("the required revision has been compacted").Status()
	return watch.Event{Type: watch.Error, Object: &status}
}

// rolledBack returns the history after a rollback: that of the restored state, with the specs before it, because records
// can be those of earlier specs, and with the tokens that were issued. Every list so far must end.
func (h *history) rolledBack(w *world) *history {
	restored, before := newHistory(), h.indexes
	after := restored.indexes
	after.tokens, after.total, after.serial, after.number, after.ends, after.fresh = before.tokens, before.total, before.serial, before.number, before.ends, before.fresh
	after.verifier, after.lost = before.verifier, before.lost
	for number := range before.began {
		after.ends[numberOf(number)] = struct{}{}
		after.lost[number] = true
	}
	maps.Copy(restored.lifted, w.backup.lifted)
	for _, object := range w.backup.objects {
		restored.specs[object.GetUID()] = slices.DeleteFunc(slices.Clone(h.specs[object.GetUID()]), func(s spec) bool { return s.generation >= object.GetGeneration() })
	}
	restored.begin(w)
	return restored
}

// checkRollback checks that a list from before a rollback ends. I5: it does a minute later, unless something holds the
// operators up.
func (h *indexHistory) checkRollback(w *world) {
	if w.rolledBack.IsZero() || time.Since(w.rolledBack) < time.Minute || len(w.api.inFlight()) > 0 || w.api.down ||
		!slices.ContainsFunc(w.operators, func(o *operator) bool { return o.leads && !o.dead && !o.paused && len(o.ready()) == 0 }) {
		return
	}
	if realm, ok := h.realmAt(w.revision()); ok && realm.StatusLists.IsIssued() && h.lost[strconv.FormatInt(realm.StatusLists.Number, 10)] {
		w.violate(fmt.Errorf("I5: list %d has not ended, although the API server was rolled back", realm.StatusLists.Number))
	}
}

// saves makes a backup of etcd, and rollsBack restores it. A rollback to a state that isn't older than the last beacon isn't
// found (docs/backup.md). A list that is lost can have the same number as the next one, which is a time, if it began just
// before, by the clock of either operator.
var (
	saves     = action{name: "a backup of etcd is made", times: 1, do: (*world).save}
	rollsBack = action{
		name: "etcd is restored from the backup", times: 1,
		possible: func(w *world) bool {
			last := time.Unix(w.history.indexes.number, 0).Add(w.history.skew + time.Second)
			return time.Since(w.backup.at) > beacon.Interval && time.Now().After(last)
		},
		do: (*world).rollBack,
	}
)

func (w *world) newStore(objects []*unstructured.Unstructured) *memory.Store {
	store, err := memory.New(memory.Options{Resources: resources, Types: objectTypes(), Now: time.Now, NewUID: w.newUID}, objects...)
	must(err)
	return store
}
