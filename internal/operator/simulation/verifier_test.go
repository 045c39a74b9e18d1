package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
)

// verifier is an API that checks tokens as api/verify does: with the lists that it has, which it loads again when their
// ttl is over. It asks the servers in turn, those without contact to the API server included. It asks none that can't read
// all records, because such a server keeps the last version that it could read, also for lists.
type verifier struct {
	lists map[string]*loadedList // by number
	loads int
	// revoked is since when every server that counts has known that the tokens are revoked for good.
	revoked map[reference]time.Time
}

// loadedList is a list that a verifier has.
type loadedList struct {
	bits     statuslist.Bits
	revision int64 // of the records that the server had
	issued   time.Time
	expires  time.Time
	next     time.Time // when it is loaded again
}

// listLifetime is how long a list can be used, and acceptance the longest time for which an API accepts a token that
// every server with contact to the API server knows to be revoked.
var (
	listLifetime = statuslist.Lifetime(instance().TokenServer.MaxStaleness.Duration, 10*time.Second)
	acceptance   = listLifetime + 2*time.Second + 2*serverSkew
)

// apiName is the name of the API that verifies tokens.
const apiName = "API"

// The clocks of token servers and APIs can differ by 30 seconds (docs/verify.md). An operator whose clock differs from the
// API server's by more than a minute uses that one's.
const (
	serverSkew   = 15 * time.Second
	operatorSkew = 50 * time.Second
)

// apiTime returns the time of the clock of the API that verifies tokens.
func (w *world) apiTime() time.Time { return time.Now().Add(w.scope.clocks[apiName]) }

// list returns the list with a number; nil if the verifier has none that it can use.
func (v *verifier) list(w *world, number string, now time.Time) *loadedList {
	last := v.lists[number]
	if last == nil || !now.Before(last.next) {
		if loaded := v.load(w, number, now); loaded != nil && (last == nil || !loaded.issued.Before(last.issued)) {
			last = loaded
			v.lists[number] = last
		}
	}
	if last == nil || !now.Before(last.expires) {
		return nil
	}
	return last
}

func (v *verifier) load(w *world, number string, now time.Time) *loadedList {
	servers := slices.DeleteFunc(slices.Clone(w.servers), func(s *server) bool {
		return !s.answers() || s.old || s.lost && w.history.indexes.missed(s)
	})
	if len(servers) == 0 {
		return nil
	}
	v.loads++
	s := servers[v.loads%len(servers)]
	realm := s.registry.Realm(realmName)
	if realm == nil {
		return nil
	}
	list, ok := realm.StatusList(number)
	if !ok {
		return nil
	}
	loaded := &loadedList{revision: s.delivered, issued: s.confirmed().Truncate(time.Second), next: now.Add(list.TTL)}
	loaded.expires = loaded.issued.Add(listLifetime)
	loaded.bits, _ = realm.StatusEntries(list, s.now())
	if !now.Before(loaded.expires) {
		return nil
	}
	return loaded
}

// missed reports whether a server lacks a record that was written before its last contact. The beacon, which the model
// doesn't write, would tell the server.
func (h *indexHistory) missed(s *server) bool {
	return slices.ContainsFunc(h.written, func(r written) bool { return r.revision > s.delivered && r.at.Before(s.confirmed().Add(-s.ahead)) })
}

// checkVerifier checks what the API makes of all tokens. I7: it doesn't accept one for long that is revoked, and
// rejects none of a client that gets an index which nobody held when the list was built.
func (h *indexHistory) checkVerifier(w *world) {
	now := w.apiTime()
	for _, to := range h.references() {
		revoked, valid := h.known(w, to)
		if _, since := h.verifier.revoked[to]; !revoked {
			delete(h.verifier.revoked, to)
		} else if !since {
			h.verifier.revoked[to] = now
		}
		list := h.verifier.list(w, to.number, now)
		if list == nil || to.index >= list.bits.Len() {
			continue // The API accepts nothing.
		}
		invalid := list.bits.IsInvalid(to.index)
		if since, ok := h.verifier.revoked[to]; ok && !invalid && now.After(since.Add(acceptance)) {
			w.violate(fmt.Errorf("I7: an API accepts tokens of %s with index %d of list %s, although they have been revoked since %s", to.client, to.index, to.number, since.Format(time.TimeOnly)))
		}
		if invalid && valid && h.wasFree(w, to, list.revision) {
			w.violate(fmt.Errorf("I7: an API rejects tokens of %s with index %d of list %s, although nobody held the index when the list was built", to.client, to.index, to.number))
		}
	}
}

// known reports what all servers that count know of a token: that it is revoked for good, and that its entry is VALID.
func (h *indexHistory) known(w *world, to reference) (revoked, valid bool) {
	live := w.live()
	revoked, valid = len(live) > 0, len(live) > 0
	for _, s := range live {
		realm := s.registry.Realm(realmName)
		recorded, ok := h.realmAt(s.delivered)
		if realm == nil || !ok || s.old {
			return false, false
		}
		revoked = revoked && h.whyRevoked(s, realm, recorded, to) != ""
		list, served := realm.StatusList(to.number)
		if valid = valid && served; valid {
			bits, _ := realm.StatusEntries(list, s.now())
			valid = to.index < bits.Len() && !bits.IsInvalid(to.index)
		}
	}
	return revoked, valid
}

// wasFree reports whether nobody held an index at a revision at which its list was current, and not INVALID as a whole.
func (h *indexHistory) wasFree(w *world, to reference, revision int64) bool {
	realm, ok := h.realmAt(revision)
	if !ok || realm.Disabled || !realm.StatusLists.IsIssued() || realm.StatusLists.Number != numberOf(to.number) ||
		realm.StatusLists.ValidAfter.Before(realm.TokensValidAfter) || w.apiTime().Add(-listLifetime).Before(realm.TokensValidAfter) {
		return false
	}
	free := true
	for _, change := range h.changes[to.index] {
		if change.revision <= revision {
			free = !change.held
		}
	}
	return free
}

// change is a change of who holds an index.
type change struct {
	revision int64
	held     bool
}
