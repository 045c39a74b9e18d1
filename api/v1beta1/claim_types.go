package v1beta1

// Claim is a fixed claim of access tokens. Exactly one of string, integer, and strings must be set.
//
// +kubebuilder:validation:XValidation:rule=`[has(self.string), has(self.integer), has(self.strings)].exists_one(member, member)`,message="a claim must have exactly one of: string, integer, strings. For example, {name: tenant, string: acme}"
type Claim struct {
	// name is the name of the claim: a letter, then letters, digits, and characters from "_.:/-",
	// at most 64 characters. The names of claims that a standard or the token server defines are
	// reserved, regardless of case.
	// +required
	Name ClaimName `json:"name,omitempty"`

	// string is a string of 1 to 512 characters. If unset, the claim has another type.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	String string `json:"string,omitempty"`

	// integer is a number from -9007199254740991 to 9007199254740991, which is the range that every
	// JSON parser represents exactly (RFC 8259, section 6). If unset, the claim has another type.
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Integer *int64 `json:"integer,omitempty"`

	// strings is a list of 1 to 16 strings of 1 to 256 characters. If unset, the claim has another
	// type.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	// +optional
	Strings []string `json:"strings,omitempty"`
}

// Claims is a list of fixed claims. The size of the encoded claims, which the operator also checks,
// cannot be below their number of characters.
//
// +kubebuilder:validation:MaxItems=16
// +kubebuilder:validation:XValidation:rule=`self.all(c, self.exists_one(other, other.name.lowerAscii() == c.name.lowerAscii()))`,message="claims must have names that differ in more than case, because many verifiers ignore the case of names"
// +kubebuilder:validation:XValidation:rule=`self.map(c, c.name.size() + (has(c.string) ? c.string.size() : 0) + (has(c.strings) ? c.strings.map(item, item.size()).sum() : 0)).sum() <= 2048`,message="claims must have at most 2048 characters in all names and values together, because they are part of every token"
// +listType=map
// +listMapKey=name
type Claims []Claim

// ClaimName is the name of a fixed claim. Verifiers that use Go's encoding/json ignore the case of
// a name and take the last member, so a name that differs from a reserved one only in case could
// replace a claim of the token server.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z][A-Za-z0-9_.:/-]*$')`,message="a claim name must begin with an ASCII letter and have only ASCII letters, digits, and characters from _.:/-"
// +kubebuilder:validation:XValidation:rule=`!(self.lowerAscii() in ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'client_id', 'scope', 'auth_time', 'acr', 'amr', 'groups', 'roles', 'entitlements', 'cnf', 'act', 'may_act', 'authorization_details', 'client_uid', 'scp', 'active', 'username', 'token_type', 'azp', 'nonce', 'at_hash', 'c_hash', 's_hash', 'sid', 'sub_jwk', 'sub_id', 'txn', 'toe', 'events', '_claim_names', '_claim_sources', 'htm', 'htu', 'ath', 'jkt', 'status', 'status_list', 'ttl', 'sub_uid', 'rule'])`,messageExpression=`'a claim must not have a reserved name, regardless of case, as ' + self + ' is; choose another name'`
type ClaimName string

// ReservedClaims lists the names, in lowercase, that a fixed claim cannot have. A claim of such a
// name could change who a token is for, what it permits, or how it must be presented.
var ReservedClaims = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", // RFC 7519, section 4.1
	"client_id", "scope", "auth_time", "acr", "amr", "groups", "roles", "entitlements", // RFC 9068, section 2.2
	"cnf", "act", "may_act", "authorization_details", // RFC 7800, RFC 8693, and RFC 9396
	"client_uid",                       // private claim of the token server
	"scp",                              // what some verifiers read instead of scope
	"active", "username", "token_type", // RFC 7662, section 2.2: members of introspection responses
	"azp", "nonce", "at_hash", "c_hash", "s_hash", "sid", "sub_jwk", // OpenID Connect
	"sub_id", "txn", "toe", "events", // RFC 8417 and RFC 9493
	"_claim_names", "_claim_sources", // OpenID Connect Core 1.0, section 5.6.2
	"htm", "htu", "ath", "jkt", // RFC 9449
	"status", "status_list", "ttl", // OAuth Token Status List
	"sub_uid", "rule", // reserved for private claims of the token server
}
