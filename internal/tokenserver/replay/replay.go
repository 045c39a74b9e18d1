// Package replay remembers the IDs of single-use JWTs until they expire, so that an intercepted one
// can't be used again.
package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

var (
	// ErrUsed means that the owner already used the ID.
	ErrUsed = errors.New("its jti was used before")
	// ErrFull means that the JWT can't be accepted, because there is no space to store its ID.
	ErrFull = errors.New("too many used IDs have not expired yet")
)

const (
	// shareDivisor limits each owner to a quarter of the free space, so that there is always space
	// for other owners.
	shareDivisor = 4
	// namespaceShareDivisor limits all owners in a namespace to half of the free space, so that a
	// tenant with many owners leaves space for other tenants.
	namespaceShareDivisor = 2

	// bucketLength is the range of expiration times covered by one bucket.
	bucketLength = 30 * time.Second
	// retention is how long IDs are kept after they expire, in case the clock steps back.
	retention = 30 * time.Second
)

// Memory stores used IDs until they expire. It never drops an ID before then. If it is full, it
// rejects new IDs. The zero value is not usable; use New. Memory is safe for concurrent use.
type Memory struct {
	limit int

	mu      sync.Mutex
	buckets map[int64]*bucket // by expiration, in units of bucketLength
	used    int
	usedBy  map[Owner]int // number of stored IDs by owner, and by namespace in an Owner without a UID
}

// Owner is a client that uses IDs.
type Owner struct {
	Namespace string
	UID       string // not empty
}

// bucket contains IDs that expire at about the same time.
type bucket struct {
	used   map[identity]struct{}
	usedBy map[Owner]int
}

// identity identifies an ID and its owner.
type identity [16]byte

// New returns an empty Memory for at most limit IDs. Each one uses about 40 bytes.
func New(limit int) *Memory {
	return &Memory{limit: limit, buckets: map[int64]*bucket{}, usedBy: map[Owner]int{}}
}

// Use records that the owner used an ID, which is valid until expires. The caller must have verified
// the JWT, so that nobody else can use up the owner's IDs.
//
// Errors: ErrUsed, ErrFull.
func (m *Memory) Use(owner Owner, id string, expires, now time.Time) error {
	key, expiry := identify(owner.UID, id), expires.Unix()/int64(bucketLength/time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropExpired(now)
	// An owner must not use the same ID twice, even if the two expire at different times.
	for _, b := range m.buckets {
		if _, used := b.used[key]; used {
			return ErrUsed
		}
	}
	free, namespace := m.limit-m.used, Owner{Namespace: owner.Namespace}
	if m.usedBy[owner] >= free/shareDivisor || m.usedBy[namespace] >= free/namespaceShareDivisor {
		return ErrFull
	}
	b, ok := m.buckets[expiry]
	if !ok {
		b = &bucket{used: map[identity]struct{}{}, usedBy: map[Owner]int{}}
		m.buckets[expiry] = b
	}
	b.used[key] = struct{}{}
	m.used++
	for _, account := range []Owner{owner, namespace} {
		b.usedBy[account]++
		m.usedBy[account]++
	}
	return nil
}

// dropExpired drops expired buckets. There are never more than about a dozen.
func (m *Memory) dropExpired(now time.Time) {
	for expiry, b := range m.buckets {
		if last := time.Unix((expiry+1)*int64(bucketLength/time.Second), 0); now.Before(last.Add(retention)) {
			continue
		}
		m.used -= len(b.used)
		for owner, n := range b.usedBy {
			if m.usedBy[owner] -= n; m.usedBy[owner] == 0 {
				delete(m.usedBy, owner)
			}
		}
		delete(m.buckets, expiry)
	}
}

func identify(owner, id string) identity {
	hash := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(owner)))
	hash.Write(length[:])
	hash.Write([]byte(owner))
	hash.Write([]byte(id))
	return identity(hash.Sum(nil)[:len(identity{})])
}
