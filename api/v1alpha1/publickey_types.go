package v1alpha1

// PublicKey is a JSON Web Key (RFC 7517) that verifies the assertions of a client. Each key has
// exactly one algorithm, which an assertion cannot change: that of its curve or, for RSA, the one
// in alg.
//
// In YAML, quote the names y and n, because YAML reads them as booleans otherwise. You can copy a
// key in JSON format unchanged.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.d) && !has(self.p) && !has(self.q) && !has(self.dp) && !has(self.dq) && !has(self.qi) && !has(self.k)`,message="spec.publicKeys must contain only public keys, but this key has a private member (d, p, q, dp, dq, qi, or k); treat it as compromised and generate another key"
// +kubebuilder:validation:XValidation:rule=`self.kty != 'EC' || (has(self.crv) && self.crv != 'Ed25519' && has(self.x) && has(self.y))`,message="spec.publicKeys with kty EC must have crv P-256 or P-384, x, and y (in YAML, quote y, because an unquoted y is a boolean)"
// +kubebuilder:validation:XValidation:rule=`self.kty != 'OKP' || (has(self.crv) && self.crv == 'Ed25519' && has(self.x))`,message="spec.publicKeys with kty OKP must have crv Ed25519 and x"
// +kubebuilder:validation:XValidation:rule=`self.kty != 'RSA' || (has(self.alg) && has(self.n) && has(self.e))`,message="spec.publicKeys with kty RSA must have alg, which is RS256 or PS256, n, and e (in YAML, quote n, because an unquoted n is a boolean)"
// +kubebuilder:validation:XValidation:rule=`!has(self.alg) || (self.kty == 'RSA' ? self.alg in ['RS256', 'PS256'] : !has(self.crv) || self.alg == {'P-256': 'ES256', 'P-384': 'ES384', 'Ed25519': 'EdDSA'}[self.crv])`,fieldPath=".alg",message="spec.publicKeys.alg must be the algorithm of the key: ES256 for P-256, ES384 for P-384, EdDSA for Ed25519, and RS256 or PS256 for RSA"
type PublicKey struct {
	// kid is the key ID, unique in this client: 1 to 128 letters, digits, and characters from
	// "._~:/+=@-". An assertion selects its key with kid; it can omit kid if the client has only
	// one key.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._~:/+=@-]+$')`,message="spec.publicKeys.kid must have 1 to 128 letters, digits, and characters from ._~:/+=@-"
	// +required
	KeyID string `json:"kid,omitempty"`

	// kty is the key type: EC, OKP (for Ed25519), or RSA.
	// +kubebuilder:validation:Enum=EC;OKP;RSA
	// +required
	KeyType string `json:"kty,omitempty"`

	// alg is the only algorithm that the key verifies. It is required for RSA keys and must be
	// RS256 or PS256. Defaults to the algorithm of the curve: ES256, ES384, or EdDSA.
	// +optional
	Algorithm SigningAlgorithm `json:"alg,omitempty"`

	// use is the intended use of the key. The only value is sig. Defaults to sig.
	// +kubebuilder:validation:Enum=sig
	// +optional
	Use string `json:"use,omitempty"`

	// crv is the curve: P-256 or P-384 for EC keys, Ed25519 for OKP keys. It is required for both.
	// Leave it unset for RSA keys.
	// +kubebuilder:validation:Enum=P-256;P-384;Ed25519
	// +optional
	Curve string `json:"crv,omitempty"`

	// x is the x coordinate of the point, or the Ed25519 public key, in Base64url without padding.
	// It is required for EC and OKP keys. Leave it unset for RSA keys.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	X PublicKeyMember `json:"x,omitempty"`

	// y is the y coordinate of the point in Base64url without padding. It is required for EC keys.
	// Leave it unset for OKP and RSA keys.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Y PublicKeyMember `json:"y,omitempty"`

	// n is the modulus of an RSA key of 2048 to 4096 bits, in Base64url without padding. It is
	// required for RSA keys. Leave it unset for other keys.
	// +kubebuilder:validation:MaxLength=683
	// +optional
	N PublicKeyMember `json:"n,omitempty"`

	// e is the public exponent of an RSA key in Base64url without padding, usually "AQAB". It is
	// required for RSA keys. Leave it unset for other keys.
	// +kubebuilder:validation:MaxLength=6
	// +optional
	E PublicKeyMember `json:"e,omitempty"`

	// The private members of a JWK are listed only to be rejected. The API server silently drops
	// unknown fields, and the user would not learn that the private key was exposed.

	// d is private and must be unset: a key with this member is rejected.
	// +optional
	D PrivateKeyMember `json:"d,omitempty"`

	// p is private and must be unset: a key with this member is rejected.
	// +optional
	P PrivateKeyMember `json:"p,omitempty"`

	// q is private and must be unset: a key with this member is rejected.
	// +optional
	Q PrivateKeyMember `json:"q,omitempty"`

	// dp is private and must be unset: a key with this member is rejected.
	// +optional
	DP PrivateKeyMember `json:"dp,omitempty"`

	// dq is private and must be unset: a key with this member is rejected.
	// +optional
	DQ PrivateKeyMember `json:"dq,omitempty"`

	// qi is private and must be unset: a key with this member is rejected.
	// +optional
	QI PrivateKeyMember `json:"qi,omitempty"`

	// k is a symmetric key, which is private, and must be unset: a key with this member is
	// rejected.
	// +optional
	K PrivateKeyMember `json:"k,omitempty"`
}

// PublicKeyMember is a number or byte string in a JWK, in Base64url without padding.
//
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9_-]+$')`,message="the members x, y, n, and e of spec.publicKeys must be Base64url without padding"
type PublicKeyMember string

// PrivateKeyMember is a JWK member that only private keys have.
//
// +kubebuilder:validation:MaxLength=4096
type PrivateKeyMember string
