package clientauth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// These limits prevent Argon2id from slowing down other requests. On multi-core machines, at least
// one core remains free. Argon2id uses at most 64 MiB.
const (
	// maxArgon2idMemory limits the total memory of all concurrent verifications. It equals the
	// largest memory parameter that clientsecret accepts. The token server's memory limit has room
	// for twice as much, because memory from earlier verifications may not have been
	// garbage-collected yet.
	maxArgon2idMemory = 64 << 20
	// maxQueued limits the number of queued and running verifications. A full queue takes a few
	// tenths of a second to drain. maxQueuedPerClient keeps an attack on one client from filling
	// the queue.
	maxQueued          = 16
	maxQueuedPerClient = 4
	// maxRemembered is the size of each of the two generations of remembered results. Both together
	// use about 1 MiB.
	maxRemembered = 8192
)

// These are the values of the metric's outcome label.
const (
	outcomeRemembered = "remembered"
	outcomeVerified   = "verified"
	outcomeBusy       = "busy"
)

// argon2idChecker checks Argon2id-hashed secrets. Each check costs milliseconds of CPU and
// megabytes of memory, so the checker runs only a few at a time, queues a few more, and remembers
// correct secrets. It is safe for concurrent use.
type argon2idChecker struct {
	checks     *prometheus.CounterVec
	memory     *semaphore.Weighted // in bytes
	memorySize int64
	// key is random and unique to this process, so the fingerprints are useless outside of it.
	key [sha256.Size]byte

	mu              sync.Mutex
	queued          int
	queuedPerClient map[string]int // by client UID
	// recent and older contain the fingerprints of correct secrets. When recent is full, it
	// replaces older, and the previous contents of older are dropped. Fingerprints found in older
	// are moved to recent.
	recent, older map[fingerprint]struct{}
}

type fingerprint [sha256.Size]byte

func newArgon2idChecker(checks *prometheus.CounterVec) *argon2idChecker {
	c := &argon2idChecker{
		checks:          checks,
		memorySize:      argon2idMemory(runtime.GOMAXPROCS(0)),
		queuedPerClient: map[string]int{},
		recent:          map[fingerprint]struct{}{},
	}
	c.memory = semaphore.NewWeighted(c.memorySize)
	_, _ = rand.Read(c.key[:]) // never returns an error; a failure crashes the process
	return c
}

// argon2idMemory returns the amount of memory for concurrent verifications, in bytes. It allows one
// verification with the default parameters for each core except one, but always at least one.
func argon2idMemory(cores int) int64 {
	return min(max(1, int64(cores-1))*clientsecret.DefaultArgon2idMemory, maxArgon2idMemory)
}

// argon2idCredentials returns the unexpired Argon2id-hashed credentials of the client. A nil client
// has none.
func argon2idCredentials(client *registry.Client, now time.Time) []*clientsecret.Credential {
	if client == nil {
		return nil
	}
	var current []*clientsecret.Credential
	for i := range client.Secrets {
		if credential := &client.Secrets[i]; credential.Verifier.IsSlow() && credential.Current(now) {
			current = append(current, credential)
		}
	}
	return current
}

// remembered returns the credential that the secret matched before, or nil. The caller must check
// everything that does not depend on the secret, such as suspension.
func (c *argon2idChecker) remembered(client *registry.Client, credentials []*clientsecret.Credential, secret string) *clientsecret.Credential {
	for _, credential := range credentials {
		if c.remembers(c.fingerprint(client.UID, &credential.Verifier, secret)) {
			c.checks.WithLabelValues(outcomeRemembered).Inc()
			return credential
		}
	}
	return nil
}

// verify runs Argon2id and returns the credential that the secret matches, or nil.
//
// The error is oauth.ErrBusy.
func (c *argon2idChecker) verify(ctx context.Context, client *registry.Client, credentials []*clientsecret.Credential, secret string) (*clientsecret.Credential, error) {
	// PBKDF2 and bcrypt need hardly any memory, but as much CPU as Argon2id.
	memory := int64(clientsecret.DefaultArgon2idMemory)
	for _, credential := range credentials {
		memory = max(memory, credential.Verifier.Memory())
	}
	if !c.enqueue(client.UID) {
		c.checks.WithLabelValues(outcomeBusy).Inc()
		return nil, oauth.ErrBusy
	}
	defer c.dequeue(client.UID)
	weight := min(memory, c.memorySize)
	if c.memory.Acquire(ctx, weight) != nil {
		return nil, oauth.ErrBusy // the client has disconnected
	}
	defer c.memory.Release(weight)
	c.checks.WithLabelValues(outcomeVerified).Inc()
	var matched *clientsecret.Credential
	for _, credential := range credentials {
		if credential.Verifier.Verify(secret) {
			matched = credential
			c.remember(c.fingerprint(client.UID, &credential.Verifier, secret))
		}
	}
	return matched, nil
}

// enqueue reserves a place in the queue and reports whether one was free.
func (c *argon2idChecker) enqueue(clientUID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued >= maxQueued || c.queuedPerClient[clientUID] >= maxQueuedPerClient {
		return false
	}
	c.queued++
	c.queuedPerClient[clientUID]++
	return true
}

func (c *argon2idChecker) dequeue(clientUID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued--
	if c.queuedPerClient[clientUID]--; c.queuedPerClient[clientUID] == 0 {
		delete(c.queuedPerClient, clientUID)
	}
}

// fingerprint identifies a correct secret of a client together with its stored hash. Each part is
// prefixed with its length, so that different inputs are never hashed as the same bytes.
func (c *argon2idChecker) fingerprint(clientUID string, v *clientsecret.Verifier, secret string) fingerprint {
	mac := hmac.New(sha256.New, c.key[:])
	for _, part := range []string{clientUID, v.String(), secret} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return fingerprint(mac.Sum(nil))
}

func (c *argon2idChecker) remembers(f fingerprint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.recent[f]; ok {
		return true
	}
	if _, ok := c.older[f]; ok {
		c.rememberLocked(f)
		return true
	}
	return false
}

func (c *argon2idChecker) remember(f fingerprint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rememberLocked(f)
}

func (c *argon2idChecker) rememberLocked(f fingerprint) {
	if len(c.recent) >= maxRemembered {
		c.recent, c.older = map[fingerprint]struct{}{}, c.recent
	}
	c.recent[f] = struct{}{}
}
