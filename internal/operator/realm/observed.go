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

// observed is what a decision is based on.
type observed struct {
	namespace string         // of the record
	realm     *v1beta1.Realm // nil if it doesn't exist or is being deleted
	record    *corev1.Secret // nil if there is none
	// rolledBackAt is when an operator last found that the API server had been rolled back; zero if never.
	rolledBackAt time.Time
	// live means that all of the above was read from the API server, instead of caches.
	live bool
	// clients are the ApiClients that refer to the Realm, according to the cache. They must not be changed.
	clients []v1beta1.ApiClient
	// fetched contains the results of fetching the keys of trusted issuers, by name. Issuers whose
	// keys are in the spec have none.
	fetched map[string]trustedissuers.State
	// mode is the form of new keys.
	mode sealing.Mode

	// state is the state of the record at the token servers. undecrypted are the names of the live ones that have
	// not decrypted the Pending key yet, and undecryptedActive of those that have not decrypted the Active key.
	state                          acknowledgement.State
	undecrypted, undecryptedActive []string

	// confirmed means that every token server serves the record, and unconfirmed that one may not, although state
	// says so. It wasn't asked for if neither is set.
	confirmed, unconfirmed bool
	// generated is a new key from the Sealer, or nil. If the Sealer was asked and has none yet, it can be asked again
	// after retryAfter. failed means that it failed to generate one.
	generated  *signingkey.Key
	retryAfter time.Duration
	failed     bool
}

// served returns a record as token servers must serve it.
func served(secret *corev1.Secret) acknowledgement.Record {
	return acknowledgement.Record{Name: secret.Name, Version: secret.ResourceVersion}
}
