// Package registry holds the token server's realms and clients in memory.
//
// Requests read it without locks and without I/O. The feed writes one change at a time. The cost of
// a change does not depend on the number of clients.
package registry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Registry holds realms by name and their clients by client ID. The zero value is not usable; use
// New.
type Registry struct {
	served atomic.Pointer[map[string]*Realm] // by name; copied on each change because realms are few
	loaded atomic.Bool

	// mu serializes writers and guards the fields below.
	mu      sync.Mutex
	realms  map[string]*Realm  // by realm UID, whether served or superseded
	tables  map[string]*table  // by realm UID
	clients map[string]*Client // by client UID
}

// New returns an empty registry that is not loaded.
func New() *Registry {
	r := &Registry{
		realms:  map[string]*Realm{},
		tables:  map[string]*table{},
		clients: map[string]*Client{},
	}
	r.served.Store(&map[string]*Realm{})
	return r
}

// Realm returns the realm with the given name, or nil. The caller must not modify it.
func (r *Registry) Realm(name string) *Realm {
	return (*r.served.Load())[name]
}

// Loaded reports whether Replace has been called. Until then, a realm or client that isn't found
// may exist.
func (r *Registry) Loaded() bool { return r.loaded.Load() }

// Size returns the number of served realms and the number of all clients.
func (r *Registry) Size() (realms, clients int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(*r.served.Load()), len(r.clients)
}

// Replace replaces the contents with the given realms and clients, but retains existing entries
// whose UID is accepted by keep. Those entries can't be read now and remain in their last known
// good state. Replace marks the registry as loaded.
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

// SetRealm adds a realm, or replaces the realm with the same UID. If several realms have the same
// name, the newest is served.
func (r *Registry) SetRealm(realm *Realm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setRealm(realm)
}

// SetClient adds a client, or replaces the client with the same UID.
func (r *Registry) SetClient(client *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setClient(client)
}

// RemoveRealm removes the realm with the given UID. Its tokens are no longer valid.
func (r *Registry) RemoveRealm(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeRealm(uid)
}

// RemoveClient removes the client with the given UID.
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

// serve selects the realm to serve under the given name.
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
	clients := without(t.withID(client.ID), client.UID)
	at, _ := slices.BinarySearchFunc(clients, client, comparePrecedence)
	t.store(client.ID, slices.Insert(clients, at, client))
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
	t.store(client.ID, without(t.withID(client.ID), uid))
	r.dropIfUnused(client.RealmUID)
}

func without(clients []*Client, uid string) []*Client {
	return slices.DeleteFunc(clients, func(c *Client) bool { return c.UID == uid })
}

func (r *Registry) table(realmUID string) *table {
	t, ok := r.tables[realmUID]
	if !ok {
		t = newTable()
		r.tables[realmUID] = t
	}
	return t
}

// dropIfUnused removes the table for a realm UID if there is no such realm and it has no clients.
func (r *Registry) dropIfUnused(realmUID string) {
	if _, known := r.realms[realmUID]; !known && r.tables[realmUID].size == 0 {
		delete(r.tables, realmUID)
	}
}
