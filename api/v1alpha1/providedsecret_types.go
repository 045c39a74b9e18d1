package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProvidedSecret is a client secret that exists in a Secret, such as one that another tool syncs
// there from a vault. The operator generates nothing; the client is not Accepted until the Secret
// exists. The operator stores only a hash of the client secret.
type ProvidedSecret struct {
	// secretRef references the Secret and key that contain the client secret.
	// +required
	SecretRef SecretKeyReference `json:"secretRef,omitzero"`

	// overlap is how long the old value stays valid after a change: a duration in hours, minutes,
	// and whole seconds, such as "1h". The new value is accepted immediately. After several changes
	// within the overlap, only the most recent old value stays valid. overlap also applies to the
	// secret that the client had before spec.secret was changed to provided. Defaults to 0s, which
	// revokes the old value immediately.
	// +optional
	Overlap *Duration `json:"overlap,omitempty"`
}

// SecretKeyReference references a data key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the name of the Secret. The Secret must have the label
	// auth.realmkeeper.dev/client-secret with the value "true", which allows the operator to read
	// it. If the label is missing, the client is not Accepted (SecretNotLabelled). If the Secret is
	// missing, the client is not Accepted (SecretNotFound).
	// +required
	Name DNSSubdomain `json:"name,omitempty"`

	// key is the data key that contains the client secret. The secret must have 16 to 1024
	// characters and no control characters, such as a trailing line break; otherwise the client is
	// not Accepted (SecretTooShort, SecretNotUsable). Defaults to "client_secret".
	// +optional
	Key SecretDataKey `json:"key,omitempty"`
}

// HashedSecret is the hash of a client secret whose plaintext never enters the cluster. To create
// one, run "kubectl realmkeeper hash".
type HashedSecret struct {
	// id identifies the secret in the status and in audit events: 1 to 64 letters, digits, dots,
	// underscores, and hyphens.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._-]+$')`,message="spec.secret.hashed.id must have 1 to 64 letters, digits, dots, underscores, and hyphens"
	// +required
	ID string `json:"id,omitempty"`

	// hash is the hash of the secret in PHC string format. A client with an unsupported hash is not
	// Accepted (HashNotSupported). The supported formats are:
	//
	//   - $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, with at most 65536 KiB, 4
	//     passes, and 4 lanes
	//   - $hmac-sha256$<salt>$<mac>, only for machine-generated secrets with at least 128 random
	//     bits; it does not protect secrets chosen by a person
	//
	// Salt, tag, and MAC are encoded in Base64 without padding.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.startsWith('$')`,message="spec.secret.hashed.hash must be a hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$..., and never a plaintext secret"
	// +required
	Hash string `json:"hash,omitempty"`

	// expiresAt is the time at which the secret expires: an RFC 3339 time between the years 1000
	// and 2999, such as "2031-12-31T23:59:59Z". If unset, the secret does not expire.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}
