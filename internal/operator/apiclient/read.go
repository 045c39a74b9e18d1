package apiclient

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/statusindex"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/providedsecrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/protocol/statuslist"
	"github.com/realmkeeper/realmkeeper/internal/protocol/timestamp"
)

// observe reads what nearly every decision depends on, from caches or, if live is set, from the API server. As soon
// as it knows which objects exist, it collects the records of deleted ones with the same name. Nothing that follows can
// delay that. The client is nil if it does not exist or is being deleted.
func (r *Reconciler) observe(ctx context.Context, req ctrl.Request, live bool) (observed, error) {
	seen := observed{live: live, request: request{instance: r.Instance, at: r.Now()}}
	reads := []func(context.Context, *observed) error{
		r.readRecord, r.readSecrets, r.readUses, r.readAccounts, r.readSubjects, r.readIndexes,
	}
	err := r.readRequest(ctx, req, &seen)
	if err == nil {
		err = r.collect(ctx, req, &seen)
	}
	for i := 0; i < len(reads) && err == nil && seen.client != nil; i++ {
		err = reads[i](ctx, &seen)
	}
	return seen, err
}

// readRequest reads the ApiClient, its Realm, and its namespace, and all records with its name.
func (r *Reconciler) readRequest(ctx context.Context, req ctrl.Request, seen *observed) (err error) {
	c, from := &v1beta1.ApiClient{}, client.Reader(r.Client)
	if seen.live {
		from = r.Live
	}
	if err := from.Get(ctx, req.NamespacedName, c); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ApiClient %s: %w", req, err)
	}
	if c.UID != "" && c.DeletionTimestamp.IsZero() {
		seen.client = c
		if err := r.readRealm(ctx, seen); err != nil {
			return err
		}
	}
	seen.ofName, err = r.Records.OfOwner(req.NamespacedName)
	return err
}

