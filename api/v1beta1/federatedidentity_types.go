package v1beta1

// FederatedIdentity matches the tokens of a trusted issuer that authenticate a client. Exactly one
// of subject and claims must be set.
//
// +kubebuilder:validation:XValidation:rule=`has(self.subject) != has(self.claims)`,reason=FieldValueRequired,message="spec.federatedIdentities must have exactly one of subject, which is the exact subject of a token, and claims, which a token must have with exactly these values"
// +kubebuilder:validation:XValidation:rule=`self.issuer != 'kubernetes' || (has(self.subject) && self.subject.startsWith('system:serviceaccount:'))`,fieldPath=".subject",message="spec.federatedIdentities with the issuer kubernetes, which is this cluster, must have a subject system:serviceaccount:<namespace>:<name>"
type FederatedIdentity struct {
	// issuer is the name of an issuer in spec.trustedIssuers of the realm, or "kubernetes" for the
	// service accounts of this cluster. A name that the realm does not list makes the client not
	// Accepted (IssuerNotInRealm).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.federatedIdentities.issuer must be the name of an issuer, not its URL: at most 63 lowercase letters, digits, and inner hyphens"
	// +required
	Issuer string `json:"issuer,omitempty"`

	// subject is the exact sub claim of the tokens, 1 to 512 characters without control characters
	// and asterisks, such as "repo:acme/shop:environment:production". Among the clients of the
	// realm that list the same subject, the first one holds it: requests without client_id get that
	// client. If unset, claims must be set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^*\x00-\x1f\x7f]+$')`,message="spec.federatedIdentities.subject must be an exact subject without wildcards and control characters; to match some tokens of an issuer, use claims"
	// +optional
	Subject string `json:"subject,omitempty"`

	// claims lists 1 to 8 claims that a token must have with exactly these string values. Requests
	// must then contain client_id. If unset, subject must be set.
	// +optional
	Claims ClaimMatch `json:"claims,omitempty"`
}

// ClaimMatch maps names of claims to the string values that a token must have.
//
// +kubebuilder:validation:MaxProperties=8
// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="must list at least one claim; an empty list matches every token of the issuer"
// +kubebuilder:validation:XValidation:rule=`self.all(key, key.matches(r'^[A-Za-z0-9_.:/-]{1,64}$') && !(key in ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti']))`,messageExpression=`'must list names of 1 to 64 letters, digits, and characters from _.:/-, except iss, sub, aud, exp, nbf, iat, and jti, which are checked separately, not ' + self.filter(key, !key.matches(r'^[A-Za-z0-9_.:/-]{1,64}$') || key in ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti'])[0]`
type ClaimMatch map[string]ClaimMatchValue

// ClaimMatchValue is the exact value of a claim.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type ClaimMatchValue string
