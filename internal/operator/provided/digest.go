// Package provided reads the Secrets from which ApiClients take their client secrets. It keeps the
// values out of the cache, and hashes them outside of the controller's workers, so that a tenant
// with many or large Secrets costs the others nothing.
package provided

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// digested is the type of a Secret whose values were replaced by their digests. The API server
// accepts no such type, so it can't be confused with a Secret that was read from there.
const digested corev1.SecretType = "Realmkeeper Digests"

// maxDigests is the number of values up to which each one is cached as a digest. The values of
// larger Secrets are identified by the Secret's resource version.
const maxDigests = 16

type digest [sha256.Size]byte

// Digests replaces values by digests under a random key that exists only in this process.
type Digests struct{ key [sha256.Size]byte }

// NewDigests returns digests under a key from random.
func NewDigests(random io.Reader) (*Digests, error) {
	d := &Digests{}
	if _, err := io.ReadFull(random, d.key[:]); err != nil {
		return nil, fmt.Errorf("reading a random key: %w", err)
	}
	return d, nil
}

// Strip returns the part of a provided Secret to cache: what identifies it, and a digest of each
// value.
func (d *Digests) Strip(secret *corev1.Secret) *corev1.Secret {
	stripped := Identity(secret)
	stripped.Type = digested
	if len(secret.Data) > maxDigests {
		return stripped
	}
	stripped.Data = make(map[string][]byte, len(secret.Data))
	for key, value := range secret.Data {
		sum := d.of(secret, "value", string(value))
		stripped.Data[key] = sum[:]
	}
	return stripped
}

// Identity returns the part of a Secret that identifies it and its owner.
func Identity(secret *corev1.Secret) *corev1.Secret {
	bare := &corev1.Secret{
		TypeMeta: secret.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         secret.Namespace,
			Name:              secret.Name,
			UID:               secret.UID,
			ResourceVersion:   secret.ResourceVersion,
			Labels:            map[string]string{v1alpha1.ClientSecretLabel: secret.Labels[v1alpha1.ClientSecretLabel]},
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

// of returns the digest of the given strings, which differs between Secrets.
func (d *Digests) of(secret *corev1.Secret, parts ...string) digest {
	sum := hmac.New(sha256.New, d.key[:])
	for _, part := range append([]string{string(secret.UID)}, parts...) {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return digest(sum.Sum(nil))
}

// Readable reports whether a Secret has the label that allows the operator to read it.
func Readable(secret *corev1.Secret) bool {
	return secret.Labels[v1alpha1.ClientSecretLabel] == v1alpha1.ClientSecretProvided
}

// Version returns the string that identifies one version of the value of key in a record.
func Version(secret *corev1.Secret, key string) string {
	return string(secret.UID) + "/" + secret.ResourceVersion + "/" + key
}
