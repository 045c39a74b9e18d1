// Package providedsecrets reads the Secrets from which ApiClients take their client secrets, and hashes the
// values. The values are never cached.
package providedsecrets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Identity returns the part of a Secret that identifies it and its owner, without its values.
func Identity(secret *corev1.Secret) *corev1.Secret {
	bare := &corev1.Secret{
		TypeMeta: secret.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         secret.Namespace,
			Name:              secret.Name,
			UID:               secret.UID,
			ResourceVersion:   secret.ResourceVersion,
			Labels:            map[string]string{v1beta1.ClientSecretLabel: secret.Labels[v1beta1.ClientSecretLabel]},
			CreationTimestamp: secret.CreationTimestamp,
			DeletionTimestamp: secret.DeletionTimestamp,
		},
		Type: secret.Type,
	}
	if owner := metav1.GetControllerOf(secret); owner != nil {
		bare.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return bare
}

// Readable reports whether a Secret has the label that allows the operator to read it.
func Readable(secret *corev1.Secret) bool {
	return secret.Labels[v1beta1.ClientSecretLabel] == v1beta1.ClientSecretProvided
}

// Version returns the string that identifies one version of the value of key in a record.
func Version(secret *corev1.Secret, key string) string {
	return string(secret.UID) + "/" + secret.ResourceVersion + "/" + key
}

// Read reads a Secret from the API server; nil if it doesn't exist or lacks the label. The label is
// part of the request, so the operator never gets the values of a Secret without it.
func Read(ctx context.Context, live client.Reader, name types.NamespacedName) (*corev1.Secret, error) {
	secrets := &corev1.SecretList{}
	err := live.List(ctx, secrets, client.InNamespace(name.Namespace), client.MatchingFields{"metadata.name": name.Name},
		client.MatchingLabels{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if len(secrets.Items) == 0 {
		return nil, nil //nolint:nilnil // The controller reports a missing Secret.
	}
	return &secrets.Items[0], nil
}
