package registry

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The index is a map of client ids, whatever comes and goes.
func TestIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := newIndex(), map[string]*Client{}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			id := strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "id"))
			if rapid.Bool().Draw(t, "remove") {
				x.remove(id)
				delete(model, id)
			} else {
				c := &Client{ID: id}
				x.store(c)
				model[id] = c
			}
			if x.live != len(model) {
				t.Fatalf("it counts %d clients of %d", x.live, len(model))
			}
			for n := range 41 {
				if id := strconv.Itoa(n); x.load(id) != model[id] {
					t.Fatalf("id %s: %v, want %v", id, x.load(id), model[id])
				}
			}
		}
		if slots := len(*x.slots.Load()); slots > 256 {
			t.Fatalf("%d slots for %d clients", slots, len(model))
		}
	})
}

// A reader always finds a client that stays, whatever the writer does beside it.
func TestIndexIsReadWhileItChanges(t *testing.T) {
	x := newIndex()
	const staying = 100
	for n := range staying {
		x.store(&Client{ID: fmt.Sprintf("stays-%d", n)})
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				id := fmt.Sprintf("stays-%d", n%staying)
				if c := x.load(id); c == nil || c.ID != id {
					t.Errorf("%s: %v", id, c)
					return
				}
			}
		})
	}
	for n := range 20_000 {
		x.store(&Client{ID: fmt.Sprintf("comes-%d", n)})
		if n >= 50 {
			x.remove(fmt.Sprintf("comes-%d", n-50))
		}
	}
	close(done)
	readers.Wait()
	if x.live != staying+50 {
		t.Errorf("%d clients, want %d", x.live, staying+50)
	}
	if slots := len(*x.slots.Load()); slots > 1024 {
		t.Errorf("%d slots for %d clients: those of clients that went are kept", slots, x.live)
	}
}
