package token

import (
	"crypto/sha256"
	"sync"
)

// MemoryBytes is the size of the Memory of a process.
const MemoryBytes = 8 << 20

// Memory remembers the contents of tokens whose signature, issuer, and times were valid, so that they aren't
// computed again for a token that is presented again. Whether they are valid now is checked each time. It is safe
// for concurrent use. A nil Memory remembers nothing.
//
// There are two generations, each of half the size. When newer is full, it replaces older, whose contents are
// forgotten.
type Memory struct {
	limit int // the size of a generation, in bytes

	mu           sync.Mutex
	newer, older map[fingerprint]*Verified
	size         int // of newer
}

// fingerprint is the digest of a whole token, and of the issuer and the key that verified it.
type fingerprint [sha256.Size]byte

// NewMemory returns a Memory of the given size in bytes.
func NewMemory(size int) *Memory { return &Memory{limit: size / 2} }

// get returns what is remembered of a token, or nil. The caller must not modify it.
func (m *Memory) get(id fingerprint) *Verified {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.newer[id]; v != nil {
		return v
	}
	v := m.older[id]
	if v != nil {
		m.add(id, v)
	}
	return v
}

// set remembers the content of a token, which must not be modified from now on.
func (m *Memory) set(id fingerprint, v *Verified) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newer[id] == nil {
		m.add(id, v)
	}
}

func (m *Memory) add(id fingerprint, v *Verified) {
	size := v.size()
	if size > m.limit {
		return
	}
	if m.newer == nil || m.size+size > m.limit {
		m.newer, m.older, m.size = map[fingerprint]*Verified{}, m.newer, 0
	}
	m.newer[id] = v
	m.size += size
}

// size returns how many bytes of memory v needs at most: the payload, the texts in it once more, the list of audiences,
// which can have as much space again, and the rest, of which a delegation has more.
func (v *Verified) size() int {
	size := 2*len(v.Payload) + 32*len(v.Audience) + 512
	if v.Delegation != nil {
		size += len(v.Payload)
	}
	return size
}
