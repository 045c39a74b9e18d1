package v1beta1

// Exchange is a rule that allows some ApiClients, the actors, to get tokens with which they act for the
// subject of another token (RFC 8693 and ID-JAG). A single rule must allow the whole exchange. Other rules
// can only restrict it, with deniedSubjects and senderConstraint.
//
// A new token expires no later than the subject token that was exchanged. Introspection and the verify
// endpoint reject it if the rule has been removed or changed, or if any client in it is suspended, has
// expired, or was deleted. A change of tokenLifetime does not affect existing tokens, a change of
// deniedSubjects only those of the listed subjects, and a new senderConstraint only unbound ones of this rule.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.deniedSubjects) || !has(self.subjects.issuer) || self.deniedSubjects.all(s, s.startsWith('ext:' + self.subjects.issuer.name + ':'))`,fieldPath=".deniedSubjects",messageExpression="'must contain only subjects of the issuer of the rule, which begin with ext:' + self.subjects.issuer.name + ':; list other subjects in a rule for their tokens'"
type Exchange struct {
	// name identifies the rule in tokens, messages, audit events, and metrics: at most 63 lowercase
	// letters, digits, and hyphens, with a letter or digit at both ends. It must be unique in the
	// realm. If you rename a rule, its tokens are rejected.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.exchanges.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +required
	Name string `json:"name,omitempty"`

	// actors selects the clients that can exchange tokens.
	// +required
	Actors ExchangeClients `json:"actors,omitzero"`

	// subjects selects the tokens that can be exchanged.
	// +required
	Subjects ExchangeSubjects `json:"subjects,omitzero"` //nolint:kubeapilinter // A rule requires one of its fields.

	// audiences lists the values that the aud claim of a new token can have: 1 to 4 audiences of the
	// realm. A new token has exactly one, which the actor must be able to use too. Audiences that the
	// realm does not define have no effect (ExchangeNotResolved).
	// +required
	Audiences ExchangeAudiences `json:"audiences,omitempty"`

	// scopes lists the scopes that a new token can have: 1 to 16 scopes of the realm. The actor must
	// have them in scopes or delegatedScopes. Scopes that the realm does not define have no effect
	// (ExchangeNotResolved).
	// +required
	Scopes ExchangeScopes `json:"scopes,omitempty"`

	// maxDepth is the maximum number of actors in a new token, from 1 to 4. With 1, a token that already
	// acts for a subject cannot be exchanged. Actors that a trusted issuer states in the act claim count
	// too. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4
	// +optional
	MaxDepth int32 `json:"maxDepth,omitempty"`

	// tokenLifetime is the maximum lifetime of a new token: a duration from 10s to 24h in hours,
	// minutes, and whole seconds, such as "5m" or "1h30m". The lifetimes of the realm, the actor, and the
	// exchanged token limit it too. A change applies to tokens issued after it. If unset, only these
	// other lifetimes apply.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))`,message="spec.exchanges.tokenLifetime must be between 10s and 24h"
	// +optional
	TokenLifetime *Duration `json:"tokenLifetime,omitempty"`

	// senderConstraint requires that new tokens are bound to a key of the actor. It applies to every
	// exchange with the actors, subjects, audiences, and depth of this rule and one of its scopes, even if
	// another rule allows the exchange. DPoP requires a DPoP proof (RFC 9449) in every exchange and every
	// API request with such a token. If unset, a new token is bound if another such rule requires it, if the
	// exchanged token is, if a client in it requires it, or if the actor sends a proof.
	// +optional
	SenderConstraint SenderConstraint `json:"senderConstraint,omitempty"`

	// deniedSubjects lists subjects for which the actors of this rule get no tokens for its audiences, even
	// if another rule allows it. Introspection and the verify endpoint reject existing tokens, including
	// those for which they were exchanged. Each of at most 8 entries of at most 512 characters has the
	// form of the sub claim of new tokens: a client ID, or
	// "ext:<issuer>:<subject>", with the name of the trusted issuer and the subject, such as
	// "ext:corporate:alice%40example.com". In the subject, every byte except ASCII letters, digits, and
	// "-._~" is percent-encoded. If unset or empty, this rule denies no subject.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^([!-$&-),-9;-~]+|ext:[a-z0-9]([a-z0-9-]*[a-z0-9])?:([A-Za-z0-9._~-]|%([0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]))+)$')`,message="spec.exchanges.deniedSubjects must contain client IDs, or ext:, the name of a trusted issuer, a colon, and the subject with every byte except letters, digits, and -._~ percent-encoded in uppercase, such as ext:corporate:alice%40example.com"
	// +listType=atomic
	// +optional
	DeniedSubjects []string `json:"deniedSubjects,omitempty"`
}

