package kubectlplugin

import (
	"errors"
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/backup"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// Errors of single objects. The restore continues with the others.
var (
	errDeleting     = errors.New("is being deleted; restore again after it is gone")
	errClientIDHeld = errors.New("the client ID is held by another client")
	errOtherClient  = errors.New("its realm or client ID is not that of the backup")
)

// planRealm decides whether the keys of a Realm need a restore record. They need none if the record of
// the backup still exists, because then its keys were never lost, or if they were restored from this or
// a newer backup before.
func (s *liveState) planRealm(entry *backup.Entry, body record.Realm, backupTime time.Time) (needed bool, err error) {
	realm, exists := s.realms[body.Name]
	switch {
	case realm.deleting:
		return false, deleting(kindRealm, body.Name)
	case exists && entry.Owner() == realm.uid && s.recorded(entry):
		return false, nil
	}
	current := s.records[record.RealmSecretName(realm.uid)]
	return !exists || s.again || !current.restored(backupTime), nil
}

// planClient decides whether the secrets of an ApiClient need a restore record, as planRealm does. If
// they were restored before and the restore is finished, they are not restored again.
func (s *liveState) planClient(entry *backup.Entry, body record.Client, backupTime time.Time) (needed bool, err error) {
	name := body.Namespace + "/" + body.Name
	realm, realmExists := s.realms[body.RealmName]
	c, exists := s.clients[name]
	switch {
	case c.deleting:
		return false, deleting(kindClient, name)
	case realm.deleting:
		return false, deleting(kindRealm, body.RealmName)
	case exists && (c.realm != body.RealmName || c.clientID != body.ClientID):
		return false, fmt.Errorf("%w: it has client ID %q in Realm %s, and the backup has %q in Realm %s; to restore that client, delete the ApiClient and restore again",
			errOtherClient, c.clientID, c.realm, body.ClientID, body.RealmName)
	case exists && c.uid == body.UID && s.recorded(entry):
		return false, nil
	}
	current, held := s.records[record.ClientSecretName(realm.uid, body.ClientID)]
	if realmExists && held && current.owner != name {
		return false, fmt.Errorf("%w: ApiClient %s holds %q in Realm %s; delete that client or list it in spec.releasedClients of the Realm, and restore again",
			errClientIDHeld, current.owner, body.ClientID, body.RealmName)
	}
	_, unfinished := s.records[record.ClientRestoreName(body.RealmName, body.ClientID)]
	return unfinished || s.again || !exists || !current.restoredFor(c, backupTime), nil
}

// restoredFor reports whether the client was restored from the backup of the given time, or a newer one.
func (r *liveRecord) restoredFor(c liveObject, backupTime time.Time) bool {
	return r.client == c.uid && r.restored(backupTime)
}

// restored reports whether the owner was restored from the backup of the given time, or from a newer one.
// Keys and secrets that ended since then must not be restored from an older backup.
func (r *liveRecord) restored(backupTime time.Time) bool { return !r.restoredFrom.Before(backupTime) }

func deleting(kind, name string) error { return fmt.Errorf("%s %s %w", kind, name, errDeleting) }

// recorded reports whether the record in the backup still exists in the cluster and can be read. It may
// have newer keys or secrets, and those that it no longer has must not be restored.
func (s *liveState) recorded(entry *backup.Entry) bool {
	current, exists := s.records[entry.Name]
	return exists && current.uid == entry.UID && !current.unreadable
}
