package apiclient

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
)

// decision is the desired state of everything that the controller writes for an ApiClient.
type decision struct {
	// now is the time of the decision. Releases and indexes are judged by request.at instead, so that all decisions
	// after one read agree about them.
	now time.Time
	// lacks are the facts that the decision needs. Nothing is written without them, and the other fields are
	// incomplete. lagging is why caches lag, if that is known.
	lacks   lacks
	lagging string
	// writes are the writes in the order of the protocol: each one waits for those before it.
	writes []write
	// written are those of them that were performed.
	written []write
	// accepted is the result for the Accepted condition.
	accepted condition.Result
	// blocked is the reason why nothing is written despite an accepted spec; otherwise nil.
	blocked *condition.Result
	// incomplete is what the client's record or secret waits for; nil if nothing.
	incomplete *condition.Result
	// desired is the desired record; nil leaves it unchanged, even if there is none.
	desired *record.Client
	// grant is the name of the grant that covers the client; empty if the client is not accepted.
	grant string
	// subjects are the records of the subjects that the client holds or acquires. obsoleteSubjects are
	// the records of the subjects that it gives up.
	subjects         []record.Subject
	obsoleteSubjects []*corev1.Secret
	// index is the plan for the client's index in the status lists of the realm.
	index statusindex.Plan
	// plan is the plan for the client's secrets. desired already contains its secrets.
	plan secrets.Plan
	// check is the time at which an old secret may expire because it is unused; zero if there is none.
	check time.Time
	// waitsForHash reports whether the provided secret must be hashed. Until then, the client keeps the
	// secrets that it has.
	waitsForHash bool
	// credentials is the desired credentials Secret; nil leaves it unchanged.
	credentials *corev1ac.SecretApplyConfiguration
	// obsolete are the owned credentials Secrets to delete.
	obsolete []corev1.Secret
	// releaseID means that the record is deleted, so that another client can use the client ID.
	releaseID bool
}

// lacks is a set of facts that a decision needs in addition to those that were read.
type lacks uint16

const (
	// lacksLive means that caches may lag, and that everything must be read from the API server.
	lacksLive lacks = 1 << iota
	// lacksRecord means that the API server must confirm the version of the client's record.
	lacksRecord
	// lacksSubjects means that the holders of listed subjects must be read from the API server.
	lacksSubjects
	// lacksRealm means that the client acquires something, so that the Realm and the namespaces must be read from
	// the API server.
	lacksRealm
	// lacksIndex means that a free index is needed.
	lacksIndex
	// lacksRetention means that it must be known how long indexes stay retired.
	lacksRetention
	// lacksUses means that the API server must confirm that a secret is unused.
	lacksUses
	// lacksHash means that the provided secret must be hashed.
	lacksHash
	// lacksConfirmation means that the API server must confirm that every token server serves the record.
	lacksConfirmation
)

// write is one write of a decision. Its text says what is being done, for errors.
type write interface{ fmt.Stringer }

type (
	// releaseClientID deletes the record, so that another client can use the client ID.
	releaseClientID struct{}
	// holdSubject writes the record of a subject. The API server creates only one record for a subject, so another
	// client that was faster keeps it.
	holdSubject struct{ body record.Subject }
	// giveUpSubject deletes the record of a subject.
	giveUpSubject struct{ secret *corev1.Secret }
	// holdIndex creates the record of the client's new index, whose owner is not set.
	holdIndex struct{ body record.Index }
	// retireIndex writes the record of an index that the client's record doesn't have any longer.
	retireIndex struct{ body record.Index }
	// releaseIndex deletes the record of an index to which no valid token refers.
	releaseIndex struct{ index int }
	// putRecord writes the client's record.
	putRecord struct{ body *record.Client }
	// putCredentials writes the credentials Secret. Its error stops no other write, because it can be in the hands of
	// a tenant; the next decision is made with it.
	putCredentials struct {
		desired *corev1ac.SecretApplyConfiguration
	}
	// deleteCredentials deletes an obsolete credentials Secret, unless it has changed since it was read.
	deleteCredentials struct{ secret *corev1.Secret }
)

func (releaseClientID) String() string { return "releasing the client ID" }
func (w holdSubject) String() string   { return fmt.Sprintf("acquiring subject %q", w.body.Subject) }
func (w giveUpSubject) String() string { return "giving up a subject" }
func (w holdIndex) String() string     { return fmt.Sprintf("acquiring index %d", w.body.Index) }
func (w retireIndex) String() string   { return fmt.Sprintf("retiring index %d", w.body.Index) }
func (w releaseIndex) String() string  { return fmt.Sprintf("releasing index %d", w.index) }
func (putRecord) String() string       { return "writing the record" }
func (putCredentials) String() string  { return "writing the credentials Secret" }
func (w deleteCredentials) String() string {
	return "deleting the obsolete credentials Secret " + w.secret.Name
}
