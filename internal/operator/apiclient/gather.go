package apiclient

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/operator/condition"
	"github.com/realmkeeper/realmkeeper/internal/operator/lastuse"
	"github.com/realmkeeper/realmkeeper/internal/operator/provided"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// observed is the state that the controller read for an ApiClient. Objects that do not exist are
// nil.
type observed struct {
	// live reports whether the objects were read from the API server and not from caches, except for
	// service accounts, provided Secrets, and subjects.
	live bool

	client *v1alpha1.ApiClient
	realm  *v1alpha1.Realm
	// namespace is the client's namespace; nil if it is unknown.
	namespace *corev1.Namespace
	// otherNamespace is the name of another existing namespace whose default client IDs spec.clientId
	// resembles; empty if there is none.
	otherNamespace string
	// holder is the ApiClient that holds the client ID; empty if this client holds it or it is free.
	holder types.NamespacedName
	// record is the Secret with the record, and current is its content. unreadable is the reason
	// why it cannot be read, if any.
	record     *corev1.Secret
	current    record.Client
	unreadable *condition.Result
	// acknowledged reports whether every live token server serves the record.
	acknowledged bool
	// credentials is the Secret with the credentials Secret's name, regardless of owner. If the
	// client's secret is not generated, credentials is one of owned.
	credentials *corev1.Secret
	// owned are the credentials Secrets that this client owns.
	owned []corev1.Secret
	// provided is the Secret that the spec refers to, without its values. value is the result of
	// hashing its value. hashing reports that it is not hashed yet.
	provided *corev1.Secret
	value    provided.Result
	hashing  bool
	// accounts maps the names of service accounts that the spec lists and that exist to their UIDs.
	accounts map[string]types.UID
	// subjects are the records of the listed subjects that this client holds. subjectHolders are the
	// ApiClients that hold other listed subjects. ownSubjects are the records of all subjects that
	// this client holds, including those that the spec no longer lists.
	subjects       map[subject]*corev1.Secret
	subjectHolders map[subject]types.NamespacedName
	ownSubjects    []corev1.Secret
	// writeErr is the error from writing the credentials Secret in this reconcile; nil if there is none.
	writeErr error
	// uses are the known uses of secrets that may end because they are unused, by ID. reported are
	// uses that the next status adds to those in the previous status.
	uses     map[string]secrets.Use
	reported lastuse.Uses
	// authority contains the certificates that clients must trust in PEM; empty if certificates are
	// not managed by the operator.
	authority []byte
	// authorityMissing reports whether the managed CA does not exist yet.
	authorityMissing bool
}

// read decodes the record with the client's ID. The Secret may be nil. If the record belongs to
// another ApiClient, read only records which one.
func (o *observed) read(secret *corev1.Secret) {
	o.record, o.current, o.unreadable, o.holder = nil, record.Client{}, nil, types.NamespacedName{}
	if secret == nil {
		return
	}
	current, err := record.ReadClient(secret)
	owner := types.NamespacedName{Namespace: current.Namespace, Name: current.Name}
	if err != nil {
		owner = record.OwnerName(secret)
	}
	if owner != client.ObjectKeyFromObject(o.client) || err == nil && current.UID != o.client.UID {
		o.holder = owner
		return
	}
	o.record, o.current = secret, current
	if err != nil {
		o.unreadable = notReady(v1alpha1.ReasonRecordUnreadable,
			"The operator cannot read the client's record: %v. Token servers keep serving the last known good record. Run \"kubectl realmkeeper restore\" with a backup, which replaces the record. Without a backup, delete the Secret: a generated client secret is replaced, and the identity of an earlier restore is lost.", err)
	}
}

// namespaceLabels returns the labels of the client's namespace; nil if they are unknown.
func (o *observed) namespaceLabels() map[string]string {
	if o.namespace == nil {
		return nil
	}
	if o.namespace.Labels == nil {
		return map[string]string{}
	}
	return o.namespace.Labels
}

// served returns the records that token servers must serve: the client's, from the given resource version
// on, and those of the subjects that it holds.
func (o *observed) served(version string) []acknowledgement.Record {
	records := []acknowledgement.Record{{Name: o.record.Name, Version: version}}
	for _, secret := range o.subjects {
		records = append(records, acknowledgement.Record{Name: secret.Name, Version: secret.ResourceVersion})
	}
	return records
}

