package slowhash

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"
)

const (
	// These limit the number of waiting secrets.
	maxWaitingPerClient = 16
	maxWaiting          = 256
	// keepWaiting is how long a secret waits after the last request with it.
	keepWaiting = 30 * time.Second
	// maxWaitersPerClient and Options.Waiters limit the requests that wait for a result, because each one
	// is a request in progress. A request beyond the limit gets a 503 immediately, but its secret still
	// waits.
	maxWaitersPerClient = 8
	defaultWaiters      = 64
	// countInterval is the shortest time between two requests with the same secret that both count,
	// so that sending many copies of a guess doesn't help. It is shorter than Retry-After.
	countInterval = 500 * time.Millisecond
)

// client is a client for which secrets wait or were verified recently.
type client struct {
	uid     string
	waiting []*turn
	waiters int   // requests that wait for a result
	running *turn // nil if none is being verified
	// wrong is the number of wrong secrets since the last correct one.
	wrong int
	// pausedUntil is when the next secret may be verified.
	pausedUntil time.Time
	// since is when the client began to wait for its turn.
	since time.Time
}

// turn is the verification of a secret that a client has sent, or of several of which it has meant one. It
// waits or is running.
type turn struct {
	client     *client
	id         fingerprint // of all candidates
	candidates []candidate
	requests   int // that had this secret
	first      time.Time
	last       time.Time     // when the latest of these requests arrived
	done       chan struct{} // closed when it has ended or was dropped
}

// candidate is a secret that a client may have meant, with the verifiers that it may match and the fingerprint
// for each of them.
type candidate struct {
	secret    string
	ids       []fingerprint
	verifiers []Verifier
}

// identify returns the fingerprint of all candidates. Two requests can have only one of two secrets in common.
func identify(candidates []candidate) fingerprint {
	sum := sha256.New()
	for _, s := range candidates {
		for _, id := range s.ids {
			sum.Write(id[:])
		}
	}
	return fingerprint(sum.Sum(nil))
}

// requestCount counts the requests with a secret, even if it doesn't wait.
type requestCount struct {
	requests int
	counted  time.Time // when the last one was counted
}

// ask adds a request with secrets whose result is unknown. It returns nil if the request must not wait.
func (c *Checker) ask(clientUID string, candidates []candidate, now time.Time) *turn {
	cl := c.clients[clientUID]
	if cl == nil {
		cl = &client{uid: clientUID, since: now}
	}
	asked := &turn{client: cl, id: identify(candidates), candidates: candidates, first: now, done: make(chan struct{})}
	requests := c.count(asked.id, now)
	if existing := cl.find(asked.id); existing != nil {
		asked = existing
	} else {
		for i := range candidates {
			// The secret is part of a larger string, which would be kept in memory.
			candidates[i].secret = strings.Clone(candidates[i].secret)
		}
		asked.requests = requests
		if !c.makeRoom(asked) {
			return nil
		}
		if len(cl.waiting) == 0 && cl.running == nil && cl.pausedUntil.Before(now) {
			cl.since = now
		}
		cl.waiting = append(cl.waiting, asked)
		c.clients[clientUID] = cl
		c.waiting++
	}
	asked.requests, asked.last = requests, now
	c.start(now)
	if cl.waiters >= maxWaitersPerClient || c.waiters >= c.maxWaiters {
		return nil
	}
	cl.waiters++
	c.waiters++
	return asked
}

// count counts a request with a secret and returns the number of requests. They are counted for
// longer than the secret waits: a secret that found no room has a better chance in the next request.
func (c *Checker) count(id fingerprint, now time.Time) int {
	n, known := c.requests.get(id)
	if !known || now.Sub(n.counted) >= countInterval {
		n = requestCount{n.requests + 1, now}
		c.requests.set(id, n)
	}
	return n.requests
}

func (cl *client) find(id fingerprint) *turn {
	if cl.running != nil && cl.running.id == id {
		return cl.running
	}
	for _, t := range cl.waiting {
		if t.id == id {
			return t
		}
	}
	return nil
}

// before reports whether t is verified before other: if it was in more requests, or in equally many
// and waits longer.
func (t *turn) before(other *turn) bool {
	if t.requests != other.requests {
		return t.requests > other.requests
	}
	return t.first.Before(other.first)
}

// makeRoom makes room for a secret and reports whether there is room. If its client has too many
// waiting secrets, it must have been in more requests than the last of them, which is dropped. If
// there are too many in all, the clients with the most lose one.
func (c *Checker) makeRoom(t *turn) bool {
	own := len(t.client.waiting)
	most := own
	switch {
	case own >= maxWaitingPerClient:
	case c.waiting >= maxWaiting:
		for _, cl := range c.clients {
			most = max(most, len(cl.waiting))
		}
	default:
		return true
	}
	var last *turn
	for _, cl := range c.clients {
		if len(cl.waiting) != most || own >= maxWaitingPerClient && cl != t.client {
			continue
		}
		for _, other := range cl.waiting {
			if last == nil || last.before(other) {
				last = other
			}
		}
	}
	if most <= own+1 && last.requests >= t.requests {
		return false
	}
	c.drop(last)
	return true
}

// drop removes a waiting secret. Requests that wait for it get a 503.
func (c *Checker) drop(t *turn) {
	c.take(t)
	close(t.done)
}

// take removes a secret from those that wait.
func (c *Checker) take(t *turn) {
	t.client.waiting = slices.DeleteFunc(t.client.waiting, func(other *turn) bool { return other == t })
	c.waiting--
}