// readAgain reads everything from the API server, because of what was found in caches.
func (r *Reconciler) readAgain(ctx context.Context, req ctrl.Request, seen observed, cause error) (observed, error) {
	if seen.live {
		return seen, cause // The retry reads it again.
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Reconciling with the API server instead of the cache", "reason", cause.Error())
	return r.observe(ctx, req, true)
}

// fetch reads what a decision lacks, in the order that it depends on.
func (r *Reconciler) fetch(ctx context.Context, req ctrl.Request, seen observed, d *decision) (observed, error) {
	if d.lacks&lacksLive != 0 {
		return r.readAgain(ctx, req, seen, fmt.Errorf("%w: %s", errInconclusive, cmp.Or(d.lagging, "caches may lag")))
	}
	for _, fact := range []struct {
		lacks lacks
		fetch func(context.Context, *observed) error
	}{
		{lacksRecord, r.confirmRecord},
		{lacksSubjects, r.lookUpSubjects},
		{lacksRealm, r.readLiveRealm}, // after who holds what the client would acquire
		{lacksIndex, r.findIndex},
		{lacksRetention, r.readRetention},
		{lacksUses, r.confirmUses},
		{lacksHash, r.hash},
		{lacksConfirmation, r.confirm},
	} {
		if d.lacks&fact.lacks == 0 {
			continue
		}
		if err := fact.fetch(ctx, &seen); errors.Is(err, errInconclusive) {
			return r.readAgain(ctx, req, seen, err)
		} else if err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// readRealm reads the Realm and the namespaces that its grants depend on. The caches of ApiClients and
// namespaces are filled separately, so readRealm reads a namespace that the cache lacks from the API
// server.
func (r *Reconciler) readRealm(ctx context.Context, seen *observed) error {
	if seen.live {
		return readRealmFrom(ctx, r.Live, r.Namespaces.Live, seen)
	}
	if err := readRealmFrom(ctx, r.Client, r.Namespaces.Get, seen); err != nil || seen.realm == nil || seen.namespace != nil {
		return err
	}
	var err error
	seen.namespace, err = r.Namespaces.Live(ctx, seen.client.Namespace)
	return err
}

// readRecord reads the record with the client's ID.
func (r *Reconciler) readRecord(ctx context.Context, seen *observed) error {
	if seen.realm == nil {
		return nil
	}
	get := r.Records.Get
	switch {
	case seen.live:
		get = r.Records.Live
	case seen.client.Status.ObservedGeneration <= 0:
		// A new client has no record yet, which saves a request. If it has one, the creation fails, and
		// the API server is asked.
		get = func(_ context.Context, name string) (*corev1.Secret, error) { return r.Records.Cached(name) }
	}
	secret, err := get(ctx, record.ClientRecordName(seen.realm.UID, seen.client.EffectiveClientID()))
	if err != nil {
		return err
	}
	seen.setRecord(secret)
	if secret == nil && seen.live && seen.client.Status.ObservedGeneration > 0 {
		// The client had a record. Both may have been deleted since the client was read.
		key := client.ObjectKeyFromObject(seen.client)
		if uid, err := recordstore.CurrentUID(ctx, r.Live, key, &v1beta1.ApiClient{}); err != nil || uid != seen.client.UID {
			return cmp.Or(err, fmt.Errorf("%w: ApiClient %s was deleted", errInconclusive, key))
		}
	}
	return nil
}

// readLiveRealm reads the Realm and the namespaces again, from the API server. With a grant that only the cache still
// contains, a client could acquire a client ID or a subject, and keep it.
//
// Errors: errInconclusive.
func (r *Reconciler) readLiveRealm(ctx context.Context, seen *observed) error {
	cached := seen.realm
	if err := readRealmFrom(ctx, r.Live, r.Namespaces.Live, seen); err != nil {
		return err
	}
	if seen.realm == nil || seen.realm.UID != cached.UID {
		return fmt.Errorf("%w: Realm %q was deleted", errInconclusive, cached.Name) // A recreated one has other records.
	}
	if seen.realmLive = true; seen.recordSecret != nil {
		seen.otherNamespace = "" // See setRecord.
	}
	return nil
}

// namespaceReader reads a namespace; nil if it doesn't exist.
type namespaceReader func(ctx context.Context, name string) (*corev1.Namespace, error)

// readRealmFrom reads the Realm and the namespaces into seen.
func readRealmFrom(ctx context.Context, from client.Reader, namespace namespaceReader, seen *observed) error {
	c := seen.client
	seen.realm, seen.namespace, seen.otherNamespace = nil, nil, ""
	realm := &v1beta1.Realm{}
	err := from.Get(ctx, client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Realm %q: %w", c.Spec.RealmRef.Name, err)
	case realm.DeletionTimestamp.IsZero():
		seen.realm = realm
	}
	if seen.namespace, err = namespace(ctx, c.Namespace); err != nil {
		return err
	}
	other := resembledNamespace(c)
	if other == "" {
		return nil
	}
	found, err := namespace(ctx, other)
	if found != nil {
		seen.otherNamespace = other
	}
	return err
}

func (r *Reconciler) readSecrets(ctx context.Context, seen *observed) error {
	var err error
	if r.Instance.TLS.Managed != nil {
		if seen.caBundle, err = r.Authority.Bundle(ctx); err != nil {
			return err
		}
		seen.caMissing = seen.caBundle == nil
	}

	if !r.Instance.ManagesCredentialsSecrets() {
		return nil
	}
	if seen.owned, err = r.ownedSecrets(ctx, seen.client); err != nil {
		return err
	}
	if seen.client.GeneratesSecret() {
		return r.readCredentials(ctx, seen)
	}
	if err := r.readHashes(ctx, seen); err != nil {
		return err
	}
	return r.readProvided(ctx, seen)
}

// ownedSecrets returns the cached credentials Secrets that the client owns. The index byOwner omits
// the one with the client's name.
func (r *Reconciler) ownedSecrets(ctx context.Context, c *v1beta1.ApiClient) ([]corev1.Secret, error) {
	owned, namesake := &corev1.SecretList{}, &corev1.Secret{}
	err := r.Client.List(ctx, owned, client.InNamespace(c.Namespace), client.MatchingFields{byOwner: string(c.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of ApiClient %s: %w", client.ObjectKeyFromObject(c), err)
	}
	found, err := get(ctx, r.Client, client.ObjectKeyFromObject(c), namesake)
	if found && isOwned(namesake, c) {
		owned.Items = append(owned.Items, *namesake)
	}
	for i := range owned.Items {
		owned.Items[i] = *apply.Unpack(&owned.Items[i])
	}
	return owned.Items, err
}

// metadataOf returns an object for reading only the metadata of a Secret or a ServiceAccount.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return metadata
}

// readCredentials reads the Secret with the credentials Secret's name. The cache contains only labeled
// Secrets, and only part of each.
func (r *Reconciler) readCredentials(ctx context.Context, seen *observed) error {
	key := client.ObjectKey{Namespace: seen.client.Namespace, Name: seen.client.EffectiveSecretName()}
	if seen.live {
		var err error
		seen.credentials, err = r.readOwned(ctx, key, seen.client)
		return err
	}
	if i := slices.IndexFunc(seen.owned, func(s corev1.Secret) bool { return s.Name == key.Name }); i >= 0 {
		seen.credentials = &seen.owned[i]
		return nil
	}
	cached := &corev1.Secret{}
	found, err := get(ctx, r.Client, key, cached)
	if found && mayBelong(cached) {
		seen.credentials, err = r.readOwned(ctx, key, seen.client) // The cache doesn't say whether it is empty.
	} else if found {
		seen.credentials = apply.Unpack(cached)
	}
	return err
}

// readOwned reads a Secret from the API server; nil if it does not exist. If the client does not
// own it and can't adopt it, only its metadata is read.
func (r *Reconciler) readOwned(ctx context.Context, key client.ObjectKey, c *v1beta1.ApiClient) (*corev1.Secret, error) {
	metadata := metadataOf("Secret")
	if found, err := get(ctx, r.Live, key, metadata); err != nil || !found {
		return nil, err
	}
	if !isOwned(metadata, c) && !mayBelong(metadata) {
		return &corev1.Secret{ObjectMeta: metadata.ObjectMeta}, nil
	}
	live := &corev1.Secret{}
	if found, err := get(ctx, r.Live, key, live); err != nil || !found {
		return nil, err
	}
	return live, nil
}

// get reads a Secret and reports whether it exists.
func get(ctx context.Context, from client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := from.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return true, nil
}

// readProvided reads the metadata of the Secret that the spec refers to.
func (r *Reconciler) readProvided(ctx context.Context, seen *observed) error {
	if secretSource(seen.client).Provided == nil {
		return nil
	}
	secret, err := r.readReferenced(ctx, providedName(seen.client), seen.live)
	if err != nil || secret == nil {
		return err
	}
	seen.provided = secret
	seen.unhashed = providedsecrets.Readable(secret) && !seen.providedUnchanged()
	return nil
}

// readReferenced reads the metadata of a Secret to which a spec refers; nil if it does not exist. The
// cache contains only labeled Secrets, so a missing one is looked for in the API server.
func (r *Reconciler) readReferenced(ctx context.Context, key client.ObjectKey, live bool) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if !live {
		cached, err := get(ctx, r.Client, key, secret)
		if err != nil || cached && providedsecrets.Readable(secret) {
			return secret, err
		}
	}
	metadata := metadataOf("Secret")
	if found, err := get(ctx, r.Live, key, metadata); err != nil || !found {
		return nil, err
	}
	return &corev1.Secret{ObjectMeta: metadata.ObjectMeta}, nil
}

// readHashes reads the hashes in the Secrets that spec.secret.hashed refers to. A recorded hash from the
// same version of a Secret isn't read again.
func (r *Reconciler) readHashes(ctx context.Context, seen *observed) error {
	hashes := seen.listedHashes()
	for i, h := range secretSource(seen.client).Hashed {
		if h.HashSecretRef.Name == "" {
			continue
		}
		seen.hashes = hashes
		key := client.ObjectKey{Namespace: seen.client.Namespace, Name: h.HashSecretRef.Name}
		secret, err := r.readReferenced(ctx, key, seen.live)
		if err != nil {
			return err
		}
		if missing := readable(secret, h.HashSecretRef); missing != nil {
			hashes[i] = listedHash{missing: missing}
			continue
		}
		source := hashSource(secret, h.HashSecretRef)
		if recorded := seen.recordedHash(h.ID, source); recorded != "" {
			hashes[i] = listedHash{hash: recorded, source: source}
			continue
		}
		if secret, err = providedsecrets.Read(ctx, r.Live, key); err != nil {
			return err
		}
		hashes[i] = hashIn(secret, h.HashSecretRef)
	}
	return nil
}

// readAccounts reads the UIDs of the service accounts that the spec lists.
func (r *Reconciler) readAccounts(ctx context.Context, seen *observed) error {
	seen.accounts = map[string]types.UID{}
	from := client.Reader(r.Accounts)
	if seen.live {
		from = r.Live
	}
	for _, name := range seen.client.Spec.ServiceAccounts() {
		key := client.ObjectKey{Namespace: seen.client.Namespace, Name: name}
		account := metadataOf("ServiceAccount")
		if err := from.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading ServiceAccount %s: %w", key, err)
		}
		if accountExists(account) {
			seen.accounts[name] = account.UID
		}
	}
	return nil
}

// accountExists reports whether a service account was found and is not being deleted. The API server
// doesn't issue tokens for an account that is being deleted.
func accountExists(account client.Object) bool {
	return account.GetUID() != "" && account.GetDeletionTimestamp().IsZero()
}

// useReader is the part of lastuse.Store that tells how long a credential has been unused.
type useReader interface {
	Quiet(c types.UID, credential usage.Credential, recorded time.Time) (since, until time.Time, ok bool)
	Confirm(ctx context.Context, live client.Reader, c *v1beta1.ApiClient, credential usage.Credential) (since, until time.Time, ok bool, err error)
}

// readUses reads the uses of retiring secrets that may expire because they are unused.
func (r *Reconciler) readUses(_ context.Context, seen *observed) error {
	readUses(r.Usage, seen)
	return nil
}

func readUses(from useReader, seen *observed) {
	if !seen.client.GeneratesSecret() || unusedFor(&seen.request) == 0 {
		return
	}
	seen.uses = map[string]secrets.Use{}
	for _, s := range seen.recorded.Secrets {
		if s.Role != record.RoleRetiring {
			continue
		}
		credential := usage.Credential{Type: usage.Secret, ID: s.ID}
		recorded, listed := lastuse.LastUsed(seen.client, credential)
		if since, until, known := from.Quiet(seen.client.UID, credential, recorded); known && listed {
			seen.uses[s.ID] = secrets.Use{Last: since, Until: until}
		}
	}
}

// confirmUses reads the uses of retiring secrets from the API server, because caches can lag.
func (r *Reconciler) confirmUses(ctx context.Context, seen *observed) error {
	return confirmUses(ctx, r.Usage, r.Live, seen)
}

func confirmUses(ctx context.Context, from useReader, live client.Reader, seen *observed) error {
	for id := range seen.uses {
		since, until, known, err := from.Confirm(ctx, live, seen.client, usage.Credential{Type: usage.Secret, ID: id})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("confirming that secret %s of ApiClient %s is unused: %w", id, client.ObjectKeyFromObject(seen.client), err)
		}
		if known {
			seen.uses[id] = secrets.Use{Last: since, Until: until, Confirmed: true}
		} else {
			delete(seen.uses, id)
		}
	}
	return nil
}

// readSubjects reads from the cache which records of subjects the client has or had, and who holds the subjects
// that it lists.
func (r *Reconciler) readSubjects(_ context.Context, seen *observed) error {
	seen.subjectsOfName = recordstore.OfKind(record.KindSubject, seen.ofName)
	if seen.realm == nil {
		return nil
	}
	for _, s := range listedSubjects(seen) {
		secret, err := r.Records.Cached(subjectSecretName(seen, s))
		if err != nil {
			return err
		}
		if secret != nil {
			seen.setSubject(s, secret)
		}
	}
	return nil
}

// lookUpSubjects asks the API server for the records of the listed subjects that the cache lacks.
func (r *Reconciler) lookUpSubjects(ctx context.Context, seen *observed) error {
	for _, s := range seen.unknownSubjects() {
		secret, err := r.Records.Live(ctx, subjectSecretName(seen, s))
		if err != nil {
			return err
		}
		if secret == nil {
			put(&seen.freeSubjects, s, true)
		} else {
			seen.setSubject(s, secret)
		}
	}
	return nil
}

func subjectSecretName(seen *observed, s subject) string {
	return record.SubjectRecordName(seen.realm.UID, s.issuerName, s.issuer, s.subject)
}

// hash hashes the value of the provided Secret, unless other clients of the namespace or too many
// other namespaces do so. It updates the Secret in seen to the version that was hashed.
func (r *Reconciler) hash(ctx context.Context, seen *observed) error {
	secret, value, err := r.Hasher.Hash(ctx, providedName(seen.client), providedKey(seen.client), seen.knownHash())
	if err == nil && secret != nil {
		seen.provided, seen.value, seen.unhashed = secret, value, false
	}
	seen.hashTried, seen.hashErr = true, err // Everything else goes on without the hash.
	return nil
}

// confirm asks the API server whether every token server serves the record, because a step follows
// that can't be undone.
func (r *Reconciler) confirm(ctx context.Context, seen *observed) (err error) {
	seen.confirmed, err = r.Tracker.Confirm(ctx, seen.served(seen.recordSecret.ResourceVersion)...)
	seen.unconfirmed = !seen.confirmed
	return err
}

// follow asks which token servers serve the record, and requests a reconcile when that changes, so that no
// acknowledgement of this version is missed. Token servers load records in order, so a server that serves the record
// also serves its content.
func (r *Reconciler) follow(req ctrl.Request, seen *observed) {
	if seen.recordSecret == nil {
		r.Tracker.Forget(acknowledgement.Client, req)
		seen.acknowledged, seen.contentState = false, nil
		return
	}
	// The state of the version itself is what a change triggers a reconcile for, because steps depend on it.
	state := r.Tracker.Follow(acknowledgement.Client, req, seen.served(seen.recordSecret.ResourceVersion)...)
	seen.acknowledged = state == acknowledgement.Acknowledged
	if version := seen.recorded.Basis.ContentVersion; version != "" {
		state = r.Tracker.State(seen.served(version)...)
	}
	seen.contentState = &state
}

// readIndexes reads the indexes that the client holds.
func (r *Reconciler) readIndexes(ctx context.Context, seen *observed) error {
	seen.indexSet = indexSet{records: map[int]*corev1.Secret{}}
	if seen.realm == nil {
		return nil
	}
	seen.index = statusindex.Facts{
		HasList: seen.realm.Spec.StatusList.Enabled || seen.realm.Status.StatusListURI != "",
		Current: seen.recorded.StatusIndex, Serial: seen.recorded.IndexSerial, Free: statusindex.None,
		ValidAfter: tokensValidAfter(seen), Suspended: seen.client.Spec.Suspend,
	}
	if !seen.index.HasList && seen.index.Current != nil {
		// The status can be older than the record.
		lists, err := r.statusLists(ctx, seen.realm.UID)
		if err != nil {
			return err
		}
		seen.index.HasList = lists != nil && lists.Number != 0
	}
	for _, secret := range recordstore.OfKind(record.KindIndex, seen.ofName) {
		if seen.live && seen.index.Serial == 0 {
			// Without a serial, as in a new or restored record, a former state of an index in the cache can't be told
			// from the current one.
			latest, err := r.Records.Live(ctx, secret.Name)
			if err != nil {
				return err
			}
			if latest == nil {
				continue
			}
			secret = latest
		}
		seen.hold(secret)
	}
	return r.readCurrentIndex(ctx, seen)
}

// findIndex looks for a free index.
func (r *Reconciler) findIndex(ctx context.Context, seen *observed) (err error) {
	seen.searched = true
	if seen.index.NamespaceFull, err = r.namespaceFull(ctx, seen); err != nil {
		return err
	}
	seen.index.Free, err = r.freeIndex(seen.realm)
	return err
}

// statusLists returns the status lists in a realm's record; nil if it has none or can't be read.
func (r *Reconciler) statusLists(ctx context.Context, realm types.UID) (*record.StatusLists, error) {
	secret, err := r.Records.Get(ctx, record.RealmRecordName(realm))
	if err != nil || secret == nil {
		return nil, err
	}
	body, _ := record.ReadRealm(secret) // The Realm's status has the error.
	return body.StatusLists, nil
}

// confirmRecord checks that the record is the latest one. Otherwise, an operator whose cache lags would acquire an index
// that the client never uses, or undo a change of its credentials Secret.
//
// Errors: errInconclusive.
func (r *Reconciler) confirmRecord(ctx context.Context, seen *observed) error {
	latest, err := r.Records.Live(ctx, seen.recordSecret.Name)
	if err != nil {
		return err
	}
	if latest == nil || latest.ResourceVersion != seen.recordSecret.ResourceVersion {
		return fmt.Errorf("%w: record %s has changed", errInconclusive, seen.recordSecret.Name)
	}
	seen.recordLive = true
	return nil
}

// readCurrentIndex reads the record of the client's index if the cache doesn't contain it.
func (r *Reconciler) readCurrentIndex(ctx context.Context, seen *observed) error {
	if seen.index.Current == nil || seen.records[seen.index.Current.Index] != nil {
		return nil
	}
	secret, err := r.Records.Get(ctx, record.IndexRecordName(seen.realm.UID, seen.index.Current.Index))
	if err != nil || secret == nil {
		return err
	}
	seen.hold(secret)
	seen.index.CurrentLost = seen.records[seen.index.Current.Index] == nil
	return nil
}

// readRetention reads how long the client's obsolete indexes stay retired.
func (r *Reconciler) readRetention(ctx context.Context, seen *observed) (err error) {
	seen.index.Retention, err = r.indexRetention(ctx, seen.realm.UID)
	seen.retentionKnown = true
	return err
}

// maxTTLSeconds is the limit of the API, for a realm whose record can't be read.
const maxTTLSeconds = 600

// indexRetention returns how long an index of a realm stays retired: until the last token that refers to it, and
// the last list in which it isn't INVALID, have expired. A server that hasn't loaded a change for longer than
// signingkey.Skew doesn't count any more, and verifiers can have slow clocks.
func (r *Reconciler) indexRetention(ctx context.Context, realm types.UID) (time.Duration, error) {
	secret, err := r.Records.Get(ctx, record.RealmRecordName(realm))
	if err != nil || secret == nil {
		return 0, err // Without the keys, no token is valid.
	}
	body, err := record.ReadRealm(secret)
	if err != nil {
		body.Keys = []signingkey.Key{{LongestLifetime: signingkey.MaxLifetime}} // The Realm's status has the error.
		body.StatusLists = &record.StatusLists{TTLSeconds: maxTTLSeconds}
	}
	retention := signingkey.LongestLifetime(body.Keys) + 2*r.Instance.Scaled(signingkey.Skew)
	if lists := body.StatusLists; lists != nil {
		ttl := time.Duration(lists.TTLSeconds) * time.Second
		retention += r.Instance.Scaled(statuslist.Lifetime(r.Instance.TokenServer.MaxStaleness.Duration, ttl))
	}
	return retention, nil
}

// namespaceFull reports whether too many indexes of the client's namespace are retired. Otherwise, a tenant
// who deletes and creates clients could use up the indexes of a realm.
func (r *Reconciler) namespaceFull(ctx context.Context, seen *observed) (bool, error) {
	namespace := seen.client.Namespace
	number, err := r.Records.CountRetired(namespace)
	if err != nil || number < statusindex.PerNamespace || number < statusindex.PerNamespace+2*len(r.requests(ctx, client.InNamespace(namespace))) {
		return false, err
	}
	retired, err := r.Records.RetiredIndexes(namespace)
	if err != nil {
		return false, err
	}
	retention, err := r.indexRetention(ctx, seen.realm.UID)
	if err != nil {
		return false, err
	}
	for _, secret := range retired {
		if body, err := record.ReadIndex(secret); err == nil {
			seen.namespaceRelease = timestamp.Earliest(seen.namespaceRelease, body.RetiredAt.Add(retention))
		}
	}
	return true, nil
}

const (
	// minIndexes is the smallest number of indexes from which a client's is chosen. It hides how few clients
	// a realm has.
	minIndexes = statuslist.MinEntries
	// indexTries is how many random indexes are tried in each range.
	indexTries = 64
)

// freeIndex returns a random index that is free according to the cache, or statusindex.None. It chooses below
// the smallest power of two that is at least the number of clients, and doubles this range while it is too full.
func (r *Reconciler) freeIndex(realm *v1beta1.Realm) (int, error) {
	size := minIndexes
	if clients := realm.Status.Clients; clients != nil && *clients > minIndexes {
		size = min(1<<bits.Len32(uint32(*clients-1)), record.MaxIndexes) // Clients that aren't Accepted count, too.
	}
	var random [4]byte
	for ; size <= record.MaxIndexes; size *= 2 {
		for range indexTries {
			if _, err := io.ReadFull(r.Random, random[:]); err != nil {
				return 0, fmt.Errorf("choosing an index: %w", err)
			}
			index := int(binary.BigEndian.Uint32(random[:])) & (size - 1)
			holder, err := r.Records.Cached(record.IndexRecordName(realm.UID, index))
			if err != nil {
				return 0, err
			}
			if holder == nil {
				return index, nil
			}
		}
	}
	return statusindex.None, nil
}
