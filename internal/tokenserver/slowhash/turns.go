package slowhash

import (
	"slices"
	"time"
)

const (
	// pauseFactor is the length of the pause after a wrong secret, as a multiple of the time that its
	// verification took. Guesses at one client use 1/16 of one core.
	pauseFactor = 15
	// minPause limits the number of guesses at hashes that are less slow to 4 per second.
	minPause = 250 * time.Millisecond
	// maxPause limits the pause after very slow hashes, so that the owner doesn't wait too long.
	maxPause = 2 * time.Second
)

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
		w := next.waiting[0]
		for _, other := range next.waiting {
			if other.before(w) {
				w = other
			}
		}
		memory := int64(0)
		for _, v := range w.verifiers {
			memory = max(memory, v.Memory())
		}
		memory = min(memory, c.memory)
		if c.used+memory > c.memory {
			return // a running verification calls start when it ends
		}
		c.take(w)
		next.running = w
		c.running++
		c.used += memory
		go c.verify(w, memory)
	}
}

// next returns the client whose turn it is: the one that has waited longest. If there is none, it
// returns when the first pause of a client with waiting secrets ends. It forgets secrets that nobody
// asks for anymore, and clients that have neither secrets nor a pause.
func (c *Checker) next(now time.Time) (next *client, pauseEnds time.Time) {
	for uid, cl := range c.clients {
		for _, w := range slices.Clone(cl.waiting) {
			if now.Sub(w.last) > keepWaiting {
				c.drop(w)
			}
		}
		paused := cl.pausedUntil.After(now)
		switch {
		case cl.running != nil:
		case len(cl.waiting) == 0:
			if !paused && cl.waiters == 0 {
				delete(c.clients, uid)
			}
		case paused:
			if pauseEnds.IsZero() || cl.pausedUntil.Before(pauseEnds) {
				pauseEnds = cl.pausedUntil
			}
		case next == nil || cl.since.Before(next.since):
			next = cl
		}
	}
	return next, pauseEnds
}

// verify verifies a secret, remembers the result, and starts the next verification.
func (c *Checker) verify(w *waitingSecret, memory int64) {
	started := time.Now()
	matched := slices.IndexFunc(w.verifiers, func(v Verifier) bool { return v.Verify(w.secret) })
	now := time.Now()
	c.checks.WithLabelValues(outcomeVerified).Inc()

	c.mu.Lock()
	defer c.mu.Unlock()
	cl := w.client
	cl.pausedUntil = now
	if matched == NoMatch {
		cl.pausedUntil = now.Add(max(minPause, min(pauseFactor*now.Sub(started), maxPause)))
	}
	for i, id := range w.ids {
		if i == matched {
			c.correct.set(id, struct{}{})
			break
		}
		c.wrong.set(id, struct{}{})
	}
	c.requests.remove(w.ids[0])
	cl.running, cl.since = nil, cl.pausedUntil
	c.running--
	c.used -= memory
	close(w.done)
	c.start(now)
}

// resume starts the next verification after a pause.
func (c *Checker) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(time.Now())
}
