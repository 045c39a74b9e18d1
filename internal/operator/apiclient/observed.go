package apiclient

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
)

// recheckInterval is the period after which a conflicting or unreadable Secret is read again. Such
// a Secret lacks the label that the operator watches, so the operator receives no events for it.
const recheckInterval = time.Minute

// observed is the state that the controller read for an ApiClient. After a write, it contains what was
// written, so that the next step is planned from that.
type observed struct {
	// live reports whether the objects were read from the API server and not from caches, except for
	// ofName, subjects, held indexes of a client whose record has a serial, owned, acknowledged, the uses of
	// credentials, and the CA bundle.
	live bool

	// ofName are the records of all ApiClients that have or had this name, from the cache.
	ofName []*corev1.Secret
	// realmLive reports that the Realm and the namespaces were read from the API server after the record was found
	// missing.
	realmLive bool

	request
	holding
	delivery
	providedSecret
	identitySet
	indexSet
	useReports
	// written reports that an earlier decision of this reconcile was written.
	written bool
	// orphanRelease is the time at which the next index of a deleted client with the same name is released;
	// zero if there is none.
	orphanRelease time.Time
}

// request is what a client requests, and the objects that decide whether it is granted. Objects that do
// not exist are nil.
type request struct {
	instance *config.Instance
	// at is when the objects were read.
	at     time.Time
	client *v1beta1.ApiClient
	realm  *v1beta1.Realm
	// namespace is the client's namespace; nil if it is unknown.
	namespace *corev1.Namespace
	// otherNamespace is the name of another existing namespace whose default client IDs spec.clientID
	// resembles; empty if there is none.
	otherNamespace string
}

// holding is who holds the client ID, and the record of the holder.
type holding struct {
	// holder is the ApiClient that holds the client ID; empty if this client holds it or it is free.
	holder types.NamespacedName
	// recordSecret is the Secret with the client's record; nil if there is none. recorded is its content. unreadable is
	// the reason why it cannot be read; nil if it can.
	recordSecret *corev1.Secret
	recorded     record.Client
	unreadable   *condition.Result
	// recordLive reports that the API server has the same version of the record.
	recordLive bool
	// acknowledged reports whether every live token server serves this version of the record. confirmed reports
	// that the API server confirmed it, and unconfirmed that it didn't.
	acknowledged, confirmed, unconfirmed bool
	// contentState is the state of what workloads depend on in the record at the token servers; nil if there is no
	// record.
	contentState *acknowledgement.State
}

// delivery is what workloads have, and what the credentials Secret must contain.
type delivery struct {
	// credentials is the Secret with the credentials Secret's name, regardless of owner; nil if the client's secret is
	// not generated.
	credentials *corev1.Secret
	// owned are the credentials Secrets that this client owns.
	owned []corev1.Secret
	// credentialsErr is the error from writing the credentials Secret in this reconcile; nil if there is none.
	// replanned reports that a decision was already made with it.
	credentialsErr error
	replanned      bool
	// caBundle contains the certificates that clients must trust in PEM; empty if certificates are
	// not managed by the operator.
	caBundle []byte
	// caMissing reports whether the managed CA does not exist yet.
	caMissing bool
}

// providedSecret is the Secret that the spec refers to.
type providedSecret struct {
	// hashes are those of spec.secret.hashed, in the same order; nil if none is in a Secret.
	hashes []listedHash
	// provided is the Secret without its values, or nil. value is the result of hashing its value. unhashed
	// reports that it is not hashed yet.
	provided *corev1.Secret
	value    providedsecrets.Result
	unhashed bool
	// hashTried reports that hashing it was tried. It can fail with hashErr, or find no place.
	hashTried bool
	hashErr   error
}