// gather reads the ApiClient and the objects it depends on, and deletes the records of deleted
// ApiClients with the same name. The client is nil if it does not exist or is being deleted.
func (r *Reconciler) gather(ctx context.Context, req ctrl.Request, live bool) (observed, error) {
	c, from := &v1alpha1.ApiClient{}, client.Reader(r.Client)
	if live {
		from = r.Live
	}
	if err := from.Get(ctx, req.NamespacedName, c); client.IgnoreNotFound(err) != nil {
		return observed{}, fmt.Errorf("reading ApiClient %s: %w", req, err)
	}
	seen, uid := observed{live: live}, types.UID("")
	if c.UID != "" && c.DeletionTimestamp.IsZero() {
		seen.client, uid = c, c.UID
		if err := r.gatherRealm(ctx, &seen); err != nil {
			return observed{}, err
		}
	} else {
		r.forget(req)
	}
	if err := r.deleteOrphans(ctx, req, uid, seen.realm); err != nil || seen.client == nil {
		return observed{}, err
	}
	for _, read := range []func(context.Context, *observed) error{
		r.gatherRecord, r.gatherSecrets, r.gatherUses, r.gatherAccounts, r.gatherSubjects,
	} {
		if err := read(ctx, &seen); err != nil {
			return observed{}, err
		}
	}
	return seen, nil
}

// forget drops what the process knows about an ApiClient that was deleted or is not served.
func (r *Reconciler) forget(req ctrl.Request) {
	r.Tracker.Forget(acknowledgement.Client, req)
	r.Events.Forget(req.NamespacedName)
}

func (r *Reconciler) gatherSecrets(ctx context.Context, seen *observed) error {
	var err error
	if r.Instance.TLS.Managed != nil {
		if seen.authority, err = r.Authority.Bundle(ctx); err != nil {
			return err
		}
		seen.authorityMissing = seen.authority == nil
	}

	if !r.Instance.ManagesCredentialsSecrets() {
		return nil
	}
	if seen.owned, err = r.ownedSecrets(ctx, seen.client); err != nil {
		return err
	}
	if seen.client.GeneratesSecret() {
		return r.gatherCredentials(ctx, seen)
	}
	if err := r.readLarge(ctx, seen); err != nil {
		return err
	}
	if len(seen.owned) > 0 {
		seen.credentials = &seen.owned[0]
	}
	return r.gatherProvided(ctx, seen)
}

// ownedSecrets returns the cached credentials Secrets that the client owns. The index byOwner omits
// the one with the client's name.
func (r *Reconciler) ownedSecrets(ctx context.Context, c *v1alpha1.ApiClient) ([]corev1.Secret, error) {
	owned, namesake := &corev1.SecretList{}, &corev1.Secret{}
	err := r.Client.List(ctx, owned, client.InNamespace(c.Namespace), client.MatchingFields{byOwner: string(c.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of ApiClient %s: %w", client.ObjectKeyFromObject(c), err)
	}
	found, err := get(ctx, r.Client, client.ObjectKeyFromObject(c), namesake)
	if found && isOwned(namesake, c) {
		owned.Items = append(owned.Items, *namesake)
	}
	return owned.Items, err
}

// secretMetadata returns an object for reading only the metadata of a Secret.
func secretMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return metadata
}

// gatherCredentials reads the Secret with the credentials Secret's name. The cache contains only labeled
// Secrets, and only part of each.
func (r *Reconciler) gatherCredentials(ctx context.Context, seen *observed) error {
	key := client.ObjectKey{Namespace: seen.client.Namespace, Name: seen.client.EffectiveSecretName()}
	if seen.live {
		var err error
		seen.credentials, err = r.readOwned(ctx, key, seen.client)
		return err
	}
	cached := &corev1.Secret{}
	found, err := get(ctx, r.Client, key, cached)
	if found {
		seen.credentials = cached
	}
	return err
}

// readLarge reads the owned Secrets that the cache contains without their data.
func (r *Reconciler) readLarge(ctx context.Context, seen *observed) error {
	var owned []corev1.Secret
	for _, secret := range seen.owned {
		if secret.Data == nil {
			live, err := r.readOwned(ctx, client.ObjectKeyFromObject(&secret), seen.client)
			if err != nil {
				return err
			}
			if live == nil || !isOwned(live, seen.client) {
				continue
			}
			secret = *live
		}
		owned = append(owned, secret)
	}
	seen.owned = owned
	return nil
}

// readOwned reads a Secret from the API server; nil if it does not exist. If the client does not
// own it, only its metadata is read.
func (r *Reconciler) readOwned(ctx context.Context, key client.ObjectKey, c *v1alpha1.ApiClient) (*corev1.Secret, error) {
	metadata := secretMetadata()
	if found, err := get(ctx, r.Live, key, metadata); err != nil || !found {
		return nil, err
	}
	if !isOwned(metadata, c) {
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
