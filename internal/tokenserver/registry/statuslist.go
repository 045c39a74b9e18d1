package registry

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Index is an index in the status lists of a realm that a client holds or held.
type Index struct {
	Record   string // name of the record
	RealmUID string
	Index    int
}

// indexes are the held indexes of a realm. They are safe for concurrent use.
type indexes struct {
	// changes counts changes of what the realm's status lists depend on, apart from the realm itself.
	changes atomic.Uint64

	mu   sync.Mutex
	held statuslist.Bits // Held indexes are INVALID; StatusEntries makes those of usable clients VALID.
}

func (x *indexes) add(index int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = x.held.Containing(index)
	x.held.SetInvalid(index)
	x.changes.Add(1)
}

func (x *indexes) remove(index int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if index < x.held.Len() {
		x.held.SetValid(index)
		x.changes.Add(1)
	}
}

// replace replaces all held indexes at once, so that no list lacks one.
func (x *indexes) replace(held statuslist.Bits) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = held
	x.changes.Add(1)
}

// any reports whether any index is held.
func (x *indexes) any() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.held, func(b byte) bool { return b != 0 })
}

func (x *indexes) copy() statuslist.Bits {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append(statuslist.Bits(nil), x.held...)
}

// StatusClaim returns what the claim "status" of a client's tokens refers to; zero if they have none.
func (r *Realm) StatusClaim(client *Client) token.Status {
	if client.StatusIndex == nil {
		return token.Status{}
	}
	return token.Status{Prefix: r.statusPrefix, Index: client.StatusIndex.Index}
}

// statusPrefix returns the claim "status" up to the index; empty if tokens don't have it.
func statusPrefix(issuer string, lists *record.StatusLists) string {
	if !lists.IsIssued() {
		return ""
	}
	return token.StatusPrefix(oauth.StatusListURI(issuer, lists.Number))
}

// StatusList describes a served status list of a realm.
type StatusList struct {
	Number string // as in URI
	URI    string
	TTL    time.Duration
	// allInvalid means that all entries are INVALID: the list has ended, or the realm is suspended, or its
	// tokens are revoked.
	allInvalid bool
}

// StatusList returns the served list with the given number, as in a URL. ok is false if there is none.
func (r *Realm) StatusList(number string) (list StatusList, ok bool) {
	lists := r.StatusLists
	if lists == nil {
		return StatusList{}, false
	}
	list.TTL = time.Duration(lists.TTLSeconds) * time.Second
	list.Number, list.URI = number, r.Issuer+oauth.StatusListPath+number
	if lists.Number != 0 && number == strconv.FormatInt(lists.Number, 10) {
		list.allInvalid = r.Disabled || lists.ValidAfter.Before(r.TokensValidAfter)
		return list, true
	}
	for _, ended := range lists.Ended {
		if number == strconv.FormatInt(ended.Number, 10) {
			list.allInvalid = true
			return list, true
		}
	}
	return StatusList{}, false
}

// StatusChanges returns a number that changes with what a list depends on, apart from the realm itself and
// the time.
func (r *Realm) StatusChanges(list StatusList) uint64 {
	if list.allInvalid {
		return 0
	}
	return r.tables.indexes.changes.Load()
}

// StatusEntries returns the entries of a list, and when they change next without a change of a record. If that
// isn't later than now, they don't.
//
// A held index is INVALID unless its client can be used and has it for tokens that it gets now. A free index
// is VALID: no valid token refers to it, and lists don't show how many clients there are. If a user deleted the
// record of an index, two clients can have it. It is then INVALID if it is for one of them.
func (r *Realm) StatusEntries(list StatusList, now time.Time) (entries statuslist.Bits, next time.Time) {
	entries = r.tables.indexes.copy()
	if revokedUntil := r.TokensValidAfter; list.allInvalid || now.Before(revokedUntil) {
		entries.SetAllInvalid()
		return entries, revokedUntil
	}
	var invalid []int
	r.tables.clients.Range(func(_ string, c *Client) bool {
		if c.StatusIndex == nil {
			return true
		}
		entries = entries.Containing(c.StatusIndex.Index)
		if c.hasValidStatus(now) {
			entries.SetValid(c.StatusIndex.Index)
		} else {
			invalid = append(invalid, c.StatusIndex.Index)
		}
		next = timestamp.Next(now, next, c.ExpiresAt, c.TokensValidAfter)
		return true
	})
	for _, index := range invalid {
		entries.SetInvalid(index)
	}
	return entries, next
}

// hasValidStatus reports whether tokens with the client's index are valid at the given time.
func (c *Client) hasValidStatus(now time.Time) bool {
	return c.Usable(now) && !c.StatusIndex.ValidAfter.Before(c.TokensValidAfter) && !now.Before(c.TokensValidAfter)
}

// StatusFrom returns the time from which on tokens that the client gets now are VALID in the current list;
// zero if they don't refer to one.
func (r *Realm) StatusFrom(client *Client) time.Time {
	switch {
	case r.StatusClaim(client).Prefix == "":
		return time.Time{}
	case r.TokensValidAfter.After(client.TokensValidAfter):
		return r.TokensValidAfter
	}
	return client.TokensValidAfter
}
