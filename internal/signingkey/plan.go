package signingkey

import (
	"cmp"
	"io"
	"slices"
	"time"
)

// Plan returns the keys that a realm has from now on, oldest first, and when the plan
// is to be made again; zero when nothing is to come, or only once Acknowledge has something to note.
// Planning twice changes nothing.
//
// A realm's first key is Active at once. After that each key is published as Pending
// first, and becomes Active when every live token server has published it for PublishAhead.
// Its predecessor is Retiring then, until the longest token that it can have signed has
// expired, and Skew after that. A successor is made so early that a key signs for
// RotationInterval; sooner when its algorithm is not the policy's, or RotateAfter has
// passed and the key is older.
//
// Whatever was missed is made up for in this order: no key is Active that was not
// published, however late the plan is made. A key never returns to an earlier state, also
// when now does.
//
// The error is that of making a key.
func Plan(now time.Time, keys []Key, policy Policy, random io.Reader) ([]Key, time.Time, error) {
	now = now.UTC().Truncate(time.Second) // as precise as the API keeps times
	policy.RotateAfter = roundUp(policy.RotateAfter)
	keys = slices.Clone(keys)
	keys = slices.DeleteFunc(keys, func(k Key) bool {
		return policy.unwanted(&k, now) || due(policy.RemoveAt(&k), now)
	})

	if successor := find(keys, func(k *Key) bool { return due(policy.SignsAt(k), now) }); successor != nil {
		activate(keys, successor, now)
	}
	active := find(keys, func(k *Key) bool { return k.State == Active })
	pending := find(keys, func(k *Key) bool { return k.State == Pending })
	if active == nil || pending == nil && !now.Before(policy.succeededAt(active)) && len(keys) < MaxKeys {
		made, err := Generate(policy.Algorithm, now, random)
		if err != nil {
			return nil, time.Time{}, err
		}
		keys = append(keys, made)
		if active == nil {
			activate(keys, &keys[len(keys)-1], now)
		}
	}

	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	active = find(keys, func(k *Key) bool { return k.State == Active })
	active.LongestLifetime = max(active.LongestLifetime, policy.TokenLifetime)
	return keys, nextPlan(now, keys, policy), nil
}

// Acknowledge returns the keys with what follows from it that every live token server
// serves them in just these states: since now the Pending ones are published, and the Retiring ones
// have made their last signature. What is known already stays.
func Acknowledge(now time.Time, keys []Key) []Key {
	now = roundUp(now.UTC()) // never too soon
	keys = slices.Clone(keys)
	for i := range keys {
		switch k := &keys[i]; {
		case k.State == Pending && k.PublishedAt.IsZero():
			k.PublishedAt = now
		case k.State == Retiring && k.RetiredAt.IsZero():
			k.RetiredAt = now
		}
	}
	return keys
}

// NextRotation returns when another key signs than now, if all goes well: what waits for
// token servers is taken as acknowledged when it was made.
func NextRotation(keys []Key, policy Policy) time.Time {
	policy.RotateAfter = roundUp(policy.RotateAfter)
	if pending := find(keys, func(k *Key) bool { return k.State == Pending }); pending != nil {
		if pending.PublishedAt.IsZero() {
			return pending.CreatedAt.Add(policy.PublishAhead)
		}
		return policy.SignsAt(pending)
	}
	active := find(keys, func(k *Key) bool { return k.State == Active })
	if active == nil {
		return time.Time{}
	}
	made := policy.succeededAt(active)
	if made.Before(active.ActiveAt) {
		made = active.ActiveAt
	}
	return made.Add(policy.PublishAhead)
}

// ActiveID returns the id of the key that signs; empty where there is none.
func ActiveID(keys []Key) string {
	if active := find(keys, func(k *Key) bool { return k.State == Active }); active != nil {
		return active.ID
	}
	return ""
}

// activate makes next the one key that signs.
func activate(keys []Key, next *Key, now time.Time) {
	for i := range keys {
		if keys[i].State == Active {
			keys[i].State = Retiring
		}
	}
	next.State, next.ActiveAt = Active, now
}

// nextPlan is the earliest moment after now at which Plan has something to do.
func nextPlan(now time.Time, keys []Key, policy Policy) time.Time {
	var next time.Time
	consider := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	pending := false
	for i := range keys {
		consider(policy.SignsAt(&keys[i]))
		consider(policy.RemoveAt(&keys[i]))
		pending = pending || keys[i].State == Pending
	}
	for i := range keys {
		if keys[i].State == Active && !pending && len(keys) < MaxKeys {
			consider(policy.succeededAt(&keys[i]))
		}
		if keys[i].State == Pending && keys[i].CreatedAt.Before(policy.RotateAfter) {
			consider(policy.RotateAfter)
		}
	}
	return next
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// roundUp returns the first whole second that isn't before t.
func roundUp(t time.Time) time.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

func find(keys []Key, match func(*Key) bool) *Key {
	for i := range keys {
		if match(&keys[i]) {
			return &keys[i]
		}
	}
	return nil
}
