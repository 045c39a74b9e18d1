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
)

// Registry holds realms by name and their clients by client id. The zero value is
// not usable; New makes one.
type Registry struct {
	realms atomic.Pointer[map[string]*Realm] // by name; replaced whole, as realms are few
	loaded atomic.Bool

	// mu orders the writers. What follows belongs to whoever holds it.
	mu         sync.Mutex
	realmNames map[string]string  // realm UID → name
	tables     map[string]*table  // realm UID → clients
	clients    map[string]*Client // client UID → client
}

// table holds the clients of one realm identity, by client id. It can outlive the Realm
// beside it, since the two come as records of their own, in any order.
type table struct {
	byID sync.Map // client id → []*Client, by precedence
	size int
}

// New returns an empty registry that is not yet loaded.
func New() *Registry {
	r := &Registry{
		realmNames: map[string]string{},
		tables:     map[string]*table{},
		clients:    map[string]*Client{},
	}
	r.realms.Store(&map[string]*Realm{})
	return r
}

// Realm returns the realm of that name, or nil. The caller must not change it.
func (r *Registry) Realm(name string) *Realm {
	return (*r.realms.Load())[name]
}

// Loaded reports whether the registry has been filled once. Until then an unknown
// realm or client says nothing.
func (r *Registry) Loaded() bool { return r.loaded.Load() }

// Size returns the number of realms and of clients.
func (r *Registry) Size() (realms, clients int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.realmNames), len(r.clients)
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
	for uid := range r.realmNames {
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

// SetRealm adds a realm, or replaces the one of the same UID or name.
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
	r.updateRealms(func(realms map[string]*Realm) {
		if rival := realms[realm.Name]; rival != nil && rival.UID != realm.UID {
			delete(r.realmNames, rival.UID)
			r.dropIfUnused(rival.UID)
		}
		realms[realm.Name] = realm
	})
	r.realmNames[realm.UID] = realm.Name
}

func (r *Registry) removeRealm(uid string) {
	name, ok := r.realmNames[uid]
	if !ok {
		return
	}
	delete(r.realmNames, uid)
	r.updateRealms(func(realms map[string]*Realm) { delete(realms, name) })
	r.dropIfUnused(uid)
}

func (r *Registry) updateRealms(change func(map[string]*Realm)) {
	realms := maps.Clone(*r.realms.Load())
	change(realms)
	r.realms.Store(&realms)
}

func (r *Registry) setClient(client *Client) {
	old := r.clients[client.UID]
	if old != nil && (old.RealmUID != client.RealmUID || old.ID != client.ID) {
		r.removeClient(old.UID)
		old = nil
	}
	t := r.table(client.RealmUID)
	rivals := slices.DeleteFunc(slices.Clone(t.load(client.ID)), func(c *Client) bool { return c.UID == client.UID })
	at, _ := slices.BinarySearchFunc(rivals, client, comparePrecedence)
	t.byID.Store(client.ID, slices.Insert(rivals, at, client))
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
	rivals := slices.DeleteFunc(slices.Clone(t.load(client.ID)), func(c *Client) bool { return c.UID == uid })
	if len(rivals) > 0 {
		t.byID.Store(client.ID, rivals)
		return
	}
	t.byID.Delete(client.ID)
	r.dropIfUnused(client.RealmUID)
}

func (r *Registry) table(realmUID string) *table {
	t, ok := r.tables[realmUID]
	if !ok {
		t = &table{}
		r.tables[realmUID] = t
	}
	return t
}

// dropIfUnused forgets the table of a realm identity that has neither realm nor clients.
func (r *Registry) dropIfUnused(realmUID string) {
	if _, known := r.realmNames[realmUID]; !known && r.tables[realmUID].size == 0 {
		delete(r.tables, realmUID)
	}
}

func (t *table) load(id string) []*Client {
	clients, _ := t.byID.Load(id)
	list, _ := clients.([]*Client)
	return list
}
