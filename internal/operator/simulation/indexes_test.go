package simulation

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// retirement is longer than an index stays retired.
const retirement = 13 * time.Minute

// fewIndexes is a source of random numbers that makes clients choose from few indexes, which are 4 bytes
// each. Nothing else reads 4 bytes.
type fewIndexes struct{ random io.Reader }

func (f fewIndexes) Read(p []byte) (int, error) {
	n, err := f.random.Read(p)
	if len(p) == 4 {
		p[0], p[1], p[2], p[3] = 0, 0, 0, p[3]&15
	}
	return n, err
}

// indexHistory is the history of status lists and their indexes: which tokens servers could issue, and who
// has held which index.
type indexHistory struct {
	tokens map[reference][]issued // in the order in which they were issued
	held   map[int]holder         // the present holders of indexes
	has    map[string]holder      // the indexes in the present records of clients, by record
	serial map[string]int64       // by version of a client's record: that of its index
	gone   map[types.UID]int64    // the revision at which the record of a client was deleted
	realms map[int64]record.Realm // by revision
	began  map[string]int64       // by number: the revision at which the list began
	number int64                  // the greatest of a list
	ends   map[int64]struct{}     // the numbers of lists that a restore or a rollback has ended
	lost   map[string]bool        // the numbers of lists from before a rollback
	// changed is the revision of the latest record, written says when records were written, and fresh is when a server
	// last had all records.
	changed int64
	written []written
	fresh   map[*server]time.Time
	total   int // tokens
	// changes are those of who holds an index.
	changes  map[int][]change
	verifier verifier
}

// reference is to what tokens refer.
type reference struct {
	number, client string
	index          int
	uid            types.UID
	serial         int64
}

// issued is when a token was issued, and when it expires, in seconds, and the revision of the records that the server had.
type issued struct{ at, expires, revision int64 }

// written is when a record was written.
type written struct {
	revision int64
	at       time.Time
}

// holder is who holds an index.
type holder struct {
	index  int
	uid    types.UID
	serial int64
	// retired means that the client has given it up for good.
	retired bool
}

func newIndexHistory() *indexHistory {
	return &indexHistory{
		tokens: map[reference][]issued{}, held: map[int]holder{}, has: map[string]holder{}, serial: map[string]int64{}, gone: map[types.UID]int64{},
		realms: map[int64]record.Realm{}, began: map[string]int64{}, ends: map[int64]struct{}{}, lost: map[string]bool{}, fresh: map[*server]time.Time{},
		changes: map[int][]change{}, verifier: verifier{lists: map[string]*loadedList{}, revoked: map[reference]time.Time{}},
	}
}

// indexEvent records who holds an index.
func (h *indexHistory) indexEvent(secret *corev1.Secret, revision int64, deleted bool) {
	body, err := record.ReadIndex(secret)
	must(err)
	h.changes[body.Index] = append(h.changes[body.Index], change{revision, !deleted})
	if delete(h.held, body.Index); !deleted {
		h.held[body.Index] = holder{body.Index, body.UID, body.Serial, !body.RetiredAt.IsZero()}
	}
}

// clientEvent checks the index in the record of a client. I1: no other record has it, and the client holds
// it. A late POST can create the record of a deleted client again, which has given the index up but still holds it.
func (h *indexHistory) clientEvent(w *world, secret *corev1.Secret, c *record.Client, revision int64, deleted, exists bool) {
	delete(h.has, secret.Name)
	if deleted {
		h.gone[c.UID] = revision
		return
	}
	delete(h.gone, c.UID)
	if c.StatusIndex == nil {
		return
	}
	index := c.StatusIndex.Index
	for _, other := range h.has {
		if other.index == index {
			w.violate(fmt.Errorf("I1: the records of %s and %s have index %d", other.uid, c.UID, index))
		}
	}
	held := h.held[index]
	if held.uid != c.UID || held.retired && exists {
		w.violate(fmt.Errorf("I1: the record of %s has index %d, which %q holds, retired: %t", c.Name, index, held.uid, held.retired))
	}
	h.has[secret.Name] = holder{index, c.UID, held.serial, false}
	h.serial[secret.ResourceVersion] = held.serial
}

// realmEvent checks the number of the current list. I5: a list begins with a number that no list has had.
func (h *indexHistory) realmEvent(w *world, r record.Realm, revision int64) {
	h.realms[revision] = r
	if r.StatusLists == nil || r.StatusLists.Number == 0 {
		return
	}
	number := r.StatusLists.Number
	if _, ended := h.ends[number]; ended {
		return // An operator can't know yet that it must end.
	}
	if number < h.number && len(h.lost) == 0 {
		w.violate(fmt.Errorf("I5: list %d follows list %d", number, h.number))
	}
	if number != h.number {
		h.began[strconv.FormatInt(number, 10)] = revision
	}
	h.number = number
}

