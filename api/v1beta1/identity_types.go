package v1beta1

// Identity is a workload that authenticates as a client with a token that it already has. Exactly one
// of serviceAccount and issuer must be set.
//
// +kubebuilder:validation:XValidation:rule=`has(self.serviceAccount) != has(self.issuer)`,messageExpression="'spec.identities must have exactly one of serviceAccount, which is a service account in the namespace of the client, and issuer, which is the name of an issuer in spec.trustedIssuers of the realm, but it has ' + (has(self.issuer) ? 'both' : 'neither')"
// +kubebuilder:validation:XValidation:rule=`!has(self.issuer) || has(self.subject) != has(self.matchClaims)`,messageExpression="'spec.identities with an issuer must have exactly one of subject, which is the exact subject of a token, and matchClaims, which a token must have with exactly these values, but it has ' + (has(self.subject) ? 'both' : 'neither')"
// +kubebuilder:validation:XValidation:rule=`!has(self.serviceAccount) || !(has(self.subject) || has(self.matchClaims))`,reason=FieldValueForbidden,message="spec.identities with a serviceAccount must not have subject or matchClaims"
type Identity struct {
	// name identifies the identity in the status: at most 63 lowercase letters, digits, and
	// hyphens, with a letter or digit at both ends. It must be unique in this client. If you change
	// an identity and keep its name, its last use is kept.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.identities.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +required
	Name string `json:"name,omitempty"`

	// serviceAccount references a service account in the client's namespace. A Pod presents its
	// projected service account token, issued for the realm's issuer as audience. The service
	// account does not need to exist yet; but if none exists and the client has no other way to
	// authenticate, the client is not Accepted (ServiceAccountNotFound). A service account that is
	// deleted and created again is a different one: its old tokens do not become valid again. As
	// for subject, the first client that lists the service account holds it. If unset, issuer must
	// be set.
	// +optional
	ServiceAccount ServiceAccountReference `json:"serviceAccount,omitzero"` //nolint:kubeapilinter // A rule requires it or issuer.

	// issuer is the name of an issuer in spec.trustedIssuers of the realm. If the realm does not
	// list the name, the client is not Accepted (IssuerNotInRealm). If unset, serviceAccount must
	// be set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.identities.issuer must be the name of an issuer, not its URL: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule=`self != 'kubernetes'`,message="spec.identities.issuer must not be kubernetes; for a service account of this cluster, set serviceAccount instead"
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// subject is the exact sub claim of the tokens, at most 512 bytes without control characters
	// and asterisks, such as "repo:acme/shop:environment:production". Among the clients of the
	// realm that list the same subject of the same issuer, the first one holds it: requests without
	// client_id get that client. If unset, matchClaims or serviceAccount must be set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^*\x00-\x1f\x7f]+$')`,message="spec.identities.subject must be an exact subject without wildcards and control characters; to match some tokens of an issuer, use matchClaims"
	// +optional
	Subject string `json:"subject,omitempty"`

	// matchClaims lists 1 to 8 claims that a token must have with exactly these string values.
	// Requests must then contain client_id. If unset, subject or serviceAccount must be set.
	// +optional
	MatchClaims ClaimMatches `json:"matchClaims,omitempty"`
}

// ServiceAccountReference references a service account in the same namespace.
type ServiceAccountReference struct {
	// name is the name of the service account. It must not be "default", which Pods use unless they
	// specify another service account.
	// +kubebuilder:validation:XValidation:rule=`self != 'default'`,message="spec.identities.serviceAccount.name must not be default, which Pods use unless they specify another service account; create a service account for this workload"
	// +required
	Name DNSSubdomain `json:"name,omitempty"`
}

// ClaimMatch requires that a token has a claim with exactly the given string value.
type ClaimMatch struct {
	// name is the name of the claim: 1 to 64 letters, digits, and characters from "_.:/-". It must not
	// be iss, sub, aud, exp, nbf, iat, or jti, which are checked separately.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9_.:/-]+$') && !(self in ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti'])`,message="must have 1 to 64 letters, digits, and characters from _.:/-, and must not be iss, sub, aud, exp, nbf, iat, or jti, which are checked separately"
	// +required
	Name string `json:"name,omitempty"`

	// value is the exact value of the claim, a string of 1 to 256 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Value string `json:"value,omitempty"`
}

// ClaimMatches lists claims that a token must have, all of them.
//
// +kubebuilder:validation:MaxItems=8
// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="must list at least one claim; an empty list matches every token of the issuer"
// +listType=map
// +listMapKey=name
type ClaimMatches []ClaimMatch

// RequiredClaims lists claims that every token of an issuer must have, all of them.
//
// +kubebuilder:validation:MaxItems=4
// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="must list at least one claim; an empty list matches every token of the issuer"
// +listType=map
// +listMapKey=name
type RequiredClaims []ClaimMatch

// Map returns the values by the names of the claims. It returns nil for an empty list.
func (m ClaimMatches) Map() map[string]string {
	if len(m) == 0 {
		return nil
	}
	values := make(map[string]string, len(m))
	for _, c := range m {
		values[c.Name] = c.Value
	}
	return values
}
