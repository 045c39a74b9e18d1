package realm

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// observed is the state that a decision is based on.
type observed struct {
	realm  *v1beta1.Realm
	record *corev1.Secret // nil if there is none according to the API server
	// state is the state of this record at the token servers.
	state acknowledgement.State
	// unconfirmed means that a token server may not serve this record, although state says so.
	unconfirmed bool
	// undecrypted are the names of the live token servers that have not decrypted the Pending key yet, and
	// unsigned of those that have not decrypted the Active key.
	undecrypted, unsigned []string
	// fetched contains the results of fetching the keys of trusted issuers, by name. Issuers whose
	// keys are in the spec have none.
	fetched map[string]trustedissuers.State
	// mode is the form of new keys. generated is a new key from the Sealer, or nil.
	mode      sealing.Mode
	generated *signingkey.Key
	// clients is the number of ApiClients that refer to the Realm, according to the cache. unknownClients are
	// the client IDs in its exchanges, by rule, that none of them has.
	clients        int32
	unknownClients map[string][]string
	// rolledBackAt is when an operator last found that the API server had been rolled back; zero if never.
	rolledBackAt time.Time
}

// version returns the resource version of the record; empty if there is none.
func (seen *observed) version() string {
	if seen.record == nil {
		return ""
	}
	return seen.record.ResourceVersion
}

// served returns a record as token servers must serve it.
func served(secret *corev1.Secret) acknowledgement.Record {
	return acknowledgement.Record{Name: secret.Name, Version: secret.ResourceVersion}
}
