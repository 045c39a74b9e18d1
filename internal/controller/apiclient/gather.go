package apiclient

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/recordstore"
)

// observed is all that a decision stands on, as it was read. What doesn't exist is nil.
type observed struct {
	client *v1alpha1.ApiClient
	realm  *v1alpha1.Realm
	// claimants are the ApiClients with this client id in this realm, this one among them.
	claimants []v1alpha1.ApiClient
	// namespaces are the labels of the claimants' namespaces, by name.
	namespaces map[string]map[string]string
	record     *corev1.Secret
	// consumer is the Secret that stands under the consumer Secret's name, whosoever it is.
	consumer *corev1.Secret
	// authority is the certificate of the managed CA as PEM; empty where certificates come from elsewhere.
	authority []byte
	// authorityMissing means that there is a managed CA to come.
	authorityMissing bool
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
	}
	newest := recordstore.NewestUID(r.Live, req.NamespacedName, &v1alpha1.ApiClient{})
	if err := r.Records.RemoveStrays(ctx, record.KindClient, req.NamespacedName, uid, newest); err != nil {
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
	var err error
	if seen.record, err = r.Records.Get(ctx, record.KindClient, seen.client.UID); err != nil {
		return err
	}
	if r.Instance.TLS.Managed != nil {
		if seen.authority, err = r.Authority.Certificate(ctx); err != nil {
			return err
		}
		seen.authorityMissing = seen.authority == nil
	}

	// The cache has only Secrets with our label, and may lag. Where what it has would lead
	// to a new secret, the API server itself is asked.
	if seen.consumer, err = r.consumer(ctx, r.Client, seen.client); err != nil {
		return err
	}
	if seen.consumer == nil || plaintext(seen) == "" {
		seen.consumer, err = r.consumer(ctx, r.Live, seen.client)
	}
	return err
}

func (r *Reconciler) consumer(ctx context.Context, from client.Reader, c *v1alpha1.ApiClient) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.EffectiveSecretName()}
	err := from.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // No Secret is an answer.
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret, nil
}
