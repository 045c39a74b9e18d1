package clientassertion_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

// withID returns an assertion with the given jti that expires after the given duration.
func withID(id string, expiresIn time.Duration) *clientassertion.Assertion {
	return &clientassertion.Assertion{Claims: jwt.Claims{ID: id, Expiry: jwt.NewNumericDate(now.Add(expiresIn))}}
}

func TestMemory(t *testing.T) {
	m := clientassertion.NewMemory()
	use := func(client string, a *clientassertion.Assertion, after time.Duration, want error) {
		t.Helper()
		if err := m.Use(client, a, now.Add(after)); !errors.Is(err, want) {
			t.Errorf("assertion %s of client %s after %s: error %v, want %v", a.Claims.ID, client, after, err, want)
		}
	}
	a := withID("one", 5*time.Minute)
	use("a", a, 0, nil)
	use("a", a, 0, clientassertion.ErrUsed)
	use("a", withID("one", time.Minute), 0, clientassertion.ErrUsed)
	use("b", a, 0, nil) // clients choose their IDs independently
	use("a", withID("two", 5*time.Minute), 0, nil)
	use("", withID("aone", 5*time.Minute), 0, nil)
	use("a", a, 5*time.Minute-time.Second, clientassertion.ErrUsed)
	use("a", a, -time.Hour, clientassertion.ErrUsed) // the clock stepped back
	use("a", withID("one", time.Hour), 10*time.Minute, nil)
}

// A full Memory rejects new assertions and doesn't drop any before they expire. There is always
// space for other clients.
func TestMemoryIsBounded(t *testing.T) {
	m := clientassertion.NewMemory()
	total := 0
	for i := range 12 {
		client, stored := strconv.Itoa(i), 0
		for ; ; stored++ {
			err := m.Use(client, withID(strconv.Itoa(stored), time.Minute), now)
			if errors.Is(err, clientassertion.ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if i == 0 && stored != clientassertion.MaxStoredOfOne {
			t.Errorf("stored %d assertions of the first client, want %d", stored, clientassertion.MaxStoredOfOne)
		}
		total += stored
	}
	if total > clientassertion.MaxStored {
		t.Errorf("stored %d assertions, want at most %d", total, clientassertion.MaxStored)
	}
	if err := m.Use("other", withID("one", time.Minute), now); err != nil {
		t.Errorf("first assertion of another client: %v", err)
	}
	if err := m.Use("0", withID("0", time.Minute), now); !errors.Is(err, clientassertion.ErrUsed) {
		t.Errorf("oldest assertion again: error %v, want %v", err, clientassertion.ErrUsed)
	}
	if err := m.Use("0", withID("0", time.Hour), now.Add(10*time.Minute)); err != nil {
		t.Errorf("after all assertions expired: %v", err)
	}
}

// An assertion that is used concurrently is accepted only once.
func TestMemoryAcceptsConcurrentUseOnce(t *testing.T) {
	m := clientassertion.NewMemory()
	var accepted atomic.Int64
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			if m.Use("a", withID("one", time.Minute), now) == nil {
				accepted.Add(1)
			}
		})
	}
	running.Wait()
	if accepted.Load() != 1 {
		t.Errorf("accepted %d times, want once", accepted.Load())
	}
}
