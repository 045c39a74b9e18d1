package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrustedIssuer is an issuer whose tokens authenticate clients of a Realm, for example another
// cluster or a CI system, or can be exchanged, for example the identity provider of a company.
// ApiClients select its tokens with spec.identities, and rules with spec.exchanges. A token must
// expire within 24 hours, and have a kid in its header unless the issuer has at most two keys for
// its algorithm.
//
// If an issuer is shared with other organizations, such as a public CI system, requiredClaims must
// limit its tokens to your organization.
//
// +kubebuilder:validation:XValidation:rule=`has(self.requiredClaims) || !(self.issuer in ['https://token.actions.githubusercontent.com', 'https://gitlab.com', 'https://agent.buildkite.com', 'https://app.terraform.io'])`,reason=FieldValueRequired,fieldPath=".requiredClaims",message="this issuer signs tokens for everyone, so spec.trustedIssuers.requiredClaims must limit them to your organization, for example requiredClaims: [{name: repository_owner_id, value: \"4711\"}] for GitHub or requiredClaims: [{name: namespace_id, value: \"4711\"}] for GitLab"
// +kubebuilder:validation:XValidation:rule=`!self.issuer.startsWith('spiffe:') || (has(self.keys) && (has(self.keys.jwks) || has(self.keys.jwksURI)))`,reason=FieldValueRequired,fieldPath=".keys",message="the keys of a SPIFFE trust domain cannot be discovered; set spec.trustedIssuers.keys.jwks or spec.trustedIssuers.keys.jwksURI"
// +kubebuilder:validation:XValidation:rule=`!self.issuer.startsWith('spiffe:') || !has(self.uses) || !('IDJAG' in self.uses)`,fieldPath=".uses",message="must not contain IDJAG for a SPIFFE trust domain, because an ID-JAG has the HTTPS URL of its issuer"
type TrustedIssuer struct {
	// name identifies the issuer in ApiClients, grants, messages, and metrics: at most 63 lowercase
	// letters, digits, and hyphens, with a letter or digit at both ends. It must be unique in the
	// realm. "kubernetes" and "self" are reserved: the first one is the built-in issuer for the service
	// accounts of this cluster, and metrics use the second one for assertions that clients sign
	// themselves. Do not reuse the name of a former issuer. It is part of the sub claim of delegated
	// tokens ("ext:<name>:<subject>"), so APIs could not tell the users of the two issuers apart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.trustedIssuers.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule=`!(self in ['kubernetes', 'self'])`,message="spec.trustedIssuers.name must not be kubernetes, which is the built-in issuer for the service accounts of this cluster, or self; choose another name"
	// +required
	Name string `json:"name,omitempty"`

	// issuer is the exact iss claim of the issuer's tokens: an HTTPS URL without user information,
	// query, and fragment, such as "https://token.actions.githubusercontent.com", or a SPIFFE trust
	// domain, such as "spiffe://example.org". Two entries can have the same issuer if they differ
	// in audience. It cannot be the realm's own issuer (TrustedIssuerNotSupported). It can have at
	// most 256 characters.
	// +required
	Issuer IssuerURL `json:"issuer,omitempty"`

	// audience is the only value that the aud claim of the issuer's tokens can have, at most 256
	// characters. It is an absolute URI without a fragment, or a name without a colon. Tokens for
	// other audiences are rejected. Defaults to the issuer of the realm, which is in status.issuer.
	// +optional
	Audience TrustedAudience `json:"audience,omitempty"`

	// uses lists what the tokens of the issuer are accepted for. ClientAuthentication accepts them as
	// client assertion or with the JWT bearer grant, so that they authenticate clients. Subject accepts
	// them as subject_token of token exchange, and IDJAG accepts identity assertion authorization grants;
	// spec.exchanges has the rules for both. An ID-JAG has the realm's issuer as its audience, and
	// audience does not apply to it. If two entries have the same issuer, only one can have IDJAG. An
	// entry cannot have both ClientAuthentication and Subject, because an actor could authenticate with
	// the token that it gets to exchange; use two entries with different audiences.
	// Defaults to ClientAuthentication alone.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule=`!('ClientAuthentication' in self && 'Subject' in self)`,reason=FieldValueForbidden,message="must not contain both ClientAuthentication and Subject, because an actor could authenticate with the token that it gets to exchange; use two entries with different audiences"
	// +listType=set
	// +optional
	Uses []IssuerUse `json:"uses,omitempty"`

	// keys specifies where the operator gets the public keys of the issuer: jwks alone, or jwksURI,
	// caBundle, or both. If unset, it discovers them: it gets the metadata document at
	// /.well-known/openid-configuration below the issuer (OpenID Connect Discovery 1.0, section 4),
	// and the keys from the jwks_uri in it.
	// +optional
	Keys IssuerKeys `json:"keys,omitzero"` //nolint:kubeapilinter // A rule requires one of its fields.

	// requiredClaims lists 1 to 4 claims that every token of the issuer must have with exactly
	// these string values. Set it for an issuer that is shared with other organizations. It is
	// required for the public issuers of GitHub, GitLab, Buildkite, and HCP Terraform. If unset, no
	// further claims are required.
	// +optional
	RequiredClaims RequiredClaims `json:"requiredClaims,omitempty"`
}

