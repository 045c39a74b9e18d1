package signingkey

import (
	"cmp"
	"io"
	"slices"
	"time"
)

// Skew is how much longer than its last token a Retiring key stays published, for
// verifiers whose clocks are behind.
const Skew = 5 * time.Minute

// Policy is what a realm wants of its keys.
type Policy struct {
	// Algorithm is what new keys are made for.
	Algorithm Algorithm
	// PublishAhead is how long a key is published before it signs, so that caches of the JWKS have it.
	PublishAhead time.Duration
	// TokenLifetime is the longest that a token issued from now on is valid.
	TokenLifetime time.Duration
}

// Plan returns the keys that a realm has from now on, oldest first, and when the plan
// is to be made again; zero when nothing is to come. Planning twice changes nothing.
//
// A realm's first key is Active at once. When the active key's algorithm is not the
// policy's, a successor is published as Pending, becomes Active after PublishAhead,
// and its predecessor is Retiring until the longest token that it signed has expired, and Skew after that.
//
// The error is that of making a key.
func Plan(now time.Time, keys []Key, policy Policy, random io.Reader) ([]Key, time.Time, error) {
	now = now.UTC().Truncate(time.Second) // as precise as the API keeps times
	keys = slices.Clone(keys)
	keys = slices.DeleteFunc(keys, func(k Key) bool {
		unwanted := k.State == Pending && k.Algorithm != policy.Algorithm
		return unwanted || k.State == Retiring && !now.Before(k.RemoveAt())
	})

	if successor := find(keys, func(k Key) bool { return k.State == Pending && !now.Before(k.ActiveAt) }); successor != nil {
		activate(keys, successor, now)
	}
	active := find(keys, func(k Key) bool { return k.State == Active })
	switch pending := find(keys, func(k Key) bool { return k.State == Pending }); {
	case active == nil && pending != nil:
		activate(keys, pending, now)
	case active == nil:
		first, err := Generate(policy.Algorithm, now, random)
		if err != nil {
			return nil, time.Time{}, err
		}
		keys = append(keys, first)
		activate(keys, &keys[len(keys)-1], now)
	case active.Algorithm != policy.Algorithm && pending == nil:
		successor, err := Generate(policy.Algorithm, now, random)
		if err != nil {
			return nil, time.Time{}, err
		}
		successor.ActiveAt = now.Add(policy.PublishAhead)
		keys = append(keys, successor)
	}

	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	active = find(keys, func(k Key) bool { return k.State == Active })
	active.LongestLifetime = max(active.LongestLifetime, policy.TokenLifetime)
	return keys, nextTransition(keys), nil
}

// RemoveAt is when a Retiring key is published no more; zero in the other states.
func (k *Key) RemoveAt() time.Time {
	if k.State != Retiring {
		return time.Time{}
	}
	return k.RetiredAt.Add(k.LongestLifetime + Skew)
}

// activate makes next the one key that signs.
func activate(keys []Key, next *Key, now time.Time) {
	for i := range keys {
		if keys[i].State == Active {
			keys[i].State, keys[i].RetiredAt = Retiring, now
		}
	}
	next.State, next.ActiveAt = Active, now
}

func nextTransition(keys []Key) time.Time {
	var next time.Time
	for i := range keys {
		at := keys[i].RemoveAt()
		if keys[i].State == Pending {
			at = keys[i].ActiveAt
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func find(keys []Key, match func(Key) bool) *Key {
	if i := slices.IndexFunc(keys, match); i >= 0 {
		return &keys[i]
	}
	return nil
}
