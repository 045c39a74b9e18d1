package signingkey

import "time"

// Skew is how much longer than its last token a Retiring key stays published, for
// verifiers whose clocks are behind.
const Skew = 5 * time.Minute

// MaxKeys is how many keys a realm has at most. A rotation that would make one more
// waits until a Retiring key is gone. By schedule a realm never comes that far.
const MaxKeys = 32

// Policy is what a realm wants of its keys.
type Policy struct {
	// Algorithm is what new keys are made for.
	Algorithm Algorithm
	// RotationInterval is how long a key signs.
	RotationInterval time.Duration
	// PublishAhead is how long a key is published before it signs, so that caches of the
	// JWKS have it; at most half of RotationInterval.
	PublishAhead time.Duration
	// RotateAfter is the instant from which on keys that were made before it are replaced;
	// zero: none.
	RotateAfter time.Time
	// TokenLifetime is the longest that a token issued from now on is valid.
	TokenLifetime time.Duration
	// Skew is that of the constant, but for tests.
	Skew time.Duration
}

// SignsAt is when a Pending key becomes Active; zero while not every live token server
// publishes it, and in the other states.
func (p Policy) SignsAt(k *Key) time.Time {
	if k.State != Pending || k.PublishedAt.IsZero() {
		return time.Time{}
	}
	return roundUp(k.PublishedAt.Add(p.PublishAhead))
}

// RemoveAt is when a Retiring key is published no more; zero while a live token server
// may sign with it, and in the other states.
func (p Policy) RemoveAt(k *Key) time.Time {
	if k.State != Retiring || k.RetiredAt.IsZero() {
		return time.Time{}
	}
	return roundUp(k.RetiredAt.Add(k.LongestLifetime + p.Skew))
}

// succeededAt is when the active key needs a successor, which is published from then on.
func (p Policy) succeededAt(active *Key) time.Time {
	if active.Algorithm != p.Algorithm {
		return active.ActiveAt
	}
	at := active.ActiveAt.Add(p.RotationInterval - p.PublishAhead)
	if active.CreatedAt.Before(p.RotateAfter) && p.RotateAfter.Before(at) {
		at = p.RotateAfter
	}
	return roundUp(at)
}

// unwanted reports whether a Pending key shall not become Active: it is of another
// algorithm, or one of those that are to be replaced.
func (p Policy) unwanted(k *Key, now time.Time) bool {
	replaced := k.CreatedAt.Before(p.RotateAfter) && !now.Before(p.RotateAfter)
	return k.State == Pending && (k.Algorithm != p.Algorithm || replaced)
}