// ExchangeClients selects ApiClients of the realm by their namespace.
type ExchangeClients struct {
	// namespaces selects the namespaces of the ApiClients. Exactly one of from, names, and selector must
	// be set.
	// +required
	Namespaces ExchangeNamespaces `json:"namespaces,omitzero"` //nolint:kubeapilinter // A rule requires one of its fields.

	// clientIDs lists the client IDs of the ApiClients in these namespaces, without wildcards. It can
	// have at most 4 entries of at most 317 characters. If unset or empty, all ApiClients in the
	// namespaces are selected.
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!-$&-),-9;-~]+$')`,message="spec.exchanges clientIDs must contain exact client IDs: printable ASCII characters except space, colon, percent sign, plus sign, and asterisk"
	// +listType=atomic
	// +optional
	ClientIDs []string `json:"clientIDs,omitempty"`
}

// ExchangeNamespaces is a set of namespaces, as in a grant but with smaller limits. Exactly one member must
// be set.
//
// +kubebuilder:validation:XValidation:rule=`[has(self.from), has(self.names), has(self.selector)].exists_one(member, member)`,messageExpression="'must have exactly one of from, names, and selector, for example names: [acme-apps] or from: All, but it has ' + (has(self.from) ? (has(self.names) ? (has(self.selector) ? 'all of them' : 'from and names') : 'from and selector') : (has(self.names) ? 'names and selector' : 'none'))"
type ExchangeNamespaces struct {
	// from is All for every namespace, including those that are created later. If unset, names or
	// selector must be set.
	// +optional
	From NamespacesFrom `json:"from,omitempty"`

	// names lists namespaces. It must have 1 to 16 entries of at most 63 characters. The namespaces
	// do not need to exist yet. If unset, from or selector must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="must contain namespace names: lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +listType=atomic
	// +optional
	Names []string `json:"names,omitempty"`

	// selector selects namespaces by their labels. Anyone who can change the labels of a namespace
	// can add it to the set. If unset, from or names must be set.
	// +optional
	Selector *ExchangeNamespaceSelector `json:"selector,omitempty"` //nolint:kubeapilinter // As in a grant.
}

// ExchangeNamespaceSelector selects namespaces by their labels.
//
// +kubebuilder:validation:XValidation:rule=`self.matchLabels.size() > 0`,fieldPath=".matchLabels",message="must have at least one label; to select every namespace, use from: All"
type ExchangeNamespaceSelector struct {
	// matchLabels lists labels that a namespace must have with exactly these values. It must have 1 to 4
	// entries.
	// +kubebuilder:validation:MaxProperties=4
	// +required
	MatchLabels Labels `json:"matchLabels,omitempty"`
}

// ExchangeSubjects selects the tokens that can be exchanged: access tokens of the realm, or tokens of
// a trusted issuer. Exactly one of clients and issuer must be set.
//
// +kubebuilder:validation:XValidation:rule=`has(self.clients) != has(self.issuer)`,messageExpression="'must have exactly one of clients, for access tokens of this realm, and issuer, for tokens of a trusted issuer, but it has ' + (has(self.issuer) ? 'both' : 'neither')"
// +kubebuilder:validation:XValidation:rule=`!has(self.clients) || has(self.audiences)`,reason=FieldValueRequired,fieldPath=".audiences",message="must list the audiences of the tokens that the actors can exchange; otherwise, an actor could use a token that was not issued for it"
// +kubebuilder:validation:XValidation:rule=`!has(self.issuer) || (!has(self.audiences) && !has(self.scopes))`,reason=FieldValueForbidden,message="must not have audiences or scopes with an issuer, because spec.trustedIssuers defines the audience of its tokens"
type ExchangeSubjects struct {
	// clients selects access tokens of the realm. Every client in a token must be selected: its subject
	// and, in a chain, each earlier actor. Subjects of trusted issuers in a chain are not clients; the
	// rule of the first exchange selects them. If unset, issuer must be set.
	// +optional
	Clients *ExchangeClients `json:"clients,omitempty"` //nolint:kubeapilinter // The members of a union are pointers.

	// issuer selects tokens of a trusted issuer. If unset, clients must be set.
	// +optional
	Issuer *ExchangeIssuer `json:"issuer,omitempty"` //nolint:kubeapilinter // The members of a union are pointers.

	// audiences lists the audiences of the tokens of clients, of which a token must have one: 1 to 4
	// audiences that identify the actors as APIs. Otherwise, every API that receives a token could act
	// for its sender. Audiences that the realm does not define have no effect (ExchangeNotResolved).
	// Required with clients; must be unset with issuer.
	// +optional
	Audiences ExchangeAudiences `json:"audiences,omitempty"`

	// scopes lists at most 16 scopes that a token of clients must have, all of them. The new token can
	// then have scopes that the exchanged token does not have; if its subject is a client, the client
	// must have them. If unset, the new token has only scopes of the exchanged token.
	// +optional
	Scopes ExchangeScopes `json:"scopes,omitempty"`
}