// identitySet is what tokens of others authenticate the client.
type identitySet struct {
	// accounts maps the names of service accounts that the spec lists and that exist to their UIDs.
	accounts map[string]types.UID
	// subjects are the records of the listed subjects that this client holds. subjectHolders are the
	// ApiClients that hold other listed subjects. subjectsOfName are the records of subjects in ofName: those
	// that this client holds, including those that the spec no longer lists, and until the cache lacks them,
	// those of deleted ApiClients with its name.
	subjects       map[subject]*corev1.Secret
	subjectHolders map[subject]types.NamespacedName
	subjectsOfName []*corev1.Secret
	// freeSubjects are the listed subjects without a record according to the API server. The Realm and the
	// namespaces were then read after that.
	freeSubjects map[subject]bool
}

// useReports are the uses of the client's credentials.
type useReports struct {
	// uses are the known uses of secrets that may expire because they are unused, by ID. reported are
	// uses that the next status adds to those in the previous status.
	uses     map[string]secrets.Use
	reported lastuse.Uses
}

// setRecord decodes the record with the client's ID. The Secret may be nil. If the record belongs to
// another ApiClient, setRecord only records which one.
func (seen *observed) setRecord(secret *corev1.Secret) {
	seen.recordSecret, seen.recorded, seen.unreadable, seen.holder = nil, record.Client{}, nil, types.NamespacedName{}
	if secret == nil {
		return
	}
	current, err := record.ReadClient(secret)
	owner := types.NamespacedName{Namespace: current.Namespace, Name: current.Name}
	if err != nil {
		owner = record.OwnerName(secret)
	}
	if owner != client.ObjectKeyFromObject(seen.client) || err == nil && current.UID != seen.client.UID {
		seen.holder = owner
		return
	}
	seen.recordSecret, seen.recorded = secret, current
	seen.otherNamespace = "" // The client already holds its ID. Otherwise, anyone who can create a namespace could stop it.
	if err != nil {
		seen.unreadable = notReady(v1beta1.ReasonRecordUnreadable,
			"The operator cannot read the client's record: %v. Token servers keep serving the last known good record. Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret with the record: the operator writes a new record for the client secret that workloads have. Replaced secrets and the identity of an earlier restore are lost.", err)
	}
}

// namespaceLabels returns the labels of the client's namespace; nil if they are unknown.
func (seen *request) namespaceLabels() map[string]string {
	if seen.namespace == nil {
		return nil
	}
	if seen.namespace.Labels == nil {
		return map[string]string{}
	}
	return seen.namespace.Labels
}

// mayBeDeleted reports whether a client that was reconciled before, so that it had a record, has none,
// according to a cache. The client may then be deleted, too, and its record must not be created again.
func (seen *observed) mayBeDeleted() bool {
	reconciled := seen.client.Status.ObservedGeneration > 0 || len(seen.owned) > 0
	return !seen.live && seen.recordSecret == nil && reconciled
}

// recordMayBeOld reports whether the status lists a secret in use that the record doesn't contain, according to
// caches. The record may then be older than the status, and nothing that depends on it may be reported.
func (seen *observed) recordMayBeOld() bool {
	if seen.live || seen.recordSecret == nil || seen.unreadable != nil {
		return false
	}
	return slices.ContainsFunc(seen.client.Status.Credentials, func(listed v1beta1.CredentialStatus) bool {
		inUse := listed.State == v1beta1.CredentialCurrent || listed.State == v1beta1.CredentialNext
		return inUse && !slices.ContainsFunc(seen.recorded.Secrets, func(s record.ClientSecret) bool { return s.ID == listed.Name })
	})
}

// mayStayDisabled reports whether the desired record enables a client because of what a cache contains. The
// basis doesn't contain the versions of service accounts and provided Secrets.
func (seen *observed) mayStayDisabled(desired *record.Client) bool {
	return !seen.live && seen.recordSecret != nil && seen.recorded.Disabled && !desired.Disabled
}

// mayStayEnabled reports whether a client that is enabled would be disabled because of a Secret or a service
// account in a cache, whose version the basis doesn't contain, or because it gets no index, which it may need only
// according to the cached status of the Realm. Otherwise, an operator whose cache lags would disable and enable the
// client in turns.
func (seen *observed) mayStayEnabled(reason v1beta1.ConditionReason) bool {
	switch reason {
	case v1beta1.ReasonSecretConflict, v1beta1.ReasonSecretNotFound, v1beta1.ReasonSecretNotLabeled, v1beta1.ReasonServiceAccountNotFound,
		v1beta1.ReasonStatusIndexUnavailable:
		return !seen.live && seen.recordSecret != nil && !seen.recorded.Disabled
	}
	return false
}

