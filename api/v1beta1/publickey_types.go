package v1beta1

// PublicKey is a public key that verifies the assertions of a client. Each key has exactly one
// algorithm, which an assertion cannot change.
//
// +kubebuilder:validation:XValidation:rule=`has(self.jwk) != has(self.pem)`,messageExpression="'spec.publicKeys must have exactly one of jwk, which is a JSON Web Key as a string, and pem, which is a PEM block, but it has ' + (has(self.jwk) ? 'both' : 'neither')"
type PublicKey struct {
	// keyID is the ID of the key, unique in this client: 1 to 128 letters, digits, and characters
	// from "._~:/+=@-". An assertion selects its key with kid (RFC 7515, section 4.1.4). An
	// assertion without kid is verified with each key of its algorithm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._~:/+=@-]+$')`,message="spec.publicKeys.keyID must have 1 to 128 letters, digits, and characters from ._~:/+=@-"
	// +required
	KeyID string `json:"keyID,omitempty"`

	// algorithm is the only algorithm that the key verifies: ES256 for a P-256 key, ES384 for
	// P-384, EdDSA for Ed25519, and RS256 or PS256 for an RSA key of 2048 to 4096 bits. It must not
	// differ from the member alg of jwk. It is required for an RSA key without that member.
	// Defaults to alg, or to the only algorithm that the key can have.
	// +optional
	Algorithm SigningAlgorithm `json:"algorithm,omitempty"`

	// jwk is the key as a JSON Web Key (RFC 7517), which is a JSON object in a string of at most
	// 4096 characters. Its member kid is optional and must not differ from keyID. If unset, pem
	// must be set.
	// +optional
	JWK JSONWebKey `json:"jwk,omitempty"`

	// pem is the key as one PEM block of the type PUBLIC KEY (RFC 7468, section 13), at most 4096
	// characters. Certificates are not accepted, because the operator does not check
	// validity periods. If unset, jwk must be set.
	// +optional
	PEM PEMPublicKey `json:"pem,omitempty"`
}

// The messages of the following types do not repeat the value, which can be a private key: a rule
// with the reason FieldValueForbidden has this effect.

// JSONWebKey is the text of a public JSON Web Key.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:XValidation:rule=`!self.matches(r'PRIVATE KEY|"(d|p|q|dp|dq|qi|oth|k)"\s*:')`,reason=FieldValueForbidden,message="spec.publicKeys must not contain private keys, but this key has a private member (d, p, q, dp, dq, qi, oth, or k); treat it as compromised, generate another key, and list only its public members"
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^\s*\{[\s\S]*\}\s*$')`,reason=FieldValueForbidden,message="spec.publicKeys.jwk must be a JSON object as a string, such as '{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"...\"}'; for a PEM block, use pem"
type JSONWebKey string

// PEMPublicKey is a PEM block with a public key.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:XValidation:rule=`!self.matches(r'PRIVATE KEY|"(d|p|q|dp|dq|qi|oth|k)"\s*:')`,reason=FieldValueForbidden,message="spec.publicKeys must not contain private keys, but this is one; treat it as compromised, generate another key, and list only its public key"
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^\s*-----BEGIN PUBLIC KEY-----[A-Za-z0-9+/=\s]+-----END PUBLIC KEY-----\s*$')`,reason=FieldValueForbidden,message="spec.publicKeys.pem must be one PEM block of the type PUBLIC KEY; for a certificate, use the output of \"openssl x509 -pubkey -noout\"; for a JSON Web Key, use jwk"
type PEMPublicKey string
