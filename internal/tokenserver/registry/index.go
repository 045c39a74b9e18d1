package registry

import (
	"hash/maphash"
	"sync/atomic"
)

// index finds clients by client id. Any number of readers take no lock, beside one writer.
//
// It is a flat table with linear probing, since among very many clients a look-up costs
// what it waits for memory: here a slot, the client, and its id. A tree such as sync.Map's waits at each level.
type index struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]slot] // a power of two; replaced whole when it fills up

	// What follows belongs to the writer.
	taken int // slots with a hash, whether a client is in them or was
	live  int // slots with a client
}

// slot is where a client stands. The hash is set once, after the client: zero ends a
// reader's search. When the client goes its place is nil, and the search goes on.
type slot struct {
	hash   atomic.Uint64
	client atomic.Pointer[Client]
}

// minSlots is the size of an index with few clients.
const minSlots = 8

func newIndex() *index {
	x := &index{seed: maphash.MakeSeed()}
	slots := make([]slot, minSlots)
	x.slots.Store(&slots)
	return x
}

// load returns the client of that id, or nil.
func (x *index) load(id string) *Client {
	slots, hash := *x.slots.Load(), x.hash(id)
	if s := find(slots, hash, id); s != nil {
		return s.client.Load()
	}
	return nil
}

// store puts a client under its id, in the place of the one that was there.
func (x *index) store(client *Client) {
	hash := x.hash(client.ID)
	if s := find(*x.slots.Load(), hash, client.ID); s != nil {
		s.client.Store(client)
		return
	}
	if slots := *x.slots.Load(); x.taken+1 > len(slots)/4*3 {
		x.rebuild()
	}
	x.insert(*x.slots.Load(), hash, client)
	x.live++
}

// remove takes out the client of that id.
func (x *index) remove(id string) {
	if s := find(*x.slots.Load(), x.hash(id), id); s != nil {
		s.client.Store(nil)
		x.live--
	}
	if slots := *x.slots.Load(); len(slots) > minSlots && x.live < len(slots)/8 {
		x.rebuild()
	}
}

// find returns the slot that holds the client of that id, or nil.
func find(slots []slot, hash uint64, id string) *slot {
	mask := uint64(len(slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &slots[i]
		switch s.hash.Load() {
		case 0:
			return nil
		case hash:
			if client := s.client.Load(); client != nil && client.ID == id {
				return s
			}
		}
	}
}

// insert puts a client into the first slot that never had one; there is always one.
func (x *index) insert(slots []slot, hash uint64, client *Client) {
	mask := uint64(len(slots) - 1)
	i := hash & mask
	for slots[i].hash.Load() != 0 {
		i = (i + 1) & mask
	}
	slots[i].client.Store(client)
	slots[i].hash.Store(hash)
	x.taken++
}

// rebuild makes as many slots as the clients and as many again need, without those of clients that have gone.
// Readers go on in the old slots until the new ones are complete.
func (x *index) rebuild() {
	size := minSlots
	for size/2 < x.live+1 {
		size *= 2
	}
	slots := make([]slot, size)
	x.taken = 0
	for i := range *x.slots.Load() {
		if client := (*x.slots.Load())[i].client.Load(); client != nil {
			x.insert(slots, x.hash(client.ID), client)
		}
	}
	x.slots.Store(&slots)
}

// hash returns the hash of an id, never zero.
func (x *index) hash(id string) uint64 { return maphash.String(x.seed, id) | 1<<63 }
