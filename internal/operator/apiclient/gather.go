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
	"github.com/realmkeeper/realmkeeper/internal/operator/recordstore"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// observed is all that a decision stands on, as it was read. What doesn't exist is nil.
type observed struct {
	client *v1alpha1.ApiClient
	realm  *v1alpha1.Realm
	// claimants are the ApiClients with this client id in this realm, this one among them.
	claimants []v1alpha1.ApiClient
	// namespaces are the labels of the claimants' namespaces, by name.
	namespaces map[string]map[string]string
	// record holds current; unreadable says why it can't be read. state is how far the token servers are with it.
	record     *corev1.Secret
	current    record.Client
	unreadable *condition.Result
	state      acknowledgement.State
	// consumer is the Secret that stands under the consumer Secret's name, whosoever it is.
	// Of a client for which no secret is generated it is one of owned.
	consumer *corev1.Secret
	// owned are the Secrets that the operator made for this client.
	owned []corev1.Secret
	// provided is the Secret that the spec refers to. Without the label that allows to read it, it has only metadata.
	provided *corev1.Secret
	// accounts are the UIDs of the service accounts that the spec names and that exist, by name.
	accounts map[string]types.UID
	// unclaimed is the newest secret that was made and not handed out; empty for none.
	unclaimed string
	// authority is the certificate of the managed CA as PEM; empty where certificates come from elsewhere.
	authority []byte
	// authorityMissing means that there is a managed CA to come.
	authorityMissing bool
}

// read takes up the record; a nil one is none.
func (o *observed) read(secret *corev1.Secret) {
	o.record, o.current, o.unreadable = secret, record.Client{}, nil
	if secret == nil {
		return
	}
	var err error
	if o.current, err = record.ReadClient(secret); err != nil {
		o.unreadable = fault(v1alpha1.ReasonRecordUnreadable,
			"The client's record can't be read: %v. Token servers go on with its last good state. Restore the Secret from a backup, or delete it to have a new client secret made.", err)
	}
}

// secrets returns the secrets that the client has: none in a realm that isn't the one before.
func (o *observed) secrets() []record.ClientSecret {
	if o.realm == nil || o.current.RealmUID != o.realm.UID {
		return nil
	}
	return o.current.Secrets
}

// gather reads the ApiClient and what it stands on, and removes the records of earlier
// ApiClients of that name. The client is nil when it is gone or going.
func (r *Reconciler) gather(ctx context.Context, req ctrl.Request) (observed, error) {
	c := &v1alpha1.ApiClient{}
	if err := r.Client.Get(ctx, req.NamespacedName, c); client.IgnoreNotFound(err) != nil {
		return observed{}, fmt.Errorf("reading ApiClient %s: %w", req, err)
	}
	gone := c.UID == "" || !c.DeletionTimestamp.IsZero()
	uid := c.UID
	if gone {
		uid = types.UID("")
		r.Tracker.Forget(acknowledgement.Client, req)
		r.unclaimed.put(req.NamespacedName, "")
		r.seamless.put(req.NamespacedName, "")
		r.Events.Forget(req.NamespacedName)
	}
	newest := recordstore.CurrentUID(r.Live, req.NamespacedName, &v1alpha1.ApiClient{})
	if err := r.Records.DeleteOrphans(ctx, record.KindClient, req.NamespacedName, uid, newest); err != nil {
		return observed{}, err
	}
	if gone {
		return observed{}, nil
	}

	seen := observed{client: c}
	if err := r.gatherRealm(ctx, &seen); err != nil {
		return observed{}, err
	}
	if err := r.gatherSecrets(ctx, &seen); err != nil {
		return observed{}, err
	}
	if err := r.gatherAccounts(ctx, &seen); err != nil {
		return observed{}, err
	}
	return seen, nil
}

func (r *Reconciler) gatherRealm(ctx context.Context, seen *observed) error {
	realm := &v1alpha1.Realm{}
	name := seen.client.Spec.RealmRef.Name
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, realm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Realm %q: %w", name, err)
	}
	if realm.DeletionTimestamp.IsZero() {
		seen.realm = realm
	}

	claimants := &v1alpha1.ApiClientList{}
	if err := r.Client.List(ctx, claimants, client.MatchingFields{byClientID: clientIDKey(seen.client)}); err != nil {
		return fmt.Errorf("listing the ApiClients of client id %q in Realm %q: %w", seen.client.EffectiveClientID(), name, err)
	}
	seen.claimants = claimants.Items
	seen.namespaces = map[string]map[string]string{}
	for i := range claimants.Items {
		namespace := &corev1.Namespace{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: claimants.Items[i].Namespace}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Namespace %q: %w", claimants.Items[i].Namespace, err)
		}
		seen.namespaces[claimants.Items[i].Namespace] = namespace.Labels
	}
	return nil
}

