package replay_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
)

var now = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// ownerOf returns an owner in a namespace of its own.
func ownerOf(uid string) replay.Owner { return replay.Owner{Namespace: "of-" + uid, UID: uid} }

func TestMemory(t *testing.T) {
	m := replay.New(1000)
	use := func(owner, id string, expiresIn, after time.Duration, want error) {
		t.Helper()
		if err := m.Use(ownerOf(owner), id, now.Add(expiresIn), now.Add(after)); !errors.Is(err, want) {
			t.Errorf("ID %s of owner %s after %s: error %v, want %v", id, owner, after, err, want)
		}
	}
	const long = 5 * time.Minute
	use("a", "one", long, 0, nil)
	use("a", "one", long, 0, replay.ErrUsed)
	use("a", "one", time.Minute, 0, replay.ErrUsed)
	use("b", "one", long, 0, nil) // owners choose their IDs independently
	use("a", "two", long, 0, nil)
	use("", "aone", long, 0, nil)
	use("a", "one", long, long-time.Second, replay.ErrUsed)
	use("a", "one", long, -time.Hour, replay.ErrUsed) // the clock stepped back
	use("a", "one", time.Hour, 10*time.Minute, nil)
}

// A full Memory rejects new IDs and doesn't drop any before they expire. There is always space for
// other owners.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 12
	m := replay.New(limit)
	total := 0
	for i := range 12 {
		owner, stored := strconv.Itoa(i), 0
		for ; ; stored++ {
			err := m.Use(ownerOf(owner), strconv.Itoa(stored), now.Add(time.Minute), now)
			if errors.Is(err, replay.ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if want := (limit + 1) / 5; i == 0 && stored != want { // a quarter of what is free then
			t.Errorf("stored %d IDs of the first owner, want %d", stored, want)
		}
		total += stored
	}
	if total > limit {
		t.Errorf("stored %d IDs, want at most %d", total, limit)
	}
	if err := m.Use(ownerOf("other"), "one", now.Add(time.Minute), now); err != nil {
		t.Errorf("first ID of another owner: %v", err)
	}
	testkit.Diff(t, "oldest ID again", replay.ErrUsed, m.Use(ownerOf("0"), "0", now.Add(time.Minute), now), cmpopts.EquateErrors())
	if err := m.Use(ownerOf("0"), "0", now.Add(time.Hour), now.Add(10*time.Minute)); err != nil {
		t.Errorf("after all IDs expired: %v", err)
	}
}

// The owners in one namespace leave most of the space to other namespaces, also if they are many, and
// get it back after their IDs have expired. A namespace with the name of an owner is not that owner.
func TestMemoryIsSharedBetweenNamespaces(t *testing.T) {
	const limit = 3 << 10
	m := replay.New(limit)
	fill := func(after time.Duration) int {
		stored := 0
		for i := range limit {
			if m.Use(replay.Owner{Namespace: "busy", UID: strconv.Itoa(i % 100)}, strconv.Itoa(i)+after.String(), now.Add(after+time.Minute), now.Add(after)) == nil {
				stored++
			}
		}
		return stored
	}
	testkit.Diff(t, "stored IDs of one namespace", limit/3, fill(0))
	if err := m.Use(replay.Owner{Namespace: "busy", UID: "another"}, "one", now.Add(time.Minute), now); !errors.Is(err, replay.ErrFull) {
		t.Errorf("another owner in the namespace: error %v, want %v", err, replay.ErrFull)
	}
	stored := 0
	for m.Use(replay.Owner{Namespace: "idle", UID: "busy"}, strconv.Itoa(stored), now.Add(time.Minute), now) == nil {
		stored++
	}
	if want := 2 * limit / 15; stored < want-1 || stored > want+1 {
		t.Errorf("stored %d IDs of one owner in another namespace, want about %d", stored, want)
	}
	testkit.Diff(t, "stored IDs of the namespace after the others expired", limit/3, fill(time.Hour))
}

// An ID that is used concurrently is accepted only once.
func TestMemoryAcceptsConcurrentUseOnce(t *testing.T) {
	m := replay.New(1000)
	var accepted atomic.Int64
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			if m.Use(ownerOf("a"), "one", now.Add(time.Minute), now) == nil {
				accepted.Add(1)
			}
		})
	}
	running.Wait()
	testkit.Diff(t, "how often it is accepted", int64(1), accepted.Load())
}
