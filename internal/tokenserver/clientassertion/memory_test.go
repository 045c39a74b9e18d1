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

// named is an assertion with that jti that ends in that time.
func named(id string, ends time.Duration) *clientassertion.Assertion {
	return &clientassertion.Assertion{Claims: jwt.Claims{ID: id, Expiry: jwt.NewNumericDate(now.Add(ends))}}
}

func TestMemory(t *testing.T) {
	m := clientassertion.NewMemory()
	use := func(client string, a *clientassertion.Assertion, after time.Duration, want error) {
		t.Helper()
		if err := m.Use(client, a, now.Add(after)); !errors.Is(err, want) {
			t.Errorf("%v of %s after %s: %v, want %v", a.Claims.ID, client, after, err, want)
		}
	}
	a := named("one", 5*time.Minute)
	use("a", a, 0, nil)
	use("a", a, 0, clientassertion.ErrUsed)
	use("a", named("one", time.Minute), 0, clientassertion.ErrUsed)
	use("b", a, 0, nil) // ids are a client's own
	use("a", named("two", 5*time.Minute), 0, nil)
	use("", named("aone", 5*time.Minute), 0, nil)
	use("a", a, 5*time.Minute-time.Second, clientassertion.ErrUsed)
	use("a", a, -time.Hour, clientassertion.ErrUsed) // a clock that steps back
	use("a", named("one", time.Hour), 10*time.Minute, nil)
}

// It is full rather than forget, and however many clients take what they can get, there is
// room for another. With time there is room again.
func TestMemoryIsBounded(t *testing.T) {
	m := clientassertion.NewMemory()
	total := 0
	for i := range 12 {
		client, taken := strconv.Itoa(i), 0
		for ; ; taken++ {
			err := m.Use(client, named(strconv.Itoa(taken), time.Minute), now)
			if errors.Is(err, clientassertion.ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if i == 0 && taken != clientassertion.MaxRememberedOfOne {
			t.Errorf("the first client has %d, want %d", taken, clientassertion.MaxRememberedOfOne)
		}
		total += taken
	}
	if total > clientassertion.MaxRemembered {
		t.Errorf("%d are remembered", total)
	}
	if err := m.Use("other", named("one", time.Minute), now); err != nil {
		t.Errorf("one of another: %v", err)
	}
	if err := m.Use("0", named("0", time.Minute), now); !errors.Is(err, clientassertion.ErrUsed) {
		t.Errorf("the oldest again: %v", err)
	}
	if err := m.Use("0", named("0", time.Hour), now.Add(10*time.Minute)); err != nil {
		t.Errorf("when all have ended: %v", err)
	}
}

// Of many that present one assertion at once one succeeds.
func TestMemoryTakesOneOfMany(t *testing.T) {
	m := clientassertion.NewMemory()
	var taken atomic.Int64
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			if m.Use("a", named("one", time.Minute), now) == nil {
				taken.Add(1)
			}
		})
	}
	running.Wait()
	if taken.Load() != 1 {
		t.Errorf("%d were taken", taken.Load())
	}
}
