package kubectlplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/record"
)

var errUnfinished = errors.New("another restore is not finished")

// createRecord creates a restore record and returns its UID. It keeps one that exists if it is that of
// this backup.
func (r *restoration) createRecord(ctx context.Context, body record.Restore) (types.UID, error) {
	desired, err := record.ForRestore(r.namespace, body)
	if err != nil {
		return "", err
	}
	secret := &corev1.Secret{}
	encoded, err := json.Marshal(desired)
	if err == nil {
		err = json.Unmarshal(encoded, secret)
	}
	if err != nil {
		return "", err
	}
	if _, exists := r.live.records[secret.Name]; exists {
		return r.checkRecord(ctx, body, secret)
	}
	err = r.c.Create(ctx, secret, r.creation()...)
	if isMissingNamespace(err) {
		return "", fmt.Errorf("%w: the records namespace %s does not exist; install Realmkeeper before you restore", errNoInstance, r.namespace)
	}
	if apierrors.IsAlreadyExists(err) {
		return r.checkRecord(ctx, body, secret)
	}
	return secret.UID, wrap(err, "creating the restore record in namespace %s", r.namespace)
}

// checkRecord checks that the existing restore record is that of this backup. It replaces one that a
// deleted object has adopted, because no other object can adopt it.
func (r *restoration) checkRecord(ctx context.Context, want record.Restore, desired *corev1.Secret) (types.UID, error) {
	existing := &corev1.Secret{}
	err := r.c.Get(ctx, client.ObjectKeyFromObject(desired), existing)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: restore record %s/%s was deleted in the meantime; restore again", errUnfinished, desired.Namespace, desired.Name)
	}
	if err != nil {
		return "", wrap(err, "reading a restore record in namespace %s", r.namespace)
	}
	adopter := record.Adopter(existing)
	if adopter != "" {
		current, err := r.c.adopter(ctx, want)
		if err != nil {
			return "", err
		}
		if adopter != current {
			return r.replaceRecord(ctx, existing, desired)
		}
	}
	body, err := record.ReadRestore(existing)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w; delete the Secret with %q, and restore again", errUnfinished, err, record.DeleteCommand(existing))
	case record.Equal(body, want):
		return existing.UID, nil
	case adopter == "":
		return "", fmt.Errorf("%w: the operator has not adopted the backup of %s; wait for it, or discard it with %q, and restore again",
			errUnfinished, timestamp(body.BackupTime), record.DeleteCommand(existing))
	}
	return "", fmt.Errorf("%w: that of the backup of %s; run \"kubectl realmkeeper restore --finish\", and restore again", errUnfinished, timestamp(body.BackupTime))
}

func (r *restoration) replaceRecord(ctx context.Context, existing, desired *corev1.Secret) (types.UID, error) {
	if r.dryRun {
		return existing.UID, nil
	}
	err := r.c.Delete(ctx, existing, client.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion})
	if client.IgnoreNotFound(err) == nil {
		err = r.c.Create(ctx, desired, r.creation()...)
	}
	return desired.UID, wrap(err, "replacing the restore record %s/%s of a deleted object", existing.Namespace, existing.Name)
}

// adopter returns the object in the cluster that can adopt a restore record.
func (c *cluster) adopter(ctx context.Context, of record.Restore) (string, error) {
	if of.Realm != nil {
		realm, err := c.uid(ctx, kindRealm, client.ObjectKey{Name: of.Realm.Name})
		return record.AdoptedBy(realm, ""), err
	}
	realm, err := c.uid(ctx, kindRealm, client.ObjectKey{Name: of.Client.RealmName})
	if err != nil {
		return "", err
	}
	uid, err := c.uid(ctx, kindClient, client.ObjectKey{Namespace: of.Client.Namespace, Name: of.Client.Name})
	return record.AdoptedBy(realm, uid), err
}

// uid returns the UID of a Realm or ApiClient; empty if it doesn't exist.
func (c *cluster) uid(ctx context.Context, kind string, key client.ObjectKey) (types.UID, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := client.IgnoreNotFound(c.Get(ctx, key, object)); err != nil {
		return "", describeError(err, "reading "+kind+" "+strings.TrimPrefix(key.String(), "/"))
	}
	return object.UID, nil
}

// restoreState is how far the operator has processed a restore record.
type restoreState int

const (
	// restoreWaiting means that the operator has not adopted the restore record, or not recorded it.
	restoreWaiting restoreState = iota
	// restoreRecorded means that the record of the owner contains the restored identity and secrets.
	restoreRecorded
	// restoreImpossible means that no object can adopt the restore record: a deleted one has adopted
	// it, or another ApiClient holds the client ID.
	restoreImpossible
)

// restoreState decides whether a restore record can be deleted. The operator marks a restore record as
// adopted before it writes the client's record, so the mark alone is not enough. It deletes that of a
// Realm itself.
func (c *cluster) restoreState(ctx context.Context, secret *corev1.Secret, body record.Restore) (restoreState, error) {
	current, err := c.adopter(ctx, body)
	if err != nil {
		return restoreWaiting, err
	}
	adopter := record.Adopter(secret)
	if adopter != "" && adopter != current {
		return restoreImpossible, nil
	}
	if body.Client == nil {
		return restoreWaiting, nil
	}
	realm, _, _ := strings.Cut(current, "/")
	owned := &corev1.Secret{}
	key := client.ObjectKey{Namespace: secret.Namespace, Name: record.ClientSecretName(types.UID(realm), body.Client.ClientID)}
	err = c.Get(ctx, key, owned)
	switch {
	case apierrors.IsNotFound(err):
		return restoreWaiting, nil
	case err != nil:
		return restoreWaiting, fmt.Errorf("reading record %s: %w", key, err)
	}
	if owned.Annotations[v1alpha1.OwnerAnnotation] != body.Client.Namespace+"/"+body.Client.Name {
		return restoreImpossible, nil
	}
	if restored := restoredFrom(owned); adopter != "" && restored != nil && restored.From == secret.UID {
		return restoreRecorded, nil
	}
	return restoreWaiting, nil
}
