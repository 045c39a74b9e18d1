package clientassertion

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

var (
	// ErrUsed says that an assertion was used before.
	ErrUsed = errors.New("assertion was used before")
	// ErrFull says that no more assertions can be remembered now, and so none be taken.
	ErrFull = errors.New("too many assertions are remembered")
)

const (
	// MaxRemembered is how many assertions are remembered, about 10 MiB.
	MaxRemembered = 1 << 18
	// greediest is the part of what is free that one client may take: however many clients take
	// theirs, there is room for another.
	greediest = 4
	// MaxRememberedOfOne is how many of one client are remembered when nobody else has any.
	MaxRememberedOfOne = MaxRemembered/(greediest+1) + 1

	// bucketLength is how far apart the ends of assertions are that are forgotten together.
	bucketLength = 30 * time.Second
	// forgetAfter is how long after its end an assertion is forgotten, for a clock that steps back.
	forgetAfter = 30 * time.Second
)

// Memory remembers the assertions that were used, each until it has expired: nobody can use it
// again. It forgets none before that; when it is full it takes no more. The zero value is not
// usable; NewMemory makes one. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	buckets map[int64]*bucket // by end, in bucketLengths
	used    int
	usedBy  map[string]int // client UID → its share
}

// bucket are the assertions that end at about the same time.
type bucket struct {
	used   map[identity]struct{}
	usedBy map[string]int
}

// identity names an assertion: the client and its jti.
type identity [16]byte

// NewMemory returns a memory of nothing.
func NewMemory() *Memory {
	return &Memory{buckets: map[int64]*bucket{}, usedBy: map[string]int{}}
}

// Use takes note that a client uses an assertion that it has signed and that is valid at that time.
//
// Errors: ErrUsed, ErrFull.
func (m *Memory) Use(clientUID string, a *Assertion, now time.Time) error {
	id, end := identify(clientUID, a.Claims.ID), a.Claims.Expiry.Time().Unix()/int64(bucketLength/time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	// The same jti with another end is another assertion of a client that breaks the rules: no
	// two of them are to have one.
	for _, b := range m.buckets {
		if _, used := b.used[id]; used {
			return ErrUsed
		}
	}
	if m.usedBy[clientUID] >= (MaxRemembered-m.used)/greediest {
		return ErrFull
	}
	b, ok := m.buckets[end]
	if !ok {
		b = &bucket{used: map[identity]struct{}{}, usedBy: map[string]int{}}
		m.buckets[end] = b
	}
	b.used[id] = struct{}{}
	b.usedBy[clientUID]++
	m.used++
	m.usedBy[clientUID]++
	return nil
}

// forget drops the buckets that have ended. There are never more than a dozen or so.
func (m *Memory) forget(now time.Time) {
	for end, b := range m.buckets {
		if last := time.Unix((end+1)*int64(bucketLength/time.Second), 0); now.Before(last.Add(forgetAfter)) {
			continue
		}
		m.used -= len(b.used)
		for uid, n := range b.usedBy {
			if m.usedBy[uid] -= n; m.usedBy[uid] == 0 {
				delete(m.usedBy, uid)
			}
		}
		delete(m.buckets, end)
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
