package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProvidedSecret is a client secret that someone brings along in a Secret, such as one that
// another tool writes there from a vault. Nothing is generated: until the Secret is there,
// the client waits. The operator keeps no more of it than a hash.
type ProvidedSecret struct {
	// secretRef says where the client secret is.
	// +required
	SecretRef SecretKeyReference `json:"secretRef,omitzero"`

	// overlap is how long the old value stays valid after a change, as a duration in
	// hours, minutes and whole seconds, such as "1h". The new value is taken up at once;
	// of several changes within the overlap the last old value stays. It also holds for
	// the secret that the client had before spec.secret came to be provided.
	// Left out, 0s: the old value ends at once.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.secret.provided.overlap must be a duration in hours, minutes and whole seconds, such as 1h"
	// +optional
	Overlap *metav1.Duration `json:"overlap,omitempty"`
}

// SecretKeyReference names a data key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the name of the Secret. It must carry the label
	// auth.realmkeeper.dev/client-secret with the value "true", which allows the operator
	// to read it; without it the client isn't Accepted (SecretNotLabelled), and neither is
	// it without the Secret (SecretNotFound).
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="spec.secret.provided.secretRef.name must be the name of a Secret: lower-case letters, digits, and inner hyphens and dots"
	// +required
	Name string `json:"name,omitempty"`

	// key is the data key that holds the client secret: 16 to 1024 characters, none of
	// them a control character, not even a line break at the end. Others aren't Accepted
	// (SecretTooShort, SecretNotUsable). Left out, "client_secret".
	// +optional
	Key SecretDataKey `json:"key,omitempty"`
}

// HashedSecret is the hash of a client secret whose plain text never enters the cluster.
// "kubectl realmkeeper hash" makes one.
type HashedSecret struct {
	// id names the secret in status and audit lines: 1 to 64 letters, digits, dots,
	// underscores and hyphens.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._-]+$')`,message="spec.secret.hashed.id must be 1 to 64 letters, digits, dots, underscores and hyphens"
	// +required
	ID string `json:"id,omitempty"`

	// hash is the hash of the secret in PHC string format. A client with one that isn't
	// supported isn't Accepted (HashNotSupported). These are:
	//
	//   - $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, with at most 65536 KiB, 4
	//     passes and 4 lanes
	//   - $hmac-sha256$<salt>$<mac>, only for secrets that a machine made of 128 random bits
	//     or more: it is no protection for one that a person chose
	//
	// Salt, tag and mac are Base64 without padding.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.startsWith('$')`,message="spec.secret.hashed.hash must be a hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$..., and never a secret in plain text"
	// +required
	Hash string `json:"hash,omitempty"`

	// expiresAt is from when on the secret is refused, as an RFC 3339 time between the
	// years 1000 and 2999, such as "2031-12-31T23:59:59Z". Left out, it has no end.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}