var numberInURI = regexp.MustCompile(`/status/([0-9]+)"`)

// check checks all tokens and lists in the present state.
func (h *indexHistory) check(w *world) {
	h.issue(w)
	h.expire(w)
	for _, to := range h.references() {
		if now := h.held[to.index]; !h.lost[to.number] && (now.uid != to.uid || now.serial != to.serial) {
			w.violate(fmt.Errorf("I2: tokens of %s with serial %d refer to index %d, which %q holds with serial %d", to.uid, to.serial, to.index, now.uid, now.serial))
		}
	}
	for _, s := range w.live() {
		if realm := s.registry.Realm(realmName); realm != nil {
			h.checkServer(w, s, realm)
		}
	}
	h.checkVerifier(w)
	h.checkRollback(w)
}

func (h *indexHistory) references() []reference {
	all := make([]reference, 0, len(h.tokens))
	for to := range h.tokens {
		all = append(all, to)
	}
	slices.SortFunc(all, func(a, b reference) int { return int(h.tokens[a][0].at - h.tokens[b][0].at) })
	return all
}

// issue records which tokens the servers can issue now. A server that hasn't loaded a change for longer than
// signingkey.Skew doesn't count, because the operator goes on without it.
func (h *indexHistory) issue(w *world) {
	for _, s := range w.live() {
		now := s.now()
		if !s.old && s.delivered >= h.changed {
			h.fresh[s] = time.Now()
		}
		realm := s.registry.Realm(realmName)
		if realm == nil || realm.Disabled || realm.Signer() == nil || time.Since(h.fresh[s]) > signingkey.Skew {
			continue
		}
		for _, name := range clientNames {
			c := realm.Client(team + "." + name)
			if c == nil || !c.Usable(now) || getsRevoked(s, realm, c) {
				continue
			}
			status := realm.StatusClaim(c)
			number := numberInURI.FindStringSubmatch(status.Prefix)
			if number == nil {
				continue
			}
			to := reference{number[1], c.ID, status.Index, types.UID(c.UID), h.serial[c.Version]}
			if before := h.tokens[to]; len(before) == 0 || before[len(before)-1].at < now.Unix() {
				h.tokens[to] = append(before, issued{now.Unix(), now.Add(lifetimeOf(realm, c)).Unix(), s.delivered})
				h.total++
			}
		}
	}
}

// lifetimeOf returns the lifetime of the tokens that a client gets now.
func lifetimeOf(realm *registry.Realm, c *registry.Client) time.Duration {
	if c.TokenLifetime > 0 {
		return min(realm.TokenLifetime, c.TokenLifetime)
	}
	return realm.TokenLifetime
}

func (h *indexHistory) expire(w *world) {
	for to, tokens := range h.tokens {
		tokens = slices.DeleteFunc(tokens, func(token issued) bool { return token.expires <= w.apiTime().Unix() })
		if h.tokens[to] = tokens; len(tokens) == 0 {
			delete(h.tokens, to)
		}
	}
}

// checkServer checks the lists of a server.
func (h *indexHistory) checkServer(w *world, s *server, realm *registry.Realm) {
	now := s.now()
	recorded, ok := h.realmAt(s.delivered)
	if !ok || s.old {
		return
	}
	lists := map[string]statuslist.Bits{}
	entries := func(number string) statuslist.Bits {
		if bits, ok := lists[number]; ok {
			return bits
		}
		if list, ok := realm.StatusList(number); ok {
			lists[number], _ = realm.StatusEntries(list, now)
		} else {
			lists[number] = nil
		}
		return lists[number]
	}
	for _, to := range h.references() {
		bits := entries(to.number)
		switch {
		case bits == nil:
			h.checkMissing(w, s, recorded, to)
		case to.index < bits.Len() && !bits.IsInvalid(to.index):
			h.checkValid(w, s, realm, recorded, to)
		}
	}
	used := map[int]string{}
	for _, name := range clientNames {
		c := realm.Client(team + "." + name)
		if c == nil || !c.Usable(now) || c.StatusIndex == nil {
			continue
		}
		index := c.StatusIndex.Index
		if other := used[index]; other != "" {
			w.violate(fmt.Errorf("I1: at %s, %s and %s have index %d", s.name, other, name, index))
		}
		used[index] = name
		current := recorded.StatusLists
		if realm.Disabled || !current.IsIssued() || current.ValidAfter.Before(recorded.TokensValidAfter) || c.StatusIndex.ValidAfter.Before(c.TokensValidAfter) || getsRevoked(s, realm, c) {
			continue
		}
		if bits := entries(strconv.FormatInt(current.Number, 10)); bits == nil || index >= bits.Len() || bits.IsInvalid(index) {
			w.violate(fmt.Errorf("I4: at %s, %s gets tokens with index %d, which is not VALID", s.name, name, index))
		}
	}
}

