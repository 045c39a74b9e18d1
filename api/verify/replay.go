package verify

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// proofRetention is how long a proof is remembered after it has expired, in case the clock steps back.
const proofRetention = 30 * time.Second

// usedProofs remembers the proofs that were used until they have expired, so that an intercepted request
// can't be repeated. It never forgets one earlier, and rejects new ones if it is full.
type usedProofs struct {
	limit int

	mu      sync.Mutex
	used    map[[16]byte]usedProof
	byKey   map[string]int
	cleaned time.Time
}

type usedProof struct {
	jkt     string
	expires time.Time
}

func newUsedProofs(limit int) *usedProofs {
	return &usedProofs{limit: limit, used: map[[16]byte]usedProof{}, byKey: map[string]int{}}
}

// use records a proof by the key.
//
// Errors: ErrProof, ErrTooManyProofs.
func (u *usedProofs) use(jkt, id string, expires, now time.Time) error {
	hash := sha256.Sum256([]byte(jkt + " " + id)) // a JKT contains no space
	name := [16]byte(hash[:16])
	u.mu.Lock()
	defer u.mu.Unlock()
	if age := now.Sub(u.cleaned); age < 0 || age >= proofRetention {
		u.clean(now)
	}
	if _, used := u.used[name]; used {
		return fmt.Errorf("%w: it was used before", ErrProof)
	}
	// A quarter of the free space, rounded up, leaves space for other keys.
	if u.byKey[jkt] >= (u.limit-len(u.used)+3)/4 {
		return ErrTooManyProofs
	}
	u.used[name] = usedProof{jkt, expires}
	u.byKey[jkt]++
	return nil
}

func (u *usedProofs) clean(now time.Time) {
	u.cleaned = now
	for name, proof := range u.used {
		if now.Before(proof.expires.Add(proofRetention)) {
			continue
		}
		if u.byKey[proof.jkt]--; u.byKey[proof.jkt] == 0 {
			delete(u.byKey, proof.jkt)
		}
		delete(u.used, name)
	}
}
