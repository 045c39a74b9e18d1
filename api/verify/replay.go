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

	mu       sync.Mutex
	used     map[[16]byte]usedProof
	byClient map[string]int
	cleaned  time.Time
}

type usedProof struct {
	client  string
	expires time.Time
}

func newUsedProofs(limit int) *usedProofs {
	return &usedProofs{limit: limit, used: map[[16]byte]usedProof{}, byClient: map[string]int{}}
}

// use records a client's proof by the key. It counts by client, because a client can have any number of keys.
//
// Errors: ErrProof, ErrTooManyProofs.
func (u *usedProofs) use(client, jkt, id string, expires, now time.Time) error {
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
	// A quarter of the free space, rounded up, leaves space for other clients.
	if u.byClient[client] >= (u.limit-len(u.used)+3)/4 {
		return ErrTooManyProofs
	}
	u.used[name] = usedProof{client, expires}
	u.byClient[client]++
	return nil
}

func (u *usedProofs) clean(now time.Time) {
	u.cleaned = now
	for name, proof := range u.used {
		if now.Before(proof.expires.Add(proofRetention)) {
			continue
		}
		if u.byClient[proof.client]--; u.byClient[proof.client] == 0 {
			delete(u.byClient, proof.client)
		}
		delete(u.used, name)
	}
}