// getsRevoked reports whether tokens that a client gets now would be revoked, so that a server with lists refuses
// them.
func getsRevoked(s *server, realm *registry.Realm, c *registry.Client) bool {
	return s.now().Truncate(time.Second).Before(realm.StatusFrom(c))
}

// realmAt returns the record of the Realm at the revision that a server has. It is unknown while the server has only
// the records that the previous process saved.
func (h *indexHistory) realmAt(delivered int64) (latest record.Realm, ok bool) {
	if delivered == 0 {
		return latest, false
	}
	at := int64(-1)
	for revision, r := range h.realms {
		if revision <= delivered && revision > at {
			at, latest, ok = revision, r, true
		}
	}
	return latest, ok
}

// checkMissing checks a token whose list a server doesn't serve. If it has had the list, the list is served
// until the last token has expired, unless too many lists have ended.
func (h *indexHistory) checkMissing(w *world, s *server, recorded record.Realm, to reference) {
	began, known := h.began[to.number]
	if !known || h.lost[to.number] || began > s.delivered || recorded.StatusLists != nil && len(recorded.StatusLists.Ended) == record.MaxEndedLists {
		return
	}
	w.violate(fmt.Errorf("I6: %s does not serve list %s, to which tokens of %s refer", s.name, to.number, to.client))
}

// checkValid checks the tokens whose index is VALID at a server. I3: the server accepts them, apart from what
// isn't permanent.
func (h *indexHistory) checkValid(w *world, s *server, realm *registry.Realm, recorded record.Realm, to reference) {
	why := h.whyRevoked(s, realm, recorded, to)
	if why == "" {
		return
	}
	w.violate(fmt.Errorf("I3: at %s, index %d of list %s is VALID, although %s: %s", s.name, to.index, to.number, why, to.uid))
}

// whyRevoked returns why a server knows that the tokens are revoked for good; empty if it doesn't.
func (h *indexHistory) whyRevoked(s *server, realm *registry.Realm, recorded record.Realm, to reference) string {
	c := realm.Client(to.client)
	if h.lost[to.number] {
		if recorded.StatusLists != nil && recorded.StatusLists.Number != numberOf(to.number) {
			return "the API server was rolled back"
		}
		return "" // The server can't know it yet.
	}
	gone, isGone := h.gone[to.uid]
	// A token that was issued with later records, by a slow clock, isn't revoked if a user has set an earlier time since.
	revokedBy := func(from time.Time) bool {
		return slices.ContainsFunc(h.tokens[to], func(token issued) bool { return token.revision <= s.delivered && time.Unix(token.at, 0).Before(from) })
	}
	switch {
	case c == nil || c.UID != string(to.uid):
		if isGone && gone <= s.delivered {
			return "the client is deleted"
		}
	case revokedBy(c.TokensValidAfter):
		return "the client's tokens are revoked"
	case revokedBy(recorded.TokensValidAfter):
		return "the realm's tokens are revoked"
	}
	return ""
}

// checkSettled checks the lists after all faults have ended: every client that can get tokens has an index, and
// it is VALID.
func (h *indexHistory) checkSettled(w *world) {
	realm, err := w.api.store.Get(realmResource, types.NamespacedName{Name: realmName})
	must(err)
	enabled, _, _ := unstructured.NestedBool(realm.Object, "spec", "statusList", "enabled")
	for _, s := range w.live() {
		realm := s.registry.Realm(realmName)
		for _, name := range clientNames {
			c := realm.Client(team + "." + name)
			if realm.Disabled || c == nil || !c.Usable(s.now()) || getsRevoked(s, realm, c) {
				continue
			}
			status := realm.StatusClaim(c)
			if enabled != (status.Prefix != "") {
				w.violate(fmt.Errorf("I4: the tokens that %s issues for %s refer to a list: %t, want %t", s.name, name, !enabled, enabled))
				return
			}
			if !enabled {
				continue
			}
			number := numberInURI.FindStringSubmatch(status.Prefix)[1]
			if _, ended := h.ends[numberOf(number)]; ended {
				w.violate(fmt.Errorf("I5: the tokens of %s refer to list %s, which a restore has ended", name, number))
			}
			list, _ := realm.StatusList(number)
			if bits, _ := realm.StatusEntries(list, s.now()); bits.IsInvalid(status.Index) {
				w.violate(fmt.Errorf("I4: at %s, index %d of %s is INVALID", s.name, status.Index, name))
			}
		}
	}
}

func numberOf(list string) int64 {
	number, err := strconv.ParseInt(list, 10, 64)
	must(err)
	return number
}