// IssuerURL identifies an issuer. The message does not repeat the value, which can contain a password.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^(https://[A-Za-z0-9._:\[\]-]+(/[!-"$->@-~]*)?|spiffe://[a-z0-9._-]+)$') && isURL(self)`,reason=FieldValueForbidden,message="spec.trustedIssuers.issuer must be an HTTPS URL without user information, query, and fragment, such as https://issuer.example.com, or a SPIFFE trust domain, such as spiffe://example.org"
type IssuerURL string

// TrustedAudience is the audience of an issuer's tokens. It has the form of an item of Audiences.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$") && (!self.contains(':') || (self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*:.') && isURL(self)))`,message="spec.trustedIssuers.audience must be an absolute URI without a fragment, or a name without a colon: only characters allowed by RFC 3986"
// +kubebuilder:validation:XValidation:rule=`self != '*'`,message="spec.trustedIssuers.audience must not be an asterisk, because tokens are accepted for one audience only"
type TrustedAudience string

// IssuerKeys specifies where the public keys of an issuer come from. At least one member must be
// set.
//
// +kubebuilder:validation:XValidation:rule=`has(self.jwks) != (has(self.jwksURI) || has(self.caBundle))`,message="spec.trustedIssuers.keys must have jwks alone, or jwksURI, caBundle, or both; to discover the keys with public certificate authorities, leave keys unset"
type IssuerKeys struct {
	// jwks is the key set of the issuer (RFC 7517, section 5) or the bundle of a SPIFFE trust
	// domain: a JSON object in a string of at most 12288 characters. The operator then sends no
	// request. If unset, the operator gets the keys from jwksURI or discovers them.
	// +optional
	JWKS IssuerJWKS `json:"jwks,omitempty"`

	// jwksURI is the HTTPS URL of the issuer's key set, at most 512 characters. Use it for issuers
	// without a metadata document. If unset, the operator gets it from the metadata document.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https://[A-Za-z0-9._:\[\]-]+([/?][!-"$-~]*)?$') && isURL(self)`,reason=FieldValueForbidden,message="spec.trustedIssuers.keys.jwksURI must be an HTTPS URL without user information and fragment, such as https://issuer.example.com/keys"
	// +optional
	JWKSURI string `json:"jwksURI,omitempty"`

	// caBundle lists the certificate authorities that the operator trusts when it gets the keys, in
	// PEM format with at most 12288 characters, not encoded in Base64. It replaces the public ones.
	// If unset, the operator trusts the public certificate authorities.
	// +optional
	CABundle IssuerCABundle `json:"caBundle,omitempty"`
}

// The messages of the following types do not repeat the value, which can be a private key; see
// JSONWebKey.

// IssuerJWKS is the text of a key set.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=12288
// +kubebuilder:validation:XValidation:rule=`!self.matches(r'PRIVATE KEY|"(d|p|q|dp|dq|qi|oth|k)"\s*:')`,reason=FieldValueForbidden,message="spec.trustedIssuers.keys.jwks must not contain private or symmetric keys, but a key has a private member (d, p, q, dp, dq, qi, oth, or k); treat it as compromised, generate another key, and list only its public members"
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^\s*\{[\s\S]*"keys"\s*:[\s\S]*\}\s*$')`,reason=FieldValueForbidden,message="spec.trustedIssuers.keys.jwks must be a JSON Web Key Set as a string, such as '{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\",\"x\":\"...\"}]}'"
type IssuerJWKS string

// IssuerCABundle is a list of certificates in PEM format.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=12288
// +kubebuilder:validation:XValidation:rule=`!self.contains('PRIVATE KEY')`,reason=FieldValueForbidden,message="spec.trustedIssuers.keys.caBundle must not contain private keys, but this value has one; treat it as compromised, generate another key, and list only certificates"
// +kubebuilder:validation:XValidation:rule=`self.contains('-----BEGIN CERTIFICATE-----')`,reason=FieldValueForbidden,message="spec.trustedIssuers.keys.caBundle must contain certificates in PEM format"
type IssuerCABundle string

// TrustedIssuerStatus is the observed state of a trusted issuer.
type TrustedIssuerStatus struct {
	// name is the name of the issuer in spec.trustedIssuers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// keyIDs lists the IDs of the issuer's keys that token servers use. Unset if there are none.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	// +optional
	KeyIDs []string `json:"keyIDs,omitempty"`

	// firstFailureTime is the time at which the operator first failed to get the keys, after the last
	// success. Unset while it succeeds.
	// +optional
	FirstFailureTime *metav1.Time `json:"firstFailureTime,omitempty"`

	// message describes why the operator cannot get the keys, or why it does not use the issuer. Unset
	// while it succeeds.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`
}