func (r *Reconciler) gatherSecrets(ctx context.Context, seen *observed) error {
	recorded, err := r.Records.Get(ctx, record.KindClient, seen.client.UID)
	if err != nil {
		return err
	}
	seen.read(recorded)
	if recorded != nil {
		seen.state = r.Tracker.State(acknowledgement.Client, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(seen.client)}, recorded.ResourceVersion)
	}
	if r.Instance.TLS.Managed != nil {
		if seen.authority, err = r.Authority.Certificate(ctx); err != nil {
			return err
		}
		seen.authorityMissing = seen.authority == nil
	}

	seen.unclaimed = r.unclaimed.get(client.ObjectKeyFromObject(seen.client))
	owned := &corev1.SecretList{}
	err = r.Client.List(ctx, owned, client.InNamespace(seen.client.Namespace), client.MatchingFields{byOwner: string(seen.client.UID)})
	if err != nil {
		return fmt.Errorf("listing the Secrets of ApiClient %s: %w", client.ObjectKeyFromObject(seen.client), err)
	}
	seen.owned = owned.Items
	if seen.client.GeneratesSecret() {
		return r.gatherConsumer(ctx, seen)
	}
	if len(seen.owned) > 0 {
		seen.consumer = &seen.owned[0]
	}
	return r.gatherProvided(ctx, seen)
}

// gatherProvided reads the Secret that the spec refers to. The cache has only Secrets with our
// label, and may lag: what isn't taken up yet is read from the API server, and of a Secret
// without the label no more than its metadata.
func (r *Reconciler) gatherProvided(ctx context.Context, seen *observed) error {
	provided := secretSource(seen.client).Provided
	if provided == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: seen.client.Namespace, Name: provided.SecretRef.Name}
	cached := &corev1.Secret{}
	found, err := get(ctx, r.Client, key, cached)
	if err != nil {
		return err
	}
	if seen.provided = cached; found && readable(cached) && !mayHashSlowly(seen) && cached.Data != nil {
		return nil
	}
	seen.provided = nil
	metadata := secretMetadata()
	if found, err = get(ctx, r.Live, key, metadata); err != nil || !found {
		return err
	}
	seen.provided = &corev1.Secret{ObjectMeta: metadata.ObjectMeta}
	if !readable(seen.provided) {
		return nil
	}
	live := &corev1.Secret{}
	if found, err = get(ctx, r.Live, key, live); err != nil {
		return err
	}
	seen.provided = nil
	if found {
		seen.provided = live
	}
	return nil
}

// secretMetadata is for reading a Secret without its data.
func secretMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return metadata
}

// gatherConsumer reads the Secret under the consumer Secret's name. The cache has only
// Secrets with our label, and may lag: where what it has would lead to a new secret or take back one
// that was handed out, the API server itself is asked, and of a Secret that isn't ours for no more than its metadata.
func (r *Reconciler) gatherConsumer(ctx context.Context, seen *observed) error {
	key := client.ObjectKey{Namespace: seen.client.Namespace, Name: seen.client.EffectiveSecretName()}
	cached := &corev1.Secret{}
	found, err := get(ctx, r.Client, key, cached)
	if err != nil {
		return err
	}
	if found {
		if seen.consumer = cached; secrets.Look(secretFacts(seen), r.Now()).Conclusive() {
			return nil
		}
	}
	whose := secretMetadata()
	if found, err = get(ctx, r.Live, key, whose); err != nil {
		return err
	}
	seen.consumer = nil
	switch {
	case !found:
		return nil
	case !ours(whose, seen.client):
		seen.consumer = &corev1.Secret{ObjectMeta: whose.ObjectMeta}
		return nil
	}
	live := &corev1.Secret{}
	if found, err = get(ctx, r.Live, key, live); found {
		seen.consumer = live
	}
	return err
}

// get reads a Secret, and reports whether it is there.
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