// clientNames are the names of all ApiClients.
var clientNames = []string{"billing", "orders"}

// setLists enables or disables the status lists of the Realm.
func (w *world) setLists(enabled bool) {
	w.change(realmResource, types.NamespacedName{Name: realmName}, enabled, "spec", "statusList", "enabled")
}

// revokeTokens revokes the tokens of a client that were issued before a time.
func (w *world) revokeTokens(name string, at time.Time) {
	w.revoke(clientResource, types.NamespacedName{Namespace: team, Name: name}, at)
}

// revokeRealmTokens revokes all tokens that were issued before a time.
func (w *world) revokeRealmTokens(at time.Time) {
	w.revoke(realmResource, types.NamespacedName{Name: realmName}, at)
}

func (w *world) revoke(gvr schema.GroupVersionResource, key types.NamespacedName, at time.Time) {
	w.change(gvr, key, at.UTC().Format(time.RFC3339), "spec", "tokensValidAfterTime")
}

// lowerTime sets an earlier tokensValidAfterTime, or none.
func (w *world) lowerTime(gvr schema.GroupVersionResource, key types.NamespacedName, by time.Duration) {
	live, err := w.api.store.Get(gvr, key)
	must(err)
	text, _, _ := unstructured.NestedString(live.Object, "spec", "tokensValidAfterTime")
	if at, err := time.Parse(time.RFC3339, text); err == nil && by > 0 {
		w.revoke(gvr, key, at.Add(-by))
	} else {
		w.change(gvr, key, nil, "spec", "tokensValidAfterTime")
	}
}

// setLifetime sets the lifetime of the tokens of the Realm.
func (w *world) setLifetime(lifetime time.Duration) {
	w.change(realmResource, types.NamespacedName{Name: realmName}, lifetime.String(), "spec", "tokenLifetime")
}

// restoreRealm changes the Realm's record as a restore from a backup does, which waits until no operator leads.
func (w *world) restoreRealm() { w.restartOperators(w.restoreRealmRecord) }

func (w *world) restoreRealmRecord() {
	w.rewriteRecords(record.KindRealm, func(secret *corev1.Secret) *corev1ac.SecretApplyConfiguration {
		body, err := record.ReadRealm(secret)
		must(err)
		w.history.indexes.end(body.StatusLists)
		body.Basis = record.Basis{}
		body.StatusLists = body.StatusLists.End()
		realm := &v1beta1.Realm{}
		realm.Name, realm.UID = realmName, record.RealmUID(secret)
		applied, err := recordsecret.ForRealm(recordsNamespace, realm, body)
		must(err)
		return applied
	})
}

// waitsForIndex reports whether a client gets no tokens because it has no index.
func (w *world) waitsForIndex(name string) bool {
	return exists(name)(w) && w.readyReason(name) == string(v1beta1.ReasonStatusIndexUnavailable)
}

// end records that a restore or a rollback ends the current list.
func (h *indexHistory) end(lists *record.StatusLists) {
	if lists != nil && lists.Number != 0 {
		h.ends[lists.Number] = struct{}{}
	}
}

func setsLifetime(lifetime time.Duration) action {
	return action{name: fmt.Sprintf("a user sets the token lifetime of the Realm to %s", lifetime), times: 1, do: func(w *world) { w.setLifetime(lifetime) }}
}

func removesTime(name string) action {
	return action{name: "a user removes the time of " + name, times: 1, possible: exists(name), do: func(w *world) {
		w.lowerTime(clientResource, types.NamespacedName{Namespace: team, Name: name}, 0)
	}}
}

var lowersRealmTime = action{name: "a user lowers the time of the Realm", times: 1, do: func(w *world) {
	w.lowerTime(realmResource, types.NamespacedName{Name: realmName}, time.Minute)
}}

func revokesTokens(name string) action {
	return action{name: "a user revokes the tokens of " + name, times: 2, possible: exists(name), do: func(w *world) { w.revokeTokens(name, time.Now()) }}
}

// revokesLater revokes the tokens of a client in the future.
func revokesLater(name string) action {
	return action{name: "a user will revoke the tokens of " + name, times: 1, possible: exists(name), do: func(w *world) { w.revokeTokens(name, time.Now().Add(20*time.Second)) }}
}

var revokesRealmTokens = action{name: "a user revokes the tokens of the Realm", times: 1, do: func(w *world) { w.revokeRealmTokens(time.Now()) }}

func setsLists(enabled bool) action {
	return action{name: fmt.Sprintf("a user sets statusList.enabled to %t", enabled), times: 1, do: func(w *world) { w.setLists(enabled) }}
}

var restoresRealm = action{name: "a restore changes the record of the Realm", times: 1, do: (*world).restoreRealm}
