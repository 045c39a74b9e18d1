package realm

import (
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// statusLists returns the status lists that the realm must have now, and the time of the next change; zero
// if there is none.
//
// A list ends, and another one begins, when tokensValidAfter revokes the tokens that refer to it, and when
// an operator finds that etcd was rolled back, because the indexes that clients got since are then unknown.
// keys are the realm's, and skew allows for slow clocks.
func statusLists(spec *v1beta1.StatusList, current *record.StatusLists, keys []signingkey.Key, tokensValidAfter, rolledBackAt time.Time, skew time.Duration, now time.Time) (*record.StatusLists, time.Time) {
	var lists record.StatusLists
	if current != nil {
		lists = *current
	}
	countDown(&lists, now.Add(signingkey.LongestLifetime(keys)+2*skew).UTC(), now)
	if lists.ValidAfter.Before(tokensValidAfter) || lists.RolledBackAt.Before(rolledBackAt) {
		lists = *lists.End()
	}
	if lists.Number != 0 {
		lists.ValidAfter = tokensValidAfter // If it is earlier than it was, a later one than this must end the list.
	}
	lists.TTLSeconds = int64(spec.EffectiveTTL() / time.Second)
	switch {
	case spec.Enabled:
		issue(&lists, tokensValidAfter, rolledBackAt, now)
	case lists.Number != 0:
		lists.Ending = true
	}
	if lists.Number == 0 && len(lists.Ended) == 0 {
		return nil, time.Time{}
	}
	next := lists.EndsAt
	for _, l := range lists.Ended {
		next = timestamp.Earliest(next, l.EndsAt)
	}
	return &lists, next
}

// countDown sets when the lists to which no new token refers end, and drops those that have ended. It counts from
// a record that says so, because servers can issue such tokens until its write has succeeded.
func countDown(lists *record.StatusLists, lastExpired, now time.Time) {
	var ended []record.EndedList
	for _, l := range lists.Ended {
		if l.EndsAt.IsZero() {
			l.EndsAt = lastExpired
		}
		if now.Before(l.EndsAt) {
			ended = append(ended, l)
		}
	}
	lists.Ended = ended
	switch {
	case !lists.Ending:
	case lists.EndsAt.IsZero():
		lists.EndsAt = lastExpired
	case !now.Before(lists.EndsAt):
		*lists = record.StatusLists{Ended: ended}
	}
}

// issue makes new tokens refer to the current list, and begins one if there is none.
func issue(lists *record.StatusLists, tokensValidAfter, rolledBackAt, now time.Time) {
	if lists.Number == 0 {
		lists.Number, lists.ValidAfter, lists.RolledBackAt = nextNumber(lists, now), tokensValidAfter, rolledBackAt.UTC()
	}
	lists.Ending, lists.EndsAt = false, time.Time{}
}

// nextNumber returns a number that no list of the realm has had, even if the records were rolled back.
func nextNumber(lists *record.StatusLists, now time.Time) int64 {
	number := now.Unix()
	for _, l := range lists.Ended {
		number = max(number, l.Number+1)
	}
	return number
}

// statusListURI returns the URL of the realm's current list; empty if there is none.
func statusListURI(issuer string, lists *record.StatusLists) string {
	if lists == nil || lists.Number == 0 {
		return ""
	}
	return oauth.StatusListURI(issuer, lists.Number)
}
