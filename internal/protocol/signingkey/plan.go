package signingkey

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Generator returns a new Pending key. The error ErrLater means that there is none yet.
type Generator func(algorithm Algorithm, now time.Time) (Key, error)

// ErrLater means that a new key isn't available yet.
var ErrLater = errors.New("no new key is available yet")

// Plan returns the keys that a realm must have now, oldest first, and the time at which Plan must
// run again. The time is zero if nothing is left to do, or if the next step depends on Acknowledge.
// Plan is idempotent.
//
// Each key is first published as Pending. A realm's first key becomes Active as soon as every live token
// server has published it, or FirstKeyWait after its creation. A later key becomes Active after every live
// token server has published it for PublishAhead. Its predecessor then becomes Retiring and loses its
// private part. It is removed Skew after its longest-lived token has expired. A successor is generated
// early enough for a key to sign for RotationInterval. It is generated sooner if the key's algorithm
// differs from the policy's, or if RotateAfter has passed and the key is older.
//
// A late plan catches up in the same order: a key never becomes Active before it has been
// published. A key never returns to an earlier state, even if now moves backward.
//
// While generate returns ErrLater, a rotation waits for its next key, and everything else continues. The error is
// one of generate, and ErrLater only if the realm has neither an Active nor a usable Pending key.
func Plan(now time.Time, keys []Key, policy Policy, generate Generator) ([]Key, time.Time, error) {
	now = now.UTC().Truncate(time.Second) // the precision of times in the API
	policy.RotateAfter = timestamp.RoundUp(policy.RotateAfter)
	keys = slices.Clone(keys)
	keys = slices.DeleteFunc(keys, func(k Key) bool {
		return policy.obsolete(&k, now) || due(policy.RemoveAt(&k), now)
	})

	first := ActiveID(keys) == ""
	if successor := find(keys, func(k *Key) bool { return policy.mayActivate(k, first, now) }); successor != nil {
		activate(keys, successor, now)
	}
	if policy.needsKey(keys, now) {
		switch generated, err := generate(policy.Algorithm, now); {
		case err == nil:
			keys = append(keys, generated)
		case first || !errors.Is(err, ErrLater):
			return nil, time.Time{}, err
		}
	}

	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	if active := find(keys, func(k *Key) bool { return k.State == Active }); active != nil {
		active.LongestLifetime = max(active.LongestLifetime, policy.TokenLifetime)
	}
	return keys, nextPlan(now, keys, policy), nil
}

// needsKey reports whether a new key must be generated now.
func (p Policy) needsKey(keys []Key, now time.Time) bool {
	if find(keys, func(k *Key) bool { return k.State == Pending }) != nil {
		return false
	}
	active := find(keys, func(k *Key) bool { return k.State == Active })
	return active == nil || !now.Before(p.successorAt(active)) && len(keys) < MaxKeys
}

// Acknowledge returns the keys after every live token server has acknowledged them in these states.
// It sets PublishedAt of Pending keys, and RetiredAt of Retiring keys, which no longer sign. It
// keeps times that are already set.
func Acknowledge(now time.Time, keys []Key) []Key {
	now = timestamp.RoundUp(now.UTC()) // rounding down could activate or remove a key too early
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

// NextRotation returns the expected time of the next rotation. It assumes that token servers
// acknowledge a key as soon as it is created.
func NextRotation(keys []Key, policy Policy) time.Time {
	policy.RotateAfter = timestamp.RoundUp(policy.RotateAfter)
	active := find(keys, func(k *Key) bool { return k.State == Active })
	pending := find(keys, func(k *Key) bool { return k.State == Pending })
	switch {
	case active == nil && pending == nil:
		return time.Time{}
	case active == nil: // the first key
		first := *pending
		first.ActiveAt = first.CreatedAt
		active = &first
	case pending == nil:
	case pending.PublishedAt.IsZero():
		return pending.CreatedAt.Add(policy.PublishAhead)
	default:
		return policy.SignsAt(pending)
	}
	createdAt := policy.successorAt(active)
	if createdAt.Before(active.ActiveAt) {
		createdAt = active.ActiveAt
	}
	return createdAt.Add(policy.PublishAhead)
}

// ActiveID returns the ID of the Active key, or "" if there is none.
func ActiveID(keys []Key) string {
	if active := find(keys, func(k *Key) bool { return k.State == Active }); active != nil {
		return active.ID
	}
	return ""
}

// LongestLifetime returns the longest lifetime of a token that any of the keys has signed. A realm's tokens
// that were signed with other keys have expired.
func LongestLifetime(keys []Key) time.Duration {
	var longest time.Duration
	for i := range keys {
		longest = max(longest, keys[i].LongestLifetime)
	}
	return longest
}

// activate makes next the only Active key of the realm.
func activate(keys []Key, next *Key, now time.Time) {
	for i := range keys {
		if keys[i].State == Active {
			keys[i].Retire()
		}
	}
	next.State, next.ActiveAt = Active, now
}

// nextPlan returns the earliest time after now at which Plan must run again.
func nextPlan(now time.Time, keys []Key, policy Policy) time.Time {
	var times []time.Time
	pending, first := false, ActiveID(keys) == ""
	for i := range keys {
		if first {
			times = append(times, firstSignsAt(&keys[i]))
		} else {
			times = append(times, policy.SignsAt(&keys[i]))
		}
		times = append(times, policy.RemoveAt(&keys[i]))
		pending = pending || keys[i].State == Pending
	}
	for i := range keys {
		if keys[i].State == Active && !pending && len(keys) < MaxKeys {
			times = append(times, policy.successorAt(&keys[i]))
		}
		if keys[i].State == Pending && keys[i].CreatedAt.Before(policy.RotateAfter) {
			times = append(times, policy.RotateAfter)
		}
	}
	return timestamp.Next(now, times...)
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

func find(keys []Key, match func(*Key) bool) *Key {
	for i := range keys {
		if match(&keys[i]) {
			return &keys[i]
		}
	}
	return nil
}
