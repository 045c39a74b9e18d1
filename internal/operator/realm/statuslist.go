package realm

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// statusLists returns the status lists that the realm must have now, and the time of the next change; zero
// if there is none.
//
// A list ends, and another one begins, when tokensValidAfter revokes the tokens that refer to it, and if it
// began before etcd was rolled back at rolledBack, because the indexes that clients got since are then
// unknown. keys are the realm's, and skew allows for slow clocks.
func statusLists(spec *v1beta1.StatusList, current *record.StatusLists, keys []signingkey.Key, tokensValidAfter, rolledBack time.Time, skew time.Duration, now time.Time) (*record.StatusLists, time.Time) {
	var lists record.StatusLists
	if current != nil {
		lists = *current
	}
	lastExpired := roundUp(now.Add(signingkey.LongestLifetime(keys) + 2*skew))
	revoked := !tokensValidAfter.After(now) && lists.ValidAfter.Before(tokensValidAfter)
	if revoked || !rolledBack.IsZero() && lists.Number <= rolledBack.Unix() {
		lists = *lists.End(lastExpired)
	}
	lists.TTLSeconds = int64(spec.EffectiveTTL() / time.Second)
	lists.Ended = slices.DeleteFunc(slices.Clone(lists.Ended), func(l record.EndedList) bool { return !now.Before(l.EndsAt) })
	if spec.Enabled {
		issue(&lists, tokensValidAfter, rolledBack, now)
	} else {
		phaseOut(&lists, lastExpired, now)
	}
	if lists.Number == 0 && len(lists.Ended) == 0 {
		return nil, time.Time{}
	}
	next := lists.EndsAt
	for _, l := range lists.Ended {
		next = earlier(next, l.EndsAt)
	}
	if tokensValidAfter.After(now) {
		next = earlier(next, tokensValidAfter)
	}
	return &lists, next
}

// issue makes new tokens refer to the current list, and begins one if there is none.
func issue(lists *record.StatusLists, tokensValidAfter, rolledBack, now time.Time) {
	if lists.Number == 0 {
		lists.Number, lists.ValidAfter = nextNumber(lists, rolledBack, now), past(tokensValidAfter, now)
	}
	lists.EndsAt = time.Time{}
}

// phaseOut keeps the current list until the last token that refers to it has expired.
func phaseOut(lists *record.StatusLists, lastExpired, now time.Time) {
	switch {
	case lists.Number == 0:
	case lists.EndsAt.IsZero():
		lists.EndsAt = lastExpired
	case !now.Before(lists.EndsAt):
		lists.Number, lists.ValidAfter, lists.EndsAt = 0, time.Time{}, time.Time{}
	}
}

// nextNumber returns a number that no list of the realm has had. It is later than the rollback, even if that
// was in the same second, or another operator with a fast clock found it.
func nextNumber(lists *record.StatusLists, rolledBack, now time.Time) int64 {
	number := max(now.Unix(), rolledBack.Unix()) + 1
	for _, l := range lists.Ended {
		number = max(number, l.Number+1)
	}
	return number
}

// past returns t, or zero if it is in the future.
func past(t, now time.Time) time.Time {
	if t.After(now) {
		return time.Time{}
	}
	return t
}

// earlier returns the earlier of two times. Zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func roundUp(t time.Time) time.Time {
	return t.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second)
}

// statusListURI returns the URL of the realm's current list; empty if there is none.
func statusListURI(issuer string, lists *record.StatusLists) string {
	if lists == nil || lists.Number == 0 {
		return ""
	}
	return oauth.StatusListURI(issuer, lists.Number)
}
