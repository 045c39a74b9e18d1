package v1beta1

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
	// it. If the label is missing, the client is not Accepted (SecretNotLabeled). If the Secret is
	// missing, the client is not Accepted (SecretNotFound).
	// +required
	Name DNSSubdomain `json:"name,omitempty"`

	// key is the data key that contains the client secret. The secret must be UTF-8 with 16 to 1024
	// characters and no control characters, such as a trailing line break; otherwise the client is
	// not Accepted (SecretTooShort, SecretNotUsable). Defaults to "client_secret".
	// +optional
	Key SecretDataKey `json:"key,omitempty"`
}

// HashedSecret is the hash of a client secret whose plaintext the cluster never stores. To create
// one, run "kubectl realmkeeper hash". Exactly one of hash and hashSecretRef must be set.
//
// +kubebuilder:validation:XValidation:rule=`has(self.hash) != has(self.hashSecretRef)`,messageExpression="'spec.secret.hashed must have exactly one of hash, which everyone who can read the ApiClient can see, and hashSecretRef, which is the name of a Secret with the hash, but it has ' + (has(self.hash) ? 'both' : 'neither')"
type HashedSecret struct {
	// id identifies the secret in the status and in audit events: 1 to 64 letters, digits, dots,
	// underscores, and hyphens. It must be unique in this client.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._-]+$')`,message="spec.secret.hashed.id must have 1 to 64 letters, digits, dots, underscores, and hyphens"
	// +required
	ID string `json:"id,omitempty"`

	// The rules for hash have the reason FieldValueForbidden, so that their messages do not repeat the
	// value, which could be a plaintext secret.

	// hash is the hash of the secret in PHC string format. Everyone who can read the ApiClient can
	// see it, and could try to guess a secret that a person chose; use hashSecretRef for such a secret.
	// A client with an unsupported hash is not Accepted (HashNotSupported). If unset, hashSecretRef
	// must be set. The supported formats are:
	//
	//   - $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, with at most 65536 KiB, 4
	//     passes, and 4 lanes, and at least the minimum that OWASP recommends: 47104 KiB with 1
	//     pass, 19456 KiB with 2, 12288 KiB with 3, or 9216 KiB with 4 passes
	//   - $hmac-sha256$<salt>$<mac>, only for machine-generated secrets with at least 128 random
	//     bits; it does not protect secrets chosen by a person
	//   - $pbkdf2-sha256$i=<iterations>,l=<tag bytes>$<salt>$<tag>, with 10000 to 1000000
	//     iterations; also with sha512, without l, and in the format of passlib, which has only a
	//     number instead of i and l
	//   - $2b$<cost>$<salt and tag>, also with 2a and 2y: bcrypt with a cost from 08 to 12; secrets
	//     with more than 72 bytes never match
	//
	// Salt, tag, and MAC are encoded in Base64 without padding, except in the formats of bcrypt and
	// passlib. The salt of an HMAC has 16 bytes, and other salts have 8 to 64. PBKDF2 and bcrypt
	// are only supported to import secrets from other systems: they are easier to brute-force than
	// Argon2id, and the client has the condition WeaklyHashed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.startsWith('$')`,reason=FieldValueForbidden,message="spec.secret.hashed.hash must be a hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$..., and never a plaintext secret"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^\$argon2id\$v=19\$m=[0-9]{1,9},t=[1-4],') || int(self.split('=')[2].split(',')[0]) >= [47104, 19456, 12288, 9216][int(self.split('=')[3].split(',')[0]) - 1]`,reason=FieldValueForbidden,message="spec.secret.hashed.hash must not use less memory with Argon2id than OWASP recommends, which is m=47104 with t=1, m=19456 with t=2, m=12288 with t=3, or m=9216 with t=4; hash the secret again, for example with kubectl realmkeeper hash, or use a generated secret"
	// +kubebuilder:validation:XValidation:rule=`!self.startsWith('$pbkdf2') || self.matches(r'^\$pbkdf2-sha(256|512)\$(i=)?([1-9][0-9]{4,5}|1000000)[,$]')`,reason=FieldValueForbidden,message="spec.secret.hashed.hash must use PBKDF2 only with SHA-256 or SHA-512 and 10000 to 1000000 iterations; hash the secret again with Argon2id, for example with kubectl realmkeeper hash, or use a generated secret"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^\$2[abxy]?\$') || self.matches(r'^\$2[aby]\$(08|09|10|11|12)\$')`,reason=FieldValueForbidden,message="spec.secret.hashed.hash must use bcrypt only as 2a, 2b, or 2y with a cost from 08 to 12; hash the secret again with Argon2id, for example with kubectl realmkeeper hash, or use a generated secret"
	// +optional
	Hash string `json:"hash,omitempty"`

	// hashSecretRef references a Secret that contains the hash, with the formats of hash. Only
	// those who can read the Secret can see it. A changed hash applies immediately. The client is
	// not Accepted while the Secret, its key, or its label is missing (SecretNotFound,
	// SecretNotLabeled). If unset, hash must be set.
	// +optional
	HashSecretRef HashSecretReference `json:"hashSecretRef,omitzero"` //nolint:kubeapilinter // A rule requires it or hash.

	// expirationTime is the time at which the secret expires: an RFC 3339 time between the years 1000
	// and 2999, such as "2031-12-31T23:59:59Z". If unset, the secret does not expire.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`
}

// HashSecretReference references a data key of a Secret in the same namespace that contains a hash.
type HashSecretReference struct {
	// name is the name of the Secret. The Secret must have the label
	// auth.realmkeeper.dev/client-secret with the value "true", which allows the operator to read it.
	// +required
	Name DNSSubdomain `json:"name,omitempty"`

	// key is the data key that contains the hash. Defaults to "hash".
	// +optional
	Key SecretDataKey `json:"key,omitempty"`
}
