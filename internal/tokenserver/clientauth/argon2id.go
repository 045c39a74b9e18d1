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

// The bounds of slow verification. What others pay for it is a core, or one of several, and
// 64 MiB at most.
const (
	// maxSlowMemory is for all verifications together: it fits into a token server's limit
	// once more as garbage, and holds the largest that clientsecret accepts.
	maxSlowMemory = 64 << 20
	// maxQueued is how many requests wait or are verified at a time, some tenths of a
	// second's worth, and maxQueuedOfOne how many of one client: a flood for one leaves room for others.
	maxQueued      = 16
	maxQueuedOfOne = 4
	// maxRemembered is how many good results are remembered, twice: about 1 MiB.
	maxRemembered = 8192
)

// What becomes of a check of a secret whose verifier is slow.
const (
	slowRemembered = "remembered"
	slowVerified   = "verified"
	slowBusy       = "busy"
)

// slowSecrets verifies secrets whose verifiers take milliseconds and megabytes: few at a time,
// behind a short queue, and each good one once. It is safe for concurrent use.
type slowSecrets struct {
	checks *prometheus.CounterVec
	room   *semaphore.Weighted // of bytes
	size   int64
	key    [sha256.Size]byte // of this process alone: what is remembered says nothing outside of it

	mu          sync.Mutex
	queued      int
	queuedOfOne map[string]int // client UID → its share
	// recent and older are fingerprints of good results. When recent is full it becomes
	// older, and what was older is forgotten unless it was needed again.
	recent, older map[fingerprint]struct{}
}

type fingerprint [sha256.Size]byte

func newSlowSecrets(checks *prometheus.CounterVec) *slowSecrets {
	s := &slowSecrets{
		checks:      checks,
		size:        slowRoom(runtime.GOMAXPROCS(0)),
		queuedOfOne: map[string]int{},
		recent:      map[fingerprint]struct{}{},
	}
	s.room = semaphore.NewWeighted(s.size)
	_, _ = rand.Read(s.key[:]) // ends the process rather than fail
	return s
}

// slowRoom returns the memory for slow verifications: enough for one of the usual size for each core but one,
// which stays for everybody else.
func slowRoom(cores int) int64 {
	return min(max(1, int64(cores-1))*clientsecret.DefaultArgon2idMemory, maxSlowMemory)
}

// remembered returns the one of the client's credentials that is known to accept secret, or nil.
// The caller must check everything that doesn't depend on the secret, such as a suspension.
func (s *slowSecrets) remembered(client *registry.Client, credentials []*clientsecret.Credential, secret string) *clientsecret.Credential {
	for _, c := range credentials {
		if s.remembers(s.fingerprint(client.UID, &c.Verifier, secret)) {
			s.checks.WithLabelValues(slowRemembered).Inc()
			return c
		}
	}
	return nil
}

// verify is as remembered, but for a secret that may be good and isn't remembered.
//
// The error is oauth.ErrBusy.
func (s *slowSecrets) verify(ctx context.Context, client *registry.Client, credentials []*clientsecret.Credential, secret string) (*clientsecret.Credential, error) {
	memory := int64(0)
	for _, c := range credentials {
		memory = max(memory, c.Verifier.Memory())
	}
	if !s.enter(client.UID) {
		s.checks.WithLabelValues(slowBusy).Inc()
		return nil, oauth.ErrBusy
	}
	defer s.leave(client.UID)
	weight := min(memory, s.size)
	if s.room.Acquire(ctx, weight) != nil {
		return nil, oauth.ErrBusy // nobody reads it: the caller has gone
	}
	s.checks.WithLabelValues(slowVerified).Inc()
	defer s.room.Release(weight)
	var matched *clientsecret.Credential
	for _, c := range credentials {
		if c.Verifier.Verify(secret) {
			matched = c
			s.remember(s.fingerprint(client.UID, &c.Verifier, secret))
		}
	}
	return matched, nil
}

// argon2idCredentials returns the client's current credentials with an Argon2id hash. It returns
// none for a nil client.
func argon2idCredentials(client *registry.Client, now time.Time) []*clientsecret.Credential {
	if client == nil {
		return nil
	}
	var current []*clientsecret.Credential
	for i := range client.Secrets {
		if c := &client.Secrets[i]; c.Verifier.Slow() && c.Current(now) {
			current = append(current, c)
		}
	}
	return current
}

// enter takes a place in the queue, and reports whether there was one.
func (s *slowSecrets) enter(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued >= maxQueued || s.queuedOfOne[uid] >= maxQueuedOfOne {
		return false
	}
	s.queued++
	s.queuedOfOne[uid]++
	return true
}

func (s *slowSecrets) leave(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued--
	if s.queuedOfOne[uid]--; s.queuedOfOne[uid] == 0 {
		delete(s.queuedOfOne, uid)
	}
}

// fingerprint names a good result: of this client, by this hash, with this secret.
func (s *slowSecrets) fingerprint(uid string, v *clientsecret.Verifier, secret string) fingerprint {
	mac := hmac.New(sha256.New, s.key[:])
	for _, part := range []string{uid, v.String(), secret} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return fingerprint(mac.Sum(nil))
}

func (s *slowSecrets) remembers(f fingerprint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.recent[f]; ok {
		return true
	}
	if _, ok := s.older[f]; ok {
		s.rememberLocked(f)
		return true
	}
	return false
}

func (s *slowSecrets) remember(f fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rememberLocked(f)
}

func (s *slowSecrets) rememberLocked(f fingerprint) {
	if len(s.recent) >= maxRemembered {
		s.recent, s.older = map[fingerprint]struct{}{}, s.recent
	}
	s.recent[f] = struct{}{}
}
