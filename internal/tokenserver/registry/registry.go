// Package registry holds the token server's realms and clients in memory.
//
// Requests read it without locks and without I/O. The feed writes one change at a time. The cost of
// a change does not depend on the number of clients.
package registry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// Registry holds realms by name and their clients by client ID. The zero value is not usable; use
// New.
type Registry struct {
	served atomic.Pointer[map[string]*Realm] // by name; copied on each change because realms are few
	loaded atomic.Bool

	// mu serializes writers and guards the fields below.
	mu      sync.Mutex
	realms  map[string]*Realm  // by name of the record, whether served or superseded
	tables  map[string]*table  // by realm UID
	clients map[string]*Client // by name of the record
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
// whose record is accepted by keep. Those records can't be read now and their entries remain in the
// last known good state. Replace marks the registry as loaded.
func (r *Registry) Replace(realms []*Realm, clients []*Client, keep func(record string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	listed := make(map[string]bool, len(realms)+len(clients))
	for _, realm := range realms {
		listed[realm.Record] = true
		r.setRealm(realm)
	}
	for _, client := range clients {
		listed[client.Record] = true
		r.setClient(client)
	}
	for record := range r.realms {
		if !listed[record] && !keep(record) {
			r.removeRealm(record)
		}
	}
	for record := range r.clients {
		if !listed[record] && !keep(record) {
			r.removeClient(record)
		}
	}
	r.loaded.Store(true)
}

// SetRealm adds a realm, or replaces the realm with the same record. If several realms have the
// same name, the newest is served.
func (r *Registry) SetRealm(realm *Realm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setRealm(realm)
}

// SetClient adds a client, or replaces the client with the same record.
func (r *Registry) SetClient(client *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setClient(client)
}

// Remove removes the realm or client with the given record. Its tokens are no longer valid.
func (r *Registry) Remove(record string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeRealm(record)
	r.removeClient(record)
}

func (r *Registry) setRealm(realm *Realm) {
	realm.clients = r.table(realm.UID)
	old := r.realms[realm.Record]
	r.realms[realm.Record] = realm
	if old != nil && old.Name != realm.Name {
		r.serve(old.Name)
	}
	r.serve(realm.Name)
}

func (r *Registry) removeRealm(record string) {
	realm, ok := r.realms[record]
	if !ok {
		return
	}
	delete(r.realms, record)
	r.serve(realm.Name)
	r.dropIfUnused(realm.UID)
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
	r.clients[client.Record] = client
	r.table(client.RealmUID).Store(client.ID, client)
}

func (r *Registry) removeClient(record string) {
	client, ok := r.clients[record]
	if !ok {
		return
	}
	delete(r.clients, record)
	r.table(client.RealmUID).Delete(client.ID)
	r.dropIfUnused(client.RealmUID)
}

// table returns the clients with a realm UID by client ID. A table can exist without a realm,
// because realm and client records can arrive in any order.
func (r *Registry) table(realmUID string) *table {
	t, ok := r.tables[realmUID]
	if !ok {
		t = newTable()
		r.tables[realmUID] = t
	}
	return t
}

// dropIfUnused removes the table for a realm UID if it has no clients and there is no such realm.
func (r *Registry) dropIfUnused(realmUID string) {
	if r.tables[realmUID].Size() > 0 {
		return
	}
	for _, realm := range r.realms {
		if realm.UID == realmUID {
			return
		}
	}
	delete(r.tables, realmUID)
}

// table holds clients by client ID. Requests read it without locks.
type table = xsync.Map[string, *Client]

func newTable() *table { return xsync.NewMap[string, *Client]() }
