// Package slowhash checks secrets against slow hashes such as Argon2id.
//
// A slow hash costs milliseconds of CPU and megabytes of memory, so an attacker could use wrong
// secrets to slow down others or to lock out the owner of the secret. This package prevents both:
//
//   - At most one secret of a client and two in total are verified at a time, and clients take turns.
//     After a wrong secret, the client pauses. Continuous guesses at one client therefore cost about
//     one percent of a core with the default Argon2id parameters, and never delay another client by
//     more than one turn: one verification, or two if the secret can be read in two ways.
//   - Recent results are remembered, including wrong ones, so that secrets aren't verified again.
//   - The secret that was sent in the most requests is verified next. The owner sends the same secret
//     again after a 503, but guesses differ. An attacker who repeats guesses makes fewer of them.
package slowhash

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

const (
	// DefaultMemory is the default of Options.Memory. It is enough for the largest hash that
	// clientsecret accepts.
	DefaultMemory = 64 << 20
	// MaxSecretBytes is the maximum length of a secret. Longer secrets are wrong. It is the length in
	// UTF-8 of the longest secret that a user may choose.
	MaxSecretBytes = 4096

	// maxWait is how long a request waits for its turn.
	maxWait = 2 * time.Second
	// maxVerifications limits concurrent verifications. At least one core remains free.
	maxVerifications = 2
)

// These are the values of the metric's outcome label.
const (
	outcomeRemembered = "remembered"
	outcomeVerified   = "verified"
	outcomeRejected   = "rejected"
	outcomeBusy       = "busy"
)

// Verifier is the stored hash of a secret.
type Verifier interface {
	// Verify reports whether the secret is correct.
	Verify(secret string) bool
	// Memory returns the number of bytes that Verify needs.
	Memory() int64
	// String returns the hash with its salt and parameters.
	String() string
}

// Options contains the settings of a Checker.
type Options struct {
	// Memory is the maximum number of bytes of all concurrent verifications. A hash that needs more is
	// verified alone. If zero, it is DefaultMemory.
	Memory int64
	// Waiters is the maximum number of requests that wait for a result. If zero, it is 64.
	Waiters int
	// Checks counts checks. Its only label is the outcome: "remembered" or "rejected" if the secret is
	// known to be correct or wrong, "verified" if a hash was computed, "busy" if a request got no
	// result. Required.
	Checks *prometheus.CounterVec
}

// Checker checks secrets. It is safe for concurrent use. It has no goroutines while no secrets wait.
type Checker struct {
	checks *prometheus.CounterVec
	slots  int   // maximum number of concurrent verifications
	memory int64 // maximum number of bytes of all concurrent verifications
	// maxWaiters is the maximum of waiters.
	maxWaiters int
	// key is random and unique to this process, so the fingerprints are useless outside of it.
	key [sha256.Size]byte

	mu sync.Mutex
	// Wrong results have a table of their own, so that they don't displace correct ones.
	correct, wrong recent[struct{}]
	requests       recent[requestCount]
	clients        map[string]*client // by UID; those with waiting secrets, a verification, or a pause
	waiting        int                // secrets of all clients
	waiters        int                // requests of all clients that wait for a result
	running        int                // verifications
	used           int64              // bytes of running verifications
	wake           *time.Timer        // fires when the first pause of a client with waiting secrets ends
}

// fingerprint identifies a secret of a client together with a stored hash.
type fingerprint [sha256.Size]byte

// New returns a Checker that remembers nothing.
func New(o Options) *Checker {
	c := &Checker{
		checks: o.Checks, slots: slots(runtime.GOMAXPROCS(0)), memory: cmp.Or(o.Memory, DefaultMemory),
		maxWaiters: cmp.Or(o.Waiters, defaultWaiters), clients: map[string]*client{},
	}
	_, _ = rand.Read(c.key[:]) // never returns an error; a failure crashes the process
	c.wake = time.AfterFunc(time.Hour, c.resume)
	c.wake.Stop()
	return c
}

