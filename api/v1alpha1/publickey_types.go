package v1alpha1

// PublicKey is a public key as a JSON Web Key (RFC 7517) with which a client signs its
// assertions. Each key has one algorithm, and an assertion can't choose another: that of
// its curve, or, for RSA, what alg says.
//
// In YAML the names y and n stand in quotes, for bare ones are booleans; a key in JSON can be
// taken over as it is.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.d) && !has(self.p) && !has(self.q) && !has(self.dp) && !has(self.dq) && !has(self.qi) && !has(self.k)`,message="spec.publicKeys must hold public keys alone, and this one has a private member (d, p, q, dp, dq, qi or k): whoever has seen it can act as the client, so make another key"
// +kubebuilder:validation:XValidation:rule=`self.kty != 'EC' || (has(self.crv) && self.crv != 'Ed25519' && has(self.x) && has(self.y))`,message="spec.publicKeys with kty EC must have crv P-256 or P-384, x and y (in YAML in quotes, for a bare y is a boolean)"
// +kubebuilder:validation:XValidation:rule=`self.kty != 'OKP' || (has(self.crv) && self.crv == 'Ed25519' && has(self.x))`,message="spec.publicKeys with kty OKP must have crv Ed25519 and x"
// +kubebuilder:validation:XValidation:rule=`self.kty != 'RSA' || (has(self.alg) && has(self.n) && has(self.e))`,message="spec.publicKeys with kty RSA must have alg, which is RS256 or PS256, n (in YAML in quotes, for a bare n is a boolean) and e"
// +kubebuilder:validation:XValidation:rule=`!has(self.alg) || (self.kty == 'RSA' ? self.alg in ['RS256', 'PS256'] : !has(self.crv) || self.alg == {'P-256': 'ES256', 'P-384': 'ES384', 'Ed25519': 'EdDSA'}[self.crv])`,fieldPath=".alg",message="spec.publicKeys.alg must be the algorithm of the key: ES256 for P-256, ES384 for P-384, EdDSA for Ed25519, RS256 or PS256 for RSA"
type PublicKey struct {
	// kid is the key id, unique in this client: 1 to 128 letters, digits and characters of
	// "._~:/+=@-". An assertion names its key by it; where the client has one key alone, it
	// may leave that out.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9._~:/+=@-]+$')`,message="spec.publicKeys.kid must be 1 to 128 letters, digits and characters of ._~:/+=@-"
	// +required
	KeyID string `json:"kid,omitempty"`

	// kty is the key type: EC, OKP (for Ed25519) or RSA.
	// +kubebuilder:validation:Enum=EC;OKP;RSA
	// +required
	KeyType string `json:"kty,omitempty"`

	// alg is the one algorithm that the key verifies. It is required for RSA: RS256 or
	// PS256. Left out, that of the curve: ES256, ES384 or EdDSA.
	// +optional
	Algorithm SigningAlgorithm `json:"alg,omitempty"`

	// use is what the key is for: sig. Left out, the same.
	// +kubebuilder:validation:Enum=sig
	// +optional
	Use string `json:"use,omitempty"`

	// crv is the curve: P-256 or P-384 for EC, Ed25519 for OKP, which both require it. It is left out
	// for RSA.
	// +kubebuilder:validation:Enum=P-256;P-384;Ed25519
	// +optional
	Curve string `json:"crv,omitempty"`

	// x is the x coordinate of the point, or the public key of Ed25519, as Base64url
	// without padding. It is left out for RSA.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	X PublicKeyMember `json:"x,omitempty"`

	// y is the y coordinate of the point, as Base64url without padding. It is left out for
	// OKP and RSA.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Y PublicKeyMember `json:"y,omitempty"`

	// n is the modulus of an RSA key of 2048 to 4096 bits, as Base64url without padding. It
	// is left out for others.
	// +kubebuilder:validation:MaxLength=683
	// +optional
	N PublicKeyMember `json:"n,omitempty"`

	// e is the public exponent of an RSA key, as Base64url without padding: "AQAB" for
	// nearly all. It is left out for others.
	// +kubebuilder:validation:MaxLength=6
	// +optional
	E PublicKeyMember `json:"e,omitempty"`

	// The private members of a JWK are here to be refused. The API server would drop what it
	// doesn't know, and nobody would learn that the key is no secret any more.

	// d is private and always left out: a key that has it is refused.
	// +optional
	D PrivateKeyMember `json:"d,omitempty"`

	// p is private and always left out: a key that has it is refused.
	// +optional
	P PrivateKeyMember `json:"p,omitempty"`

	// q is private and always left out: a key that has it is refused.
	// +optional
	Q PrivateKeyMember `json:"q,omitempty"`

	// dp is private and always left out: a key that has it is refused.
	// +optional
	DP PrivateKeyMember `json:"dp,omitempty"`

	// dq is private and always left out: a key that has it is refused.
	// +optional
	DQ PrivateKeyMember `json:"dq,omitempty"`

	// qi is private and always left out: a key that has it is refused.
	// +optional
	QI PrivateKeyMember `json:"qi,omitempty"`

	// k is a symmetric key, which is private, and always left out: a key that has it is
	// refused.
	// +optional
	K PrivateKeyMember `json:"k,omitempty"`
}

// PublicKeyMember is a number or a string of bytes in a JWK, as Base64url without padding.
//
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9_-]+$')`,message="the members x, y, n and e of spec.publicKeys must be Base64url without padding"
type PublicKeyMember string

// PrivateKeyMember is a member that only private keys have.
//
// +kubebuilder:validation:MaxLength=4096
type PrivateKeyMember string
