package realm

import (
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/trustedissuers"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// lacks is the set of facts that a decision lacks.
type lacks uint8

const (
	// lacksLive means that caches aren't enough, and that everything must be read from the API server.
	lacksLive lacks = 1 << iota
	// lacksConfirmation means that the keys take a step that can't be undone, which depends on every token server.
	lacksConfirmation
	// lacksKey means that the Sealer must generate a key.
	lacksKey
)

// decision is the desired state of a Realm.
type decision struct {
	// now is the time of the decision.
	now time.Time
	// lacks are the facts that the decision lacks. If there are any, the other fields are incomplete.
	lacks lacks
	// put is the record to write; nil if it is as desired.
	put      *corev1ac.SecretApplyConfiguration
	accepted condition.Result
	// blocked is the reason why no record is written, or nil: the record can't be read, and token servers
	// keep serving its last known good version, or it is gone together with the realm's keys.
	blocked *condition.Result
	// record is the desired record. If nil, no record is created or changed.
	record *record.Realm
	// encryption describes the keys in the record.
	encryption encryption
	// generate is the algorithm of the new key that the realm needs from the Sealer; empty if it needs
	// none.
	generate signingkey.Algorithm
	// policy is the realm's key policy.
	policy signingkey.Policy
	// fetchIssuers lists the trusted issuers whose keys are fetched, and issuers the status of all.
	fetchIssuers []trustedissuers.Issuer
	issuers      []v1beta1.TrustedIssuerStatus
	// clients is the number of ApiClients that refer to the Realm.
	clients int32
	// exchanges is the result for the ExchangesResolved condition; nil without exchanges.
	exchanges *condition.Result
	// recorded are the keys in the current record.
	recorded []signingkey.Key
	// undecryptedActive are the names of the live token servers that have not decrypted the Active key.
	undecryptedActive []string
	// rotates means that the active key changes.
	rotates bool
	// nextKeyStep is the time of the next step of the keys; zero if it depends on an event.
	nextKeyStep time.Time
	// nextList is the time of the next change of the status lists; zero if there is none.
	nextList time.Time
	// nextRotation is the time at which the next key becomes active. Zero means unknown.
	nextRotation time.Time
}
