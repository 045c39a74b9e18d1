// Package registry is the token server's picture of realms and clients in memory.
//
// Requests read it without a lock and without I/O. Changes come one at a time from the
// feed; each costs the same however many clients there are.
package registry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// Registry holds realms by name and their clients by client id. The zero value is
// not usable; New makes one.
type Registry struct {
	served atomic.Pointer[map[string]*Realm] // by name; replaced whole, as realms are few
	loaded atomic.Bool

	// mu orders the writers. What follows belongs to whoever holds it.
	mu      sync.Mutex
	realms  map[string]*Realm  // realm UID → realm, served or superseded
	tables  map[string]*table  // realm UID → clients
	clients map[string]*Client // client UID → client
}

// table holds the clients of one realm identity, by client id. It can outlive the Realm
// beside it, since the two come as records of their own, in any order.
type table struct {
	byID *xsync.Map[string, *Client] // client ID → of the clients that claim it, the first by precedence

	// What follows belongs to the writer.
	rivals map[string][]*Client // client id → all that claim it, by precedence; none where one alone does
	size   int
}

// New returns an empty registry that is not yet loaded.
func New() *Registry {
	r := &Registry{
		realms:  map[string]*Realm{},
		tables:  map[string]*table{},
		clients: map[string]*Client{},
	}
	r.served.Store(&map[string]*Realm{})
	return r
}

// Realm returns the realm of that name, or nil. The caller must not change it.
func (r *Registry) Realm(name string) *Realm {
	return (*r.served.Load())[name]
}

// Loaded reports whether the registry has been filled once. Until then an unknown
// realm or client says nothing.
func (r *Registry) Loaded() bool { return r.loaded.Load() }

// Size returns the number of realms that are served, and of clients.
func (r *Registry) Size() (realms, clients int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(*r.served.Load()), len(r.clients)
}

// Replace makes the registry hold just these realms and clients, and those others
// whose UID keep accepts: the last good state of what can't be read now. It marks the registry loaded.
func (r *Registry) Replace(realms []*Realm, clients []*Client, keep func(uid string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	listed := make(map[string]bool, len(realms)+len(clients))
	for _, realm := range realms {
		listed[realm.UID] = true
		r.setRealm(realm)
	}
	for _, client := range clients {
		listed[client.UID] = true
		r.setClient(client)
	}
	for uid := range r.realms {
		if !listed[uid] && !keep(uid) {
			r.removeRealm(uid)
		}
	}
	for uid := range r.clients {
		if !listed[uid] && !keep(uid) {
			r.removeClient(uid)
		}
	}
	r.loaded.Store(true)
}

// SetRealm adds a realm, or replaces the one of the same UID. Of several of one name the
// newest is served.
func (r *Registry) SetRealm(realm *Realm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setRealm(realm)
}

// SetClient adds a client, or replaces the one of the same UID.
func (r *Registry) SetClient(client *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setClient(client)
}

// RemoveRealm removes the realm of that UID; its tokens are unknown from then on.
func (r *Registry) RemoveRealm(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeRealm(uid)
}

// RemoveClient removes the client of that UID.
func (r *Registry) RemoveClient(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeClient(uid)
}

func (r *Registry) setRealm(realm *Realm) {
	realm.clients = r.table(realm.UID)
	old := r.realms[realm.UID]
	r.realms[realm.UID] = realm
	if old != nil && old.Name != realm.Name {
		r.serve(old.Name)
	}
	r.serve(realm.Name)
}

func (r *Registry) removeRealm(uid string) {
	realm, ok := r.realms[uid]
	if !ok {
		return
	}
	delete(r.realms, uid)
	r.serve(realm.Name)
	r.dropIfUnused(uid)
}

// serve chooses anew who answers to a name.
func (r *Registry) serve(name string) {
	var newest *Realm
	for _, realm := range r.realms {
		if realm.Name == name && (newest == nil || realm.supersedes(newest)) {
			newest = realm
		}
	}
	served := maps.Clone(*r.served.Load())
	if newest == nil {
		delete(served, name)
	} else {
		served[name] = newest
	}
	r.served.Store(&served)
}

func (r *Registry) setClient(client *Client) {
	old := r.clients[client.UID]
	if old != nil && (old.RealmUID != client.RealmUID || old.ID != client.ID) {
		r.removeClient(old.UID)
		old = nil
	}
	t := r.table(client.RealmUID)
	claimants := without(t.claimants(client.ID), client.UID)
	at, _ := slices.BinarySearchFunc(claimants, client, comparePrecedence)
	t.store(client.ID, slices.Insert(claimants, at, client))
	if old == nil {
		t.size++
	}
	r.clients[client.UID] = client
}

func (r *Registry) removeClient(uid string) {
	client, ok := r.clients[uid]
	if !ok {
		return
	}
	delete(r.clients, uid)
	t := r.table(client.RealmUID)
	t.size--
	t.store(client.ID, without(t.claimants(client.ID), uid))
	r.dropIfUnused(client.RealmUID)
}

func (r *Registry) table(realmUID string) *table {
	t, ok := r.tables[realmUID]
	if !ok {
		t = newTable()
		r.tables[realmUID] = t
	}
	return t
}

// dropIfUnused forgets the table of a realm identity that has neither realm nor clients.
func (r *Registry) dropIfUnused(realmUID string) {
	if _, known := r.realms[realmUID]; !known && r.tables[realmUID].size == 0 {
		delete(r.tables, realmUID)
	}
}

func newTable() *table {
	return &table{byID: xsync.NewMap[string, *Client](), rivals: map[string][]*Client{}}
}

// load returns the client with that ID, or nil.
func (t *table) load(id string) *Client {
	client, _ := t.byID.Load(id)
	return client
}

// claimants returns all that claim a client id, by precedence.
func (t *table) claimants(id string) []*Client {
	if rivals, ok := t.rivals[id]; ok {
		return rivals
	}
	if client := t.load(id); client != nil {
		return []*Client{client}
	}
	return nil
}

// store makes claimants, by precedence, all that claim a client id.
func (t *table) store(id string, claimants []*Client) {
	delete(t.rivals, id)
	if len(claimants) == 0 {
		t.byID.Delete(id)
		return
	}
	if len(claimants) > 1 {
		t.rivals[id] = claimants
	}
	t.byID.Store(id, claimants[0])
}

func without(clients []*Client, uid string) []*Client {
	return slices.DeleteFunc(clients, func(c *Client) bool { return c.UID == uid })
}