func slots(cores int) int { return min(max(1, cores-1), maxVerifications) }

// NoMatch means that a secret is wrong.
const NoMatch = -1

// Check returns the index of the verifier that one of the secrets matches, or NoMatch. It waits up to
// 2 seconds for its turn. A verification continues even if the context is canceled, and its result is
// remembered.
//
// The secrets are those that the client may have meant, the most likely one first. They are verified
// in one turn, until one matches. If none does, the client pauses for as long as if each had been in a
// request of its own.
//
// The result depends only on the secrets and the stored hashes. The caller must check everything
// else, such as suspension and expiration, afterwards.
//
// There must be at least one verifier and one secret. The error is oauth.ErrBusy if there is no
// result yet.
func (c *Checker) Check(ctx context.Context, clientUID string, verifiers []Verifier, secrets ...string) (int, error) {
	candidates := make([]candidate, 0, len(secrets))
	for _, secret := range secrets {
		if len(secret) <= MaxSecretBytes {
			candidates = append(candidates, candidate{secret, c.fingerprints(clientUID, verifiers, secret), verifiers})
		}
	}
	c.mu.Lock()
	matched, unknown := c.lookup(candidates)
	var asked *turn
	if len(unknown) > 0 {
		asked = c.ask(clientUID, unknown, time.Now())
	}
	c.mu.Unlock()
	switch {
	case matched != NoMatch:
		c.checks.WithLabelValues(outcomeRemembered).Inc()
		return matched, nil
	case len(unknown) == 0:
		c.checks.WithLabelValues(outcomeRejected).Inc()
		return NoMatch, nil
	}
	if asked != nil {
		matched, unknown = c.await(ctx, asked, candidates)
	}
	if len(unknown) > 0 {
		c.checks.WithLabelValues(outcomeBusy).Inc()
		return NoMatch, oauth.ErrBusy
	}
	return matched, nil
}

// await waits for the turn of the secrets, and then until it is known whether one is correct. It returns the
// result of lookup.
func (c *Checker) await(ctx context.Context, asked *turn, candidates []candidate) (matched int, unknown []candidate) {
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case <-asked.done:
	case <-ctx.Done():
	case <-timeout.C:
		if c.verifies(asked) {
			select {
			case <-asked.done:
			case <-ctx.Done():
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters--
	asked.client.waiters--
	return c.lookup(candidates)
}

func (c *Checker) verifies(t *turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.client.running == t
}

// lookup returns which verifier one of the secrets is known to match. If none is, it also returns the secrets
// and verifiers whose result is unknown.
func (c *Checker) lookup(candidates []candidate) (matched int, unknown []candidate) {
	for _, s := range candidates {
		rest := candidate{secret: s.secret}
		for i, id := range s.ids {
			if _, ok := c.correct.get(id); ok {
				return i, nil
			}
			if _, ok := c.wrong.get(id); !ok {
				rest.ids, rest.verifiers = append(rest.ids, id), append(rest.verifiers, s.verifiers[i])
			}
		}
		if len(rest.ids) > 0 {
			unknown = append(unknown, rest)
		}
	}
	return NoMatch, unknown
}

func (c *Checker) fingerprints(clientUID string, verifiers []Verifier, secret string) []fingerprint {
	ids := make([]fingerprint, len(verifiers))
	for i, v := range verifiers {
		ids[i] = c.fingerprint(clientUID, v, secret)
	}
	return ids
}

// fingerprint prefixes each part with its length, so that different inputs are never hashed as the
// same bytes.
func (c *Checker) fingerprint(clientUID string, v Verifier, secret string) fingerprint {
	mac := hmac.New(sha256.New, c.key[:])
	for _, part := range []string{clientUID, v.String(), secret} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return fingerprint(mac.Sum(nil))
}