// ExchangeIssuer selects tokens of a trusted issuer.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.use) && self.use == 'IDJAG') || (has(self.anyClient) && self.anyClient) || (has(self.matchClaims) && self.matchClaims.exists(c, c.name in ['azp', 'client_id']))`,reason=FieldValueRequired,fieldPath=".matchClaims",message="must have the claim azp or client_id, which names the client of the issuer that got the token, for example matchClaims: [{name: azp, value: portal}]; to accept the tokens of every client of the issuer, set anyClient to true instead"
// +kubebuilder:validation:XValidation:rule=`!has(self.use) || self.use != 'IDJAG' || !has(self.anyClient) || !self.anyClient`,reason=FieldValueForbidden,fieldPath=".anyClient",message="must not be true with use: IDJAG, because an ID-JAG is only for the client that presents it"
type ExchangeIssuer struct {
	// name is the name of an issuer in spec.trustedIssuers whose uses contain the value of use. If there
	// is none, the rule has no effect (ExchangeNotResolved).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="must be the name of an issuer, not its URL: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +required
	Name string `json:"name,omitempty"`

	// use is Subject for subject tokens of token exchange, or IDJAG for identity assertion authorization
	// grants. Defaults to Subject.
	// +optional
	Use ExchangeUse `json:"use,omitempty"`

	// matchClaims lists 1 to 8 claims that a token must have with exactly these string values. With
	// Subject, it must contain azp or client_id unless anyClient is true. If unset, anyClient must be true
	// or use must be IDJAG.
	// +optional
	MatchClaims ClaimMatches `json:"matchClaims,omitempty"`

	// anyClient accepts subject tokens that the issuer has issued to any of its clients. Every one of them
	// can then pass the tokens of its users on to an actor. It must not be true with IDJAG, because an
	// ID-JAG is only for the client that presents it. Defaults to false.
	// +optional
	AnyClient bool `json:"anyClient,omitempty"` //nolint:kubeapilinter // false means the same as an unset field.
}

// ExchangeUse is what a rule accepts the tokens of a trusted issuer for.
//
// +kubebuilder:validation:Enum=Subject;IDJAG
type ExchangeUse string

const (
	// ExchangeUseSubject accepts tokens as subject_token of token exchange (RFC 8693).
	ExchangeUseSubject ExchangeUse = "Subject"

	// ExchangeUseIDJAG accepts identity assertion authorization grants
	// (draft-ietf-oauth-identity-assertion-authz-grant).
	ExchangeUseIDJAG ExchangeUse = "IDJAG"
)

// ExchangeAudiences lists audiences of a realm, without wildcards.
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=4
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=256
// +kubebuilder:validation:items:XValidation:rule=`self != '*' && self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$")`,message="audiences must contain exact audiences of the realm: only characters allowed by RFC 3986, without #, and not an asterisk alone"
// +listType=atomic
type ExchangeAudiences []string

// ExchangeScopes lists scopes of a realm, without wildcards.
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=16
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=128
// +kubebuilder:validation:items:XValidation:rule=`self != '*' && self.matches(r'^[!#-\[\]-~]+$')`,message="scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash, and not an asterisk alone; list each scope as an entry of its own"
// +listType=atomic
type ExchangeScopes []string

// IssuerUse is a purpose for which a realm accepts the tokens of a trusted issuer.
//
// +kubebuilder:validation:Enum=ClientAuthentication;Subject;IDJAG
type IssuerUse string

const (
	// IssuerUseClientAuthentication accepts tokens that authenticate clients of the realm (RFC 7523).
	IssuerUseClientAuthentication IssuerUse = "ClientAuthentication"

	// IssuerUseSubject accepts tokens as subject_token of token exchange (RFC 8693).
	IssuerUseSubject IssuerUse = "Subject"

	// IssuerUseIDJAG accepts identity assertion authorization grants
	// (draft-ietf-oauth-identity-assertion-authz-grant).
	IssuerUseIDJAG IssuerUse = "IDJAG"
)
