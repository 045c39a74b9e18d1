package simulation

import (
	"testing"
	"time"
)

// Each finding has a search with just the choices that it needs, so that it is fast, and from then on shows
// that the finding doesn't return. Some are of faults that were only tried.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*testing.T) state
		scope scope
		depth int
	}{
		// A delivery that is in flight when its sender dies lands after the next leader has dropped its
		// verifier.
		"F1": {settled, scope{
			lags: nothing, held: writes("secrets", team, "operator 1", "operator 2"),
			actions: []action{rotates("billing"), moves},
		}, 5},
		// A read with resource version 0 doesn't show the credentials Secret that was just created, so the
		// operator generates another secret.
		"F2": {realmOnly, scope{
			lags: watches("operator 1", "credentials"), held: writes("secrets", team, "operator 1"),
			actions: []action{creates("billing"), stops},
		}, 4},
		// Two operators that lead at the same time replace each other's pending secret, without end.
		"F3": {settled, scope{
			lags: nothing, held: noRequest,
			actions: []action{leadsToo, rotates("billing")},
		}, 2},
		// A new leader whose cache of ApiClients lags undoes a suspension.
		"F5": {settled, scope{
			lags: watches("operator 2", "ApiClients"), held: noRequest,
			actions: []action{suspends("billing"), resumes("billing"), moves},
		}, 4},
		// An operator that is paused between its reads decides from an ApiClient that is older than the record
		// that it reads next, and undoes what another operator has done in the meantime.
		"F5 between reads": {suspended, scope{
			lags: watches("operator 1", "ApiClients"),
			held: func(r *request) bool {
				return r.from.name == "operator 1" && r.reads() && r.resource == secretResource && r.name.Namespace == recordsNamespace
			},
			actions: []action{leadsToo, suspends("billing"), resumes("billing")},
		}, 5},
		// An operator whose cache still has a deleted client creates its record again and again.
		"deleted client": {realmOnly, scope{
			lags: watches("operator 1", "ApiClients"), held: noRequest,
			actions: []action{creates("billing"), deletes("billing")},
		}, 3},
		// An operator whose caches have an old record reports a client as Ready, although a token server has
		// not loaded its new secret.
		"Ready from an old record": {settled, scope{
			lags: func(s *stream) bool {
				return s.owner.name == "operator 2" && s.what != "ApiClients" || s.owner.name == "server 1"
			},
			held:    noRequest,
			actions: []action{leadsToo, revokes("billing")},
		}, 3},
		// A token server signs with a realm's first key before another one publishes it.
		"F11": {empty, scope{
			lags: watches("server 2", "records"), held: noRequest,
			actions: []action{createsRealm, moves},
		}, 4},
		// A token server acknowledges a record that it can't read.
		"F12": {settled, scope{
			lags: nothing, held: noRequest,
			actions: []action{ages, rotates("billing")},
		}, 2},
		// The same with signing keys: the operator signs with a key that the server doesn't publish.
		"F12 with keys": {realmOnly, scope{
			lags: nothing, held: noRequest,
			actions: []action{ages, rotatesKey, passes(2*tokenLifetime, 1)},
		}, 3},
		// After an outage, the new leader forgets a server that hasn't renewed its Lease yet.
		"F13": {settled, scope{
			lags: watches("server 2", "records"), held: writes("leases", recordsNamespace, "server 2"),
			actions: []action{outage, passes(5*time.Second, 2), rotates("billing")},
		}, 5},
		// A token server is ready before the operator knows that it exists.
		"F14": {settled, scope{
			lags: watches("server 3", "records"), held: writes("leases", recordsNamespace, "server 3"),
			actions: []action{joins, rotates("billing")},
		}, 3},
		// The next step after a lower tokensValidAfterTime revokes nothing, although tokens were issued in between.
		"lower time": {revokedLater, scope{
			lags: nothing, held: noRequest,
			actions: []action{removesTime("billing"), once(revokesTokens("billing")), passes(5*time.Second, 1)},
		}, 3},
		// A shorter lifetime releases an index while older tokens refer to it.
		"shorter lifetime": {longLived, scope{
			lags: nothing, held: noRequest,
			actions: []action{setsLifetime(shortLifetime), once(revokesTokens("billing")), passes(retirement, 1)},
		}, 3},
		// A client that releases its client ID gives its index up while its tokens are valid.
		"released client ID": {settled, scope{
			lags: nothing, held: noRequest,
			actions: []action{releases("billing"), claims("orders"), passes(retirement, 1)},
		}, 3},
		// A client whose record is lost gets an index again that is retired.
		"lost record": {settled, scope{
			lags: nothing, held: noRequest,
			actions: []action{losesRecord("billing"), revokesTokens("billing"), removesTime("billing")},
		}, 3},
		// A token server with the previous program counts as one that serves a record whose restriction it doesn't
		// know.
		"previous program": {settled, scope{
			lags: nothing, held: noRequest,
			actions: []action{joinsPrevious, restricts("billing"), suspends("billing"), resumes("billing")},
		}, 4},
		// After a rollback, a client gets an index to which tokens of a client refer that is lost.
		"rollback": {settled, scope{
			lags: nothing, held: noRequest,
			actions: []action{creates("orders"), passes(61*time.Second, 2), rollsBack},
		}, 4},
		// An operator whose clock is ahead releases an index that one whose clock is behind has retired.
		"clocks": {settled, scope{
			lags: nothing, held: noRequest, clocks: differentClocks,
			actions: []action{once(revokesTokens("billing")), moves, passes(retirement, 1)},
		}, 3},
		// An operator retires an index that another one has just created, and whose client's record is in flight.
		"new index": {settled, scope{
			lags: watches("operator 2", "ApiClients"), held: writes("secrets", recordsNamespace, "operator 1"),
			actions: []action{once(revokesTokens("billing")), leadsToo},
		}, 4},
		// An index becomes obsolete in the first step of a reconcile, and is released in the second one.
		"index in two steps": {settled, scope{
			lags: func(s *stream) bool {
				return s.owner.name == "operator 1" && (s.what == "ApiClients" || s.what == "credentials")
			}, held: noRequest,
			actions: []action{revokes("billing"), revokesTokens("billing")},
		}, 3},
		// An operator whose cache lacks the records of a new client gives it the index again that it holds.
		"own index": {realmOnly, scope{
			lags: func(s *stream) bool {
				return s.owner.name == "operator 1" && (s.what == "records" || s.what == "credentials")
			}, held: noRequest,
			actions: []action{creates("orders"), creates("billing"), revokesLater("orders"), revokesLater("billing")},
		}, 4},
		// An operator whose caches are older than the client's secret deletes the Secret with it.
		"obsolete Secret": {withoutSecret, scope{
			lags: func(s *stream) bool {
				return s.owner.name == "operator 2" && (s.what == "ApiClients" || s.what == "records")
			}, held: noRequest,
			actions: []action{leadsToo, givesSecret("billing")},
		}, 3},
		// An operator computes the status from an old record, although it has written a newer one.
		"F15": {settled, scope{
			lags: watches("operator 1", "records"), held: noRequest,
			actions: []action{suspends("billing"), resumes("billing")},
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &search{start: c.start(t), scope: c.scope, depth: c.depth}
			found := s.find(t)
			t.Logf("%d runs", s.runs)
			if found != nil {
				t.Fatal(found)
			}
			for _, a := range c.scope.actions {
				if s.taken[a.name] == 0 {
					t.Errorf("no run contains %q, so the search does not show that the finding is repaired", a.name)
				}
			}
		})
	}
}
