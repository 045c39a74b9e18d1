// Package recordsecret returns the Secrets in which records are stored, as the operator applies them. Token
// servers only read records. They don't link client-go's apply configurations, which depend on the types of
// all API groups.
package recordsecret

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

// ForRealm returns the record Secret of a Realm. It has an owner reference, so that Kubernetes
// deletes it with the Realm even if the operator is not running.
func ForRealm(namespace string, owner *v1beta1.Realm, body record.Realm) (*corev1ac.SecretApplyConfiguration, error) {
	secret, err := newSecret(namespace, record.KindRealm, owner.Name, record.RealmRecordName(owner.UID), body)
	if err != nil {
		return nil, err
	}
	return secret.WithOwnerReferences(metav1ac.OwnerReference().
		WithAPIVersion(v1beta1.GroupVersion.String()).WithKind("Realm").
		WithName(owner.Name).WithUID(owner.UID).WithController(true)), nil
}

// ForClient returns the record Secret of the ApiClient in body. The operator deletes it with the
// ApiClient, because owner references can't cross namespaces.
func ForClient(namespace string, body record.Client) (*corev1ac.SecretApplyConfiguration, error) {
	return newSecret(namespace, record.KindClient, body.Namespace+"/"+body.Name, record.ClientRecordName(body.RealmUID, body.ClientID), body)
}

// ForSubject returns the record Secret of the ApiClient in body for a subject that it holds. The
// operator deletes it with the ApiClient.
func ForSubject(namespace string, body record.Subject) (*corev1ac.SecretApplyConfiguration, error) {
	return newSecret(namespace, record.KindSubject, body.Namespace+"/"+body.Name, record.SubjectRecordName(body.RealmUID, body.IssuerName, body.Issuer, body.Subject), body)
}

// ForIndex returns the record Secret of an index. The operator deletes it when no valid token refers to the
// index.
func ForIndex(namespace string, body record.Index) (*corev1ac.SecretApplyConfiguration, error) {
	return newSecret(namespace, record.KindIndex, body.Namespace+"/"+body.Name, record.IndexRecordName(body.RealmUID, body.Index), body)
}

func newSecret[T record.Realm | record.Client | record.Subject | record.Index](namespace string, kind record.Kind, owner, name string, body T) (*corev1ac.SecretApplyConfiguration, error) {
	data, err := record.Encode(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the record of %s %q: %w", kind, owner, err)
	}
	return corev1ac.Secret(name, namespace).
		WithLabels(record.Labels(kind)).
		WithAnnotations(map[string]string{v1beta1.OwnerAnnotation: owner}).
		WithType(corev1.SecretTypeOpaque).
		WithData(map[string][]byte{record.DataKey: data}), nil
}
