package slowhash

import (
	"slices"
	"time"
)

// pause is the pause of a client after a wrong secret: a multiple of the time that the verification
// took, within bounds.
type pause struct {
	factor            int
	shortest, longest time.Duration
}

var (
	// firstPause is for mistakes.
	firstPause = pause{15, 250 * time.Millisecond, 2 * time.Second}
	// laterPause is for guesses. With verifications of up to 30 ms, those at one client use less than
	// one percent of a core, so that they don't show in the 99th percentile of other clients' response
	// times. The longest pause is for slower hashes, so that the owner doesn't wait too long. Guesses
	// at a hash that takes a second use a quarter of a core.
	laterPause = pause{100, 500 * time.Millisecond, 3 * time.Second}
)

// keepWrong is how long wrong secrets in a row count after the last one, unless those of more than
// maxKept clients would. All clients are looked at for each turn.
const (
	keepWrong = time.Minute
	maxKept   = 256
)

// maxMistakes is the number of wrong secrets in a row that count as mistakes.
const maxMistakes = 10

func (p pause) after(verification time.Duration) time.Duration {
	return max(p.shortest, min(time.Duration(p.factor)*verification, p.longest))
}

// start starts as many verifications as allowed. If all clients with waiting secrets pause, it goes
// on when the first pause ends.
func (c *Checker) start(now time.Time) {
	for c.running < c.slots {
		next, pauseEnds := c.next(now)
		if next == nil {
			if !pauseEnds.IsZero() {
				c.wake.Reset(pauseEnds.Sub(now))
			}
			return
		}
		t := next.waiting[0]
		for _, other := range next.waiting {
			if other.before(t) {
				t = other
			}
		}
		memory := int64(0)
		for _, s := range t.candidates {
			for _, v := range s.verifiers {
				memory = max(memory, v.Memory())
			}
		}
		memory = min(memory, c.memory)
		if c.used+memory > c.memory {
			return // a running verification calls start when it ends
		}
		c.take(t)
		next.running = t
		c.running++
		c.used += memory
		go c.verify(t, memory)
	}
}

// next returns the client whose turn it is. If there is none, it returns when the first pause of a
// client with waiting secrets ends. It forgets secrets that are no longer requested, and clients that
// have neither secrets nor a pause, unless wrong secrets still count.
func (c *Checker) next(now time.Time) (next *client, pauseEnds time.Time) {
	for uid, cl := range c.clients {
		for _, t := range slices.Clone(cl.waiting) {
			if now.Sub(t.last) > keepWaiting {
				c.drop(t)
			}
		}
		paused := cl.pausedUntil.After(now)
		switch {
		case cl.running != nil:
		case len(cl.waiting) == 0:
			if !paused && cl.waiters == 0 && !c.remembersWrong(cl, now) {
				delete(c.clients, uid)
			}
		case paused:
			if pauseEnds.IsZero() || cl.pausedUntil.Before(pauseEnds) {
				pauseEnds = cl.pausedUntil
			}
		case next == nil || cl.precedes(next):
			next = cl
		}
	}
	return next, pauseEnds
}

// verify verifies secrets until one is correct, remembers the results, and starts the next verification.
func (c *Checker) verify(t *turn, memory int64) {
	started := time.Now()
	verified, correct, wrong := t.verify()
	now := time.Now()
	c.checks.WithLabelValues(outcomeVerified).Add(float64(verified))

	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range wrong {
		c.wrong.set(id, struct{}{})
	}
	cl := t.client
	if correct != nil {
		c.correct.set(*correct, struct{}{})
		cl.wrong, cl.pausedUntil = 0, now
	} else {
		cl.pausedUntil = now.Add(cl.pauseAfter(verified, now.Sub(started)))
	}
	c.requests.remove(t.id)
	cl.running, cl.since = nil, cl.pausedUntil
	c.running--
	c.used -= memory
	close(t.done)
	c.start(now)
}

// verify verifies the secrets until one is correct. It returns the number of secrets that it verified, and the
// fingerprints of the correct one, if any, and of the wrong ones.
func (t *turn) verify() (verified int, correct *fingerprint, wrong []fingerprint) {
	for n, s := range t.candidates {
		for i, v := range s.verifiers {
			if v.Verify(s.secret) {
				return n + 1, &s.ids[i], wrong
			}
			wrong = append(wrong, s.ids[i])
		}
	}
	return len(t.candidates), nil, wrong
}

// remembersWrong reports whether the wrong secrets of a client still count.
func (c *Checker) remembersWrong(cl *client, now time.Time) bool {
	return cl.wrong > 0 && now.Sub(cl.pausedUntil) < keepWrong && len(c.clients) <= maxKept
}

// precedes reports whether it is the client's turn before that of another one. Clients without wrong
// secrets come first, so that guesses at many clients don't delay others. Among equals, it is the
// one that has waited longest.
func (cl *client) precedes(other *client) bool {
	if (cl.wrong == 0) != (other.wrong == 0) {
		return cl.wrong == 0
	}
	return cl.since.Before(other.since)
}

// pauseAfter returns the pause after a turn in which all secrets were wrong: the sum of the pauses after each.
func (cl *client) pauseAfter(secrets int, verification time.Duration) time.Duration {
	p := firstPause
	if cl.wrong += secrets; cl.wrong > maxMistakes {
		p = laterPause
	}
	return time.Duration(secrets) * p.after(verification/time.Duration(secrets))
}

// resume starts the next verification after a pause.
func (c *Checker) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(time.Now())
}
