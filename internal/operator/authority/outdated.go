package authority

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// Credentials finds credentials Secrets that lack a CA.
type Credentials struct {
	// Cached reads ApiClients, and Secrets with their summaries.
	Cached client.Reader
	// Serves reports whether the operator serves a namespace.
	Serves func(ctx context.Context, namespace string) (bool, error)
}

// Outdated returns the ApiClients whose credentials Secrets lack the CA that signs or the next one,
// sorted by name. Previous CAs don't matter.
//
// A Secret counts only if its data says so. The status of an ApiClient only excludes clients that can't
// get tokens: the operator doesn't write their Secrets before it accepts them again.
func (c *Credentials) Outdated(ctx context.Context, ca *Authority) ([]*v1alpha1.ApiClient, error) {
	secrets := &corev1.SecretList{}
	err := c.Cached.List(ctx, secrets, client.MatchingLabels{v1alpha1.ClientSecretLabel: v1alpha1.ClientSecretGenerated}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the credentials Secrets: %w", err)
	}
	var outdated []*v1alpha1.ApiClient
	required := ca.signing()
	usual := summary(entriesOf(v1alpha1.SecretKeyCACrt, ca.Bundle()))
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Annotations[summaryKey] == usual {
			continue
		}
		owner, err := c.owner(ctx, secret)
		if err != nil {
			return nil, err
		}
		if owner != nil && !contains(secret.Annotations, owner.GeneratedSecret().DataKey(v1alpha1.SecretKeyCACrt), required) {
			outdated = append(outdated, owner)
		}
	}
	slices.SortFunc(outdated, func(a, b *v1alpha1.ApiClient) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return outdated, nil
}

// owner returns the ApiClient whose workloads use the Secret; nil if there is none.
func (c *Credentials) owner(ctx context.Context, secret *corev1.Secret) (*v1alpha1.ApiClient, error) {
	controller := metav1.GetControllerOf(secret)
	if controller == nil || controller.Kind != "ApiClient" {
		return nil, nil //nolint:nilnil // The Secret isn't one of the operator's.
	}
	owner := &v1alpha1.ApiClient{}
	err := c.Cached.Get(ctx, types.NamespacedName{Namespace: secret.Namespace, Name: controller.Name}, owner)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ApiClient %s/%s: %w", secret.Namespace, controller.Name, err)
	}
	if owner.UID != controller.UID || !owner.DeletionTimestamp.IsZero() || !owner.GeneratesSecret() || owner.EffectiveSecretName() != secret.Name ||
		meta.IsStatusConditionFalse(owner.Status.Conditions, string(v1alpha1.ConditionAccepted)) {
		return nil, nil //nolint:nilnil // The operator doesn't write the Secret.
	}
	served, err := c.Serves(ctx, secret.Namespace)
	if err != nil || !served {
		return nil, err
	}
	return owner, nil
}
