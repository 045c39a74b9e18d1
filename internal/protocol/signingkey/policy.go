package signingkey

import (
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// Skew is how long a Retiring key remains published after its last token has expired. It allows for
// verifiers whose clocks are behind.
const Skew = 5 * time.Minute

// MaxKeys is the maximum number of keys of a realm. A rotation that would exceed it waits until a
// Retiring key is removed. Scheduled rotations never reach it.
const MaxKeys = 32

// FirstKeyWait is how long a realm's first key waits at most for the token servers. Until it is Active,
// the realm issues no tokens.
const FirstKeyWait = time.Minute

// Policy configures a realm's keys.
type Policy struct {
	// Algorithm is the algorithm for new keys.
	Algorithm Algorithm
	// RotationInterval is how long a key signs.
	RotationInterval time.Duration
	// PublishAhead is how long a key is published before it signs, so that caches of the JWKS
	// contain it. It is at most half of RotationInterval.
	PublishAhead time.Duration
	// RotateAfter is the time at which all keys created before it are replaced. If zero, no keys
	// are replaced early.
	RotateAfter time.Time
	// TokenLifetime is the longest lifetime of newly issued tokens.
	TokenLifetime time.Duration
	// Skew is the constant Skew, except in tests.
	Skew time.Duration
	// Unconfirmed means that a token server may not serve the keys. No key becomes Active then, except for
	// a realm's first key after FirstKeyWait. It isn't part of the Realm's policy: the caller of Plan sets it.
	Unconfirmed bool
}

// mayActivate reports whether a Pending key becomes Active now. first means that the realm has no Active
// key.
func (p Policy) mayActivate(k *Key, first bool, now time.Time) bool {
	switch {
	case first && due(firstSignsAt(k), now):
		return true
	case p.Unconfirmed:
		return false
	case first:
		return k.State == Pending && !k.PublishedAt.IsZero()
	}
	return due(p.SignsAt(k), now)
}

// firstSignsAt returns the time at which the Pending key of a realm without an Active key becomes Active at
// the latest. It is zero in the other states.
func firstSignsAt(k *Key) time.Time {
	if k.State != Pending {
		return time.Time{}
	}
	return k.CreatedAt.Add(FirstKeyWait)
}

// SignsAt returns the time at which a Pending key becomes Active if the realm has an Active key. It is zero
// until every live token server publishes the key, and in the other states.
func (p Policy) SignsAt(k *Key) time.Time {
	if k.State != Pending || k.PublishedAt.IsZero() {
		return time.Time{}
	}
	return timestamp.RoundUp(k.PublishedAt.Add(p.PublishAhead))
}

// RemoveAt returns the time at which a Retiring key is removed. It is zero while a live token
// server may sign with the key, and in the other states.
func (p Policy) RemoveAt(k *Key) time.Time {
	if k.State != Retiring || k.RetiredAt.IsZero() {
		return time.Time{}
	}
	return timestamp.RoundUp(k.RetiredAt.Add(k.LongestLifetime + p.Skew))
}

// successorAt returns the time at which the successor of the active key is generated and published.
func (p Policy) successorAt(active *Key) time.Time {
	if active.Algorithm != p.Algorithm {
		return active.ActiveAt
	}
	at := active.ActiveAt.Add(p.RotationInterval - p.PublishAhead)
	if active.CreatedAt.Before(p.RotateAfter) && p.RotateAfter.Before(at) {
		at = p.RotateAfter
	}
	return timestamp.RoundUp(at)
}

// obsolete reports whether a Pending key must not become Active, because it has a different
// algorithm or was created before a RotateAfter that has passed.
func (p Policy) obsolete(k *Key, now time.Time) bool {
	replaced := k.CreatedAt.Before(p.RotateAfter) && !now.Before(p.RotateAfter)
	return k.State == Pending && (k.Algorithm != p.Algorithm || replaced)
}
