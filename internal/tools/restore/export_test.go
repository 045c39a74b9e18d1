package restore

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/tools/backup"
)

// Steps.
const (
	Keep = keep
	Put  = put
	Add  = add
)

// Functions that tests call directly.
var (
	PutRealm  = putRealm
	AddRealm  = addRealm
	PutClient = putClient
	AddClient = addClient
)

// RealmStep exports realmStep.
func (r *Restore) RealmStep(entry *backup.Entry, current *corev1.Secret) step {
	return r.realmStep(entry, newLiveRecord(current))
}

// ClientStep exports clientStep for an ApiClient with the given UID; empty if there is none.
func (r *Restore) ClientStep(entry *backup.Entry, body record.Client, uid types.UID, clientID string, current *corev1.Secret) (step, error) {
	var object *liveObject
	if uid != "" {
		object = &liveObject{uid: uid, realm: "acme", clientID: clientID}
	}
	return r.clientStep(entry, body, object, newLiveRecord(current))
}

// CheckServiceURLs exports checkServiceURLs.
func (r *Restore) CheckServiceURLs() error { return r.checkServiceURLs() }
