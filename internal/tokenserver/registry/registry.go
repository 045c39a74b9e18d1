// Package registry keeps in memory the token server's realms, their clients, the subjects that clients
// hold, and the indexes in status lists.
//
// Token requests read it without locks and without I/O. The feed writes one change at a time. The cost of
// a change does not depend on the number of clients.
package registry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
)

// Registry holds realms by name, their clients by client ID, the subjects that clients hold by issuer and
// subject, and the indexes. The zero value is not usable; use New.
type Registry struct {
	served atomic.Pointer[map[string]*Realm] // by name; copied on each change because realms are few
	loaded atomic.Bool

	// mu serializes writers and guards the fields below.
	mu       sync.Mutex
	realms   map[string]*Realm   // by name of the record, whether served or superseded
	tables   map[string]tables   // by realm UID
	clients  map[string]*Client  // by name of the record
	subjects map[string]*Subject // by name of the record
}

// New returns an empty registry that is not loaded.
func New() *Registry {
	r := &Registry{
		realms:   map[string]*Realm{},
		tables:   map[string]tables{},
		clients:  map[string]*Client{},
		subjects: map[string]*Subject{},
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

// ClientOf returns the client with the given record, or nil. The caller must not modify it.
func (r *Registry) ClientOf(record string) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[record]
}

// SubjectOf returns the subject with the given record, or nil. The caller must not modify it.
func (r *Registry) SubjectOf(record string) *Subject {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.subjects[record]
}

// Replace replaces the contents with the given realms, clients, subjects and indexes, but retains existing
// entries whose record is accepted by keep. Those records can't be read now and their entries remain
// in the last known good state. Replace marks the registry as loaded.
func (r *Registry) Replace(realms []*Realm, clients []*Client, subjects []*Subject, indexes []Index, keep func(record string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replaceIndexes(indexes)
	listed := make(map[string]bool, len(realms)+len(clients)+len(subjects))
	for _, realm := range realms {
		listed[realm.Record] = true
		r.setRealm(realm)
	}
	for _, client := range clients {
		listed[client.Record] = true
		r.setClient(client)
	}
	for _, subject := range subjects {
		listed[subject.Record] = true
		r.setSubject(subject)
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
	for record := range r.subjects {
		if !listed[record] && !keep(record) {
			r.removeSubject(record)
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

// SetSubject adds a held subject, or replaces the one with the same record.
func (r *Registry) SetSubject(subject *Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setSubject(subject)
}

// SetIndex adds a held index.
func (r *Registry) SetIndex(index Index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tablesOf(index.RealmUID).indexes.add(index.Index)
}

// RemoveIndex removes an index that is free again.
func (r *Registry) RemoveIndex(index Index) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tablesOf(index.RealmUID).indexes.remove(index.Index)
	r.dropIfUnused(index.RealmUID)
}

// replaceIndexes replaces the held indexes of all realms.
func (r *Registry) replaceIndexes(all []Index) {
	held := map[string]statuslist.Bits{}
	for _, index := range all {
		bits := held[index.RealmUID].Containing(index.Index)
		bits.SetInvalid(index.Index)
		held[index.RealmUID] = bits
		r.tablesOf(index.RealmUID)
	}
	for realmUID, t := range r.tables {
		t.indexes.replace(held[realmUID].Containing(0))
	}
}

// Remove removes the realm, client or subject with the given record. Tokens of a removed realm or
// client are no longer valid.
func (r *Registry) Remove(record string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeRealm(record)
	r.removeClient(record)
	r.removeSubject(record)
}

func (r *Registry) setRealm(realm *Realm) {
	realm.tables = r.tablesOf(realm.UID)
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
	client.track(r.clients[client.Record])
	r.clients[client.Record] = client
	t := r.tablesOf(client.RealmUID)
	t.clients.Store(client.ID, client)
	t.indexes.changes.Add(1)
}

func (r *Registry) removeClient(record string) {
	client, ok := r.clients[record]
	if !ok {
		return
	}
	delete(r.clients, record)
	client.lastToken.Drop()
	t := r.tablesOf(client.RealmUID)
	t.clients.Delete(client.ID)
	t.indexes.changes.Add(1)
	r.dropIfUnused(client.RealmUID)
}

func (r *Registry) setSubject(subject *Subject) {
	r.subjects[subject.Record] = subject
	r.tablesOf(subject.RealmUID).subjects.Store(subject.key(), subject)
}

func (r *Registry) removeSubject(record string) {
	subject, ok := r.subjects[record]
	if !ok {
		return
	}
	delete(r.subjects, record)
	r.tablesOf(subject.RealmUID).subjects.Delete(subject.key())
	r.dropIfUnused(subject.RealmUID)
}

// tablesOf returns the clients, subjects, and indexes with a realm UID, in tables that it creates if there are none.
// They can exist without a realm, because records can arrive in any order.
func (r *Registry) tablesOf(realmUID string) tables {
	t, ok := r.tables[realmUID]
	if !ok {
		t = newTables()
		r.tables[realmUID] = t
	}
	return t
}

// dropIfUnused removes the tables for a realm UID if they are empty and there is no such realm.
func (r *Registry) dropIfUnused(realmUID string) {
	if t := r.tables[realmUID]; t.clients.Size() > 0 || t.subjects.Size() > 0 || t.indexes.any() {
		return
	}
	for _, realm := range r.realms {
		if realm.UID == realmUID {
			return
		}
	}
	delete(r.tables, realmUID)
}

// tables holds the clients of a realm by client ID, and the subjects and indexes that they hold. Requests
// for tokens read it without locks.
type tables struct {
	clients  *xsync.Map[string, *Client]
	subjects *xsync.Map[subjectKey, *Subject]
	indexes  *indexes
}

func newTables() tables {
	return tables{clients: xsync.NewMap[string, *Client](), subjects: xsync.NewMap[subjectKey, *Subject](), indexes: &indexes{held: statuslist.NewBits(0)}}
}
