package clientassertion

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

var (
	// ErrUsed means that the assertion was already used.
	ErrUsed = errors.New("assertion was used before")
	// ErrFull means that the assertion can't be accepted, because there is no space to store it as
	// used.
	ErrFull = errors.New("too many used assertions have not expired yet")
)

const (
	// MaxStored is the maximum number of stored assertions. They use about 10 MiB.
	MaxStored = 1 << 18
	// shareDivisor limits each client to a quarter of the free space, so that there is always space
	// for other clients.
	shareDivisor = 4
	// MaxStoredOfOne is the maximum number of assertions stored for one client if no other client
	// has any.
	MaxStoredOfOne = MaxStored/(shareDivisor+1) + 1

	// bucketLength is the range of expiration times covered by one bucket.
	bucketLength = 30 * time.Second
	// retention is how long assertions are kept after they expire, in case the clock steps back.
	retention = 30 * time.Second
)

// Memory stores used assertions until they expire, so that they can't be reused. It never drops an
// assertion before then. If it is full, it rejects new assertions. The zero value is not usable;
// use NewMemory. Memory is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	buckets map[int64]*bucket // by expiration, in units of bucketLength
	used    int
	usedBy  map[string]int // number of stored assertions by client UID
}

// bucket contains assertions that expire at about the same time.
type bucket struct {
	used   map[identity]struct{}
	usedBy map[string]int
}

// identity identifies an assertion by its client and jti.
type identity [16]byte

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{buckets: map[int64]*bucket{}, usedBy: map[string]int{}}
}

// Use records that the given client used an assertion. The caller must have verified the assertion.
//
// Errors: ErrUsed, ErrFull.
func (m *Memory) Use(clientUID string, a *Assertion, now time.Time) error {
	id, expiry := identify(clientUID, a.Claims.ID), a.Claims.Expiry.Time().Unix()/int64(bucketLength/time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropExpired(now)
	// A client must not use the same jti in two assertions, even if they expire at different times.
	for _, b := range m.buckets {
		if _, used := b.used[id]; used {
			return ErrUsed
		}
	}
	if m.usedBy[clientUID] >= (MaxStored-m.used)/shareDivisor {
		return ErrFull
	}
	b, ok := m.buckets[expiry]
	if !ok {
		b = &bucket{used: map[identity]struct{}{}, usedBy: map[string]int{}}
		m.buckets[expiry] = b
	}
	b.used[id] = struct{}{}
	b.usedBy[clientUID]++
	m.used++
	m.usedBy[clientUID]++
	return nil
}

// dropExpired drops expired buckets. There are never more than about a dozen.
func (m *Memory) dropExpired(now time.Time) {
	for expiry, b := range m.buckets {
		if last := time.Unix((expiry+1)*int64(bucketLength/time.Second), 0); now.Before(last.Add(retention)) {
			continue
		}
		m.used -= len(b.used)
		for uid, n := range b.usedBy {
			if m.usedBy[uid] -= n; m.usedBy[uid] == 0 {
				delete(m.usedBy, uid)
			}
		}
		delete(m.buckets, expiry)
	}
}

func identify(clientUID, id string) identity {
	hash := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(clientUID)))
	hash.Write(length[:])
	hash.Write([]byte(clientUID))
	hash.Write([]byte(id))
	return identity(hash.Sum(nil)[:len(identity{})])
}