// mayRevertSecrets reports whether a credentials Secret would be changed or deleted without a change of the record, which
// fails if the record is old. Every content of a Secret is written after a record of the same generation of the
// ApiClient, so with the latest record, the ApiClient isn't older than the Secret.
func (seen *observed) mayRevertSecrets(d *decision) bool {
	changes := d.credentials != nil && seen.credentials != nil && seen.credentialsErr == nil && !apply.Unchanged(seen.credentials, d.credentials)
	return (changes || len(d.obsolete) > 0) && seen.recordSecret != nil && !seen.recordLive && record.Equal(seen.recorded, *d.desired)
}

// served returns the records that token servers must serve: the client's, from the given resource version
// on, and those of the subjects that it holds.
func (seen *observed) served(version string) []acknowledgement.Record {
	records := []acknowledgement.Record{{Name: seen.recordSecret.Name, Version: version}}
	for _, secret := range seen.subjects {
		records = append(records, acknowledgement.Record{Name: secret.Name, Version: secret.ResourceVersion})
	}
	return records
}

// subject identifies the tokens that select a client without a client ID. issuerName is the name of the
// issuer in the Realm, and issuer is the "iss" claim. Both are "kubernetes" for service accounts of the
// cluster.
type subject struct{ issuerName, issuer, subject string }

func compareSubjects(a, b subject) int {
	return cmp.Or(cmp.Compare(a.issuerName, b.issuerName), cmp.Compare(a.issuer, b.issuer), cmp.Compare(a.subject, b.subject))
}

// setSubject stores who holds a subject. The Secret is the subject's record.
func (seen *observed) setSubject(s subject, secret *corev1.Secret) {
	body, err := record.ReadSubject(secret)
	owner := types.NamespacedName{Namespace: body.Namespace, Name: body.Name}
	if err != nil {
		owner = record.OwnerName(secret)
	}
	if owner == client.ObjectKeyFromObject(seen.client) && (err != nil || body.UID == seen.client.UID) {
		put(&seen.subjects, s, secret)
	} else {
		put(&seen.subjectHolders, s, owner)
	}
}

func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// nextStep forgets what the API server said about the token servers, which was about the version before the writes.
func (seen *observed) nextStep() {
	seen.confirmed, seen.unconfirmed, seen.recordLive = false, false, false
	seen.written, seen.replanned = true, seen.credentialsErr != nil
}

// indexSet is what the client's index in the status lists of its realm depends on.
type indexSet struct {
	// index are the facts for the plan.
	index statusindex.Facts
	// records are the records of the held indexes.
	records map[int]*corev1.Secret
	// searched reports whether a free index was looked for, and retentionKnown whether index.Retention was read.
	searched, retentionKnown bool
	// namespaceRelease is the time at which the next index of the namespace is released; zero if it isn't full.
	namespaceRelease time.Time
}

// hold adds an index that the client holds. It ignores those of other objects and unreadable records.
func (seen *observed) hold(secret *corev1.Secret) {
	body, err := record.ReadIndex(secret)
	if err == nil && body.UID == seen.client.UID && body.RealmUID == seen.realm.UID {
		seen.index.Held = append(seen.index.Held, body)
		seen.records[body.Index] = secret
	}
}

// drop removes an index that the client doesn't hold any longer, or whose record has changed.
func (seen *observed) drop(index int) {
	seen.index.Held = slices.DeleteFunc(seen.index.Held, func(h record.Index) bool { return h.Index == index })
	delete(seen.records, index)
}

// listedHash is a hash that spec.secret.hashed lists.
type listedHash struct {
	// hash is the PHC string. source says where it comes from; see secrets.SourceSpec.
	hash, source string
	// missing is why the hash in a Secret is not known; nil if it is.
	missing *condition.Result
}
