package apiclient

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/apiclient/secrets"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

// A backup tool such as Velero restores a credentials Secret without an owner, or with the UID that its
// ApiClient had. In the second case, the garbage collector deletes the Secret, unless the client takes
// it over before.

// readAbandoned reads the credentials Secret of a restored client if no existing ApiClient owns it, and
// checks whether it contains a secret of the client. The client takes over no other Secret.
func (r *Reconciler) readAbandoned(ctx context.Context, seen *observed) error {
	candidates := seen.takeOverCandidates()
	if len(candidates) == 0 || isOwned(seen.credentials, seen.client) || !mayBeAbandoned(seen.credentials, seen.client) {
		return nil
	}
	live := &corev1.Secret{}
	found, err := get(ctx, r.Live, client.ObjectKeyFromObject(seen.credentials), live)
	if err != nil || !found || !mayBeAbandoned(live, seen.client) {
		return err
	}
	if secrets.Contains(generatedValues(live), candidates, r.Now()) {
		seen.credentials, seen.abandoned = live, true
	}
	return nil
}

// takeOverCandidates returns the secrets of a restored client; none if the client was not restored.
func (o *observed) takeOverCandidates() []record.ClientSecret {
	if !o.adopts() && o.current.Restored == nil {
		return nil
	}
	return slices.Concat(o.restoredSecrets(), o.current.Secrets)
}

// mayBeAbandoned reports whether a credentials Secret has no owner, or an ApiClient with the same name
// but another UID.
func mayBeAbandoned(secret client.Object, c *v1alpha1.ApiClient) bool {
	owner := metav1.GetControllerOf(secret)
	return secret.GetLabels()[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretGenerated && secret.GetDeletionTimestamp().IsZero() &&
		(owner == nil || owner.Kind == kind && owner.Name == c.Name && owner.UID != c.UID)
}

// takeOver removes the owner of an abandoned credentials Secret, so that the client can become its
// owner. It must run before the record contains the secret as the client's own: such a secret ends if
// the garbage collector deletes the Secret. It fails with a conflict if the Secret has changed since it
// was read.
func (r *Reconciler) takeOver(ctx context.Context, seen *observed) error {
	if !seen.abandoned || len(seen.credentials.OwnerReferences) == 0 {
		return nil
	}
	free := seen.credentials.DeepCopy()
	free.OwnerReferences = nil
	patch := client.MergeFromWithOptions(seen.credentials, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, free, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsNotFound(err) { // The garbage collector was faster.
		err = apierrors.NewConflict(corev1.Resource("secrets"), free.Name, err)
	}
	if err != nil {
		return fmt.Errorf("taking over the credentials Secret of ApiClient %s: %w", client.ObjectKeyFromObject(seen.client), err)
	}
	seen.credentials = free
	return nil
}
