package recordstore

import (
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
)

// Pack is the transformation of the informer of the records and the beacon. It keeps the identity of a Secret
// and its data; see apply.Pack. The owner's name is in generateName, where it is read without unpacking.
func Pack(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || apply.Stripped(secret) {
		return obj, nil
	}
	owner := secret.Annotations[v1beta1.OwnerAnnotation]
	apply.Pack(secret, nil, secret.Data)
	secret.Namespace, secret.GenerateName = unique.Make(secret.Namespace).Value(), owner
	secret.Type = unique.Make(secret.Type).Value()
	return secret, nil
}

// Unpack returns the Secret that Pack was called with, except for metadata that the operator doesn't need.
func Unpack(cached *corev1.Secret) *corev1.Secret {
	secret := apply.Unpack(cached)
	if secret != cached && cached.GenerateName != "" {
		secret.GenerateName, secret.Annotations[v1beta1.OwnerAnnotation] = "", cached.GenerateName
	}
	return secret
}

// recordIn returns the record in an object of the informer, which also has the beacon, and its owner's name. The
// record may be packed.
func recordIn(obj any, kinds ...record.Kind) (secret *corev1.Secret, owner types.NamespacedName, ok bool) {
	secret, ok = obj.(*corev1.Secret)
	if !ok || !slices.Contains(kinds, record.KindOf(secret)) {
		return nil, owner, false
	}
	if !apply.Stripped(secret) {
		return secret, record.OwnerName(secret), true
	}
	namespace, name, found := strings.Cut(secret.GenerateName, "/")
	if !found {
		return secret, types.NamespacedName{Name: namespace}, true
	}
	return secret, types.NamespacedName{Namespace: namespace, Name: name}, true
}
