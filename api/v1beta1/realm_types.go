package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Realm is an OAuth 2.0 authorization server: an issuer with its own signing keys, scopes,
// audiences, and clients. Clients are added with ApiClients.
//
// The name of a Realm is the first path segment of its endpoints, so it must be a DNS label of at
// most 63 characters. The token endpoint is https://api.<instance domain>/<name>/oauth2/token, with
// a port if it is not 443.
//
// If you delete a Realm and create it again, the new object is a different realm: it signs with new
// keys, and tokens of the old realm fail verification.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=rlm,categories=realmkeeper
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Clients",type=integer,JSONPath=`.status.clients`
// +kubebuilder:printcolumn:name="Issuer",type=string,JSONPath=`.status.issuer`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Lifetime",type=string,priority=1,JSONPath=`.status.tokenLifetime`
// +kubebuilder:printcolumn:name="Algorithm",type=string,priority=1,JSONPath=`.status.signingKeys[?(@.state=="Active")].algorithm`
// +kubebuilder:printcolumn:name="Key age",type=date,priority=1,JSONPath=`.status.signingKeys[?(@.state=="Active")].activationTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.matches(r'^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')`,messageExpression="'metadata.name must be a DNS label (lowercase letters, digits, and hyphens, with a letter or digit at both ends, at most 63 characters), not ' + self.metadata.name"
type Realm struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard Kubernetes object metadata. The name must be a DNS label of at most
	// 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec defines the desired state of the Realm.
	// +required
	Spec RealmSpec `json:"spec,omitzero"`

	// status is the observed state of the Realm. It is written by the operator.
	// +default={"observedGeneration":-1}
	// +optional
	Status RealmStatus `json:"status,omitzero"` //nolint:kubeapilinter // It is never written as {}.
}

// RealmList is a list of Realms.
//
// +kubebuilder:object:root=true
type RealmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items lists the Realms.
	Items []Realm `json:"items"`
}

// RealmSpec defines the desired state of a Realm.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.claims) || !has(self.allowedClaims) || self.claims.all(c, !self.allowedClaims.exists(name, name.lowerAscii() == c.name.lowerAscii()))`,fieldPath=".allowedClaims",message="spec.allowedClaims must not list a claim, in any case, that spec.claims sets for every client"
type RealmSpec struct {
	// displayName is the human-readable name of the realm, at most 128 characters. It has no effect
	// on tokens. If unset or empty, metadata.name is displayed.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DisplayName string `json:"displayName,omitempty"` //nolint:kubeapilinter // "" means the same as an unset field.

	// tokenLifetime is the lifetime of the realm's access tokens: a duration from 10s to 24h in
	// hours, minutes, and whole seconds, such as "5m" or "1h30m". It is also the maximum for the
	// tokenLifetime of ApiClients. It must not exceed security.maximumTokenLifetime of the instance
	// configuration; otherwise the realm is not Accepted (LifetimeExceedsInstanceMaximum). A change
	// applies to tokens issued after it. Defaults to the instance's default lifetime, including
	// later changes to it.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))`,message="spec.tokenLifetime must be between 10s and 24h"
	// +optional
	TokenLifetime *Duration `json:"tokenLifetime,omitempty"`

	// audiences lists the values that the aud claim of the realm's tokens can have. It can have at
	// most 16 entries of at most 256 characters. Each entry is an absolute URI without a fragment
	// (RFC 8707, section 2), such as "https://orders.example.com", or a name without a colon (RFC
	// 7519, section 2), such as "orders".
	//
	// A token contains all audiences of its client unless the request selects some of them. A
	// client that lists none has those of the first grant that covers it. If unset or empty, the
	// only audience is the issuer.
	// +optional
	Audiences Audiences `json:"audiences,omitempty"`

	// scopes lists the scopes that ApiClients of this realm can use. It can have at most 256
	// entries of at most 128 characters. Each entry is a scope token (RFC 6749, section 3.3):
	// printable ASCII characters except space, double quote, and backslash. If you remove a scope,
	// clients that list it are no longer Accepted and cannot get tokens until they remove it too.
	// If unset or empty, the realm has no scopes and tokens have no scope claim.
	// +optional
	Scopes Scopes `json:"scopes,omitempty"`

	// grants lists 1 to 32 grants. A grant allows the ApiClients in some namespaces to use the
	// realm, and limits what they can request. An ApiClient is Accepted only if a single grant
	// covers everything that it requests: its namespace, scopes, audiences, issuers, and client
	// ID. Grants are never combined. If you remove a grant, the clients that only it covers can no
	// longer get tokens, but they keep their client IDs until they are deleted or released; see
	// "kubectl realmkeeper release". To stop every client of the realm, set suspend to true.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message="spec.grants must have at least one grant; to stop every client of the realm, set spec.suspend to true"
	// +listType=map
	// +listMapKey=name
	// +required
	Grants []Grant `json:"grants,omitempty"`

	// trustedIssuers lists at most 16 issuers whose tokens can authenticate clients of the realm, or be
	// exchanged; see uses. ApiClients and exchanges refer to them by name. The operator gets their public
	// keys and refreshes them every 10 minutes; token servers verify the tokens without contacting the
	// issuer. If unset or empty, only service accounts of this cluster can authenticate with a token that
	// they already have.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule=`self.all(x, self.exists_one(y, y.issuer == x.issuer && (has(y.audience) ? y.audience : '') == (has(x.audience) ? x.audience : '')))`,message="spec.trustedIssuers must not have two entries with the same issuer and audience; for two systems with the same issuer URL, set another audience in one of the entries"
	// +kubebuilder:validation:XValidation:rule=`self.all(x, !has(x.uses) || !('IDJAG' in x.uses) || self.exists_one(y, y.issuer == x.issuer && has(y.uses) && 'IDJAG' in y.uses))`,message="spec.trustedIssuers must not have two entries with the same issuer and IDJAG in uses, because the audience of an ID-JAG does not tell them apart"
	// +listType=map
	// +listMapKey=name
	// +optional
	TrustedIssuers []TrustedIssuer `json:"trustedIssuers,omitempty"`

	// exchanges lists at most 6 rules for token exchange (RFC 8693) and for identity assertion
	// authorization grants (ID-JAG), with which clients get tokens that act for another subject. A
	// single rule must allow the whole exchange; rules are never combined. If several rules allow it, the
	// first one applies. If unset or empty, clients can only act for themselves.
	// +kubebuilder:validation:MaxItems=6
	// +listType=map
	// +listMapKey=name
	// +optional
	Exchanges []Exchange `json:"exchanges,omitempty"`

	// statusList configures the token status lists of the realm, from which APIs that verify tokens
	// offline learn of revocations. If unset, there are none.
	// +optional
	StatusList StatusList `json:"statusList,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.

	// claims lists at most 16 fixed claims that the tokens of every client of the realm contain.
	// The claims of the realm and of a client together can have at most 16 entries and 2048 bytes
	// as JSON; otherwise the realm or the client is not Accepted (ClaimsTooLarge). If unset or
	// empty, the realm adds no claims.
	// +optional
	Claims Claims `json:"claims,omitempty"`

	// allowedClaims lists at most 64 names of claims that ApiClients can set in spec.claims. It
	// must not list a claim that spec.claims sets, regardless of case. If unset or empty,
	// ApiClients cannot set claims.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	AllowedClaims []ClaimName `json:"allowedClaims,omitempty"`

	// signing configures how tokens are signed. If unset, the defaults of its fields apply.
	// +optional
	Signing Signing `json:"signing,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.

	// limits restricts each client of the realm. If unset, there are no limits.
	// +optional
	Limits Limits `json:"limits,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.

	// suspend stops the realm while it is true. Clients of a suspended realm cannot get tokens.
	// Introspection (RFC 7662) and the verify endpoint for gateways, <issuer>/oauth2/verify, reject
	// existing tokens. Nothing is deleted, and rotations continue. If you set suspend to false,
	// clients can get tokens again. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"` //nolint:kubeapilinter // false means the same as an unset field.

	// tokensValidAfterTime revokes older tokens: introspection and the verify endpoint reject
	// tokens of the realm that were issued before this time, an RFC 3339 time between the years
	// 1000 and 2999, such as "2026-03-01T12:00:00Z". Issue times are truncated to whole seconds. A
	// time in the future rejects every token until it has passed, and with statusList, clients get no
	// tokens until then. Verifiers that only use the public keys are not notified: they accept tokens until
	// the tokens expire, unless they use the status list. There, tokens that clients got between this time
	// and the change are INVALID, too. If you set an earlier time or remove it, introspection and the verify
	// endpoint accept the revoked tokens again until they expire; in the status list, they stay INVALID. If
	// unset, no tokens are rejected because of their age.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	TokensValidAfterTime *metav1.Time `json:"tokensValidAfterTime,omitempty"`
}

// SigningAlgorithm is a JSON Web Signature algorithm name (RFC 7518, section 3.1 and RFC 8037,
// section 3.1).
//
// +kubebuilder:validation:Enum=ES256;ES384;EdDSA;RS256;PS256
type SigningAlgorithm string

const (
	// SigningAlgorithmES256 is ECDSA on P-256 with SHA-256.
	SigningAlgorithmES256 SigningAlgorithm = "ES256"

	// SigningAlgorithmES384 is ECDSA on P-384 with SHA-384.
	SigningAlgorithmES384 SigningAlgorithm = "ES384"

	// SigningAlgorithmEdDSA is EdDSA with Ed25519.
	SigningAlgorithmEdDSA SigningAlgorithm = "EdDSA"

	// SigningAlgorithmRS256 is RSASSA-PKCS1-v1_5 with SHA-256.
	SigningAlgorithmRS256 SigningAlgorithm = "RS256"

	// SigningAlgorithmPS256 is RSASSA-PSS with SHA-256.
	SigningAlgorithmPS256 SigningAlgorithm = "PS256"
)

// Signing configures how a Realm signs tokens and when it rotates its key.
//
// A new key is published before it signs the first token, so that verifiers can load it in time. An
// old key stays published until the last token that it signed has expired.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.publishAhead) || !self.publishAhead.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (has(self.rotationInterval) && !self.rotationInterval.matches(r'^([0-9]{1,5}[hms]){1,3}$')) || duration(self.publishAhead) + duration(self.publishAhead) <= duration(has(self.rotationInterval) ? self.rotationInterval : '720h')`,fieldPath=".publishAhead",messageExpression="'spec.signing.publishAhead must be at most half of spec.signing.rotationInterval, which is ' + (has(self.rotationInterval) ? self.rotationInterval : 'unset and defaults to 720h')"
type Signing struct {
	// algorithm is the algorithm of the realm's signing key: ES256, ES384, EdDSA, RS256, or PS256.
	// ES256 is fast and widely supported. Use RS256 for verifiers that support nothing else. A
	// change is a rotation: the key with the new algorithm is published in advance like any other
	// key. Defaults to ES256.
	// +optional
	Algorithm SigningAlgorithm `json:"algorithm,omitempty"`

	// rotationInterval is how long a key signs tokens before the next key replaces it: a duration
	// of at least 1h in hours, minutes, and whole seconds, such as "720h". Defaults to 720h, which
	// is 30 days.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('1h')`,message="spec.signing.rotationInterval must be at least 1h"
	// +optional
	RotationInterval *Duration `json:"rotationInterval,omitempty"`

	// publishAhead is how long a key is published before it signs tokens: a duration of at least
	// 10m and at most half of rotationInterval, in hours, minutes, and whole seconds, such as
	// "24h". The time starts when every live token server publishes the key. It does not apply to
	// the first key of a realm. Verifiers are allowed to cache the keys for 5 minutes; use a longer
	// time if your verifiers cache keys longer or you distribute keys manually. Defaults to 1h, or
	// half of rotationInterval if that is shorter.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('10m')`,message="spec.signing.publishAhead must be at least 10m"
	// +optional
	PublishAhead *Duration `json:"publishAhead,omitempty"`

	// rotationRequestTime triggers a single rotation: when this time has passed, keys that were
	// created before this time are replaced. It is an RFC 3339 time between the years 1000 and 2999, such as
	// "2031-12-31T23:59:59Z". Fractions of a second are rounded up. The new key is published in
	// advance like any other key. Newer keys are not affected, so the field can stay in Git
	// permanently; set a later time to rotate again. If unset, keys are rotated only by
	// rotationInterval.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	RotationRequestTime *metav1.Time `json:"rotationRequestTime,omitempty"`
}

// RealmStatus is the observed state of a Realm.
type RealmStatus struct {
	// conditions describes the state of the realm. Accepted says whether the spec is valid,
	// Programmed whether every live token server has loaded it, and Ready whether clients can get
	// tokens. These three are always present. IssuersResolved is present only while
	// spec.trustedIssuers is set, ExchangesResolved only while spec.exchanges is set, and Reconciling
	// and Stalled only while they are True.
	// KeysEncrypted is present with keyEncryption.kms, or while a signing key is encrypted.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status reflects. It is -1 until the
	// operator has processed the object, so that tools do not report a new object as reconciled.
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"` //nolint:kubeapilinter // The value 0 does not occur.

	// issuer is the iss claim of the realm's tokens (RFC 8414, section 2):
	// https://api.<instance domain>/<name>, with a port if it is not 443.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// tokenEndpoint is the URL of the realm's token endpoint (RFC 6749, section 3.2).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	TokenEndpoint string `json:"tokenEndpoint,omitempty"`

	// jwksURI is the URL of the public keys that verify the realm's tokens (RFC 7517,
	// section 5).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	JWKSURI string `json:"jwksURI,omitempty"`

	// statusListURI is the URL of the realm's current status list, to which the claim status of its
	// tokens refers (draft-ietf-oauth-status-list, section 6.2). It changes when tokensValidAfterTime of
	// the Realm revokes tokens, after a restore, and after etcd was rolled back. Unset if no token that is still valid refers to a list.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	StatusListURI string `json:"statusListURI,omitempty"`

	// tokenLifetime is the effective lifetime of the realm's tokens: spec.tokenLifetime, or the
	// instance's default if that is unset.
	// +optional
	TokenLifetime *Duration `json:"tokenLifetime,omitempty"`

	// rotationInterval is the effective interval of spec.signing.rotationInterval.
	// +optional
	RotationInterval *Duration `json:"rotationInterval,omitempty"`

	// publishAhead is the effective time of spec.signing.publishAhead.
	// +optional
	PublishAhead *Duration `json:"publishAhead,omitempty"`

	// clients is the number of ApiClients that refer to the Realm with spec.realmRef, whether or not
	// they are accepted, in the namespaces that the operator serves. It can be some seconds old: the
	// operator writes a change from 0 immediately, a change to 0 within a second, and others at most once
	// in 5 seconds. Unset
	// until the operator has counted them. While it is not 0, the API server denies the deletion of
	// the Realm, unless the annotation auth.realmkeeper.dev/allow-deletion has the name of the Realm as
	// its value.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Clients *int32 `json:"clients,omitempty"`

	// signingKeys lists the published keys of the realm, without their private parts.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=keyID
	// +optional
	SigningKeys []SigningKeyStatus `json:"signingKeys,omitempty"`

	// nextKeyTransitionTime is the time of the next change to the signing keys: a new key is
	// published, the pending key becomes Active, or an old key is removed. Unset while the next
	// change is waiting for token servers to load the last one.
	// +optional
	NextKeyTransitionTime *metav1.Time `json:"nextKeyTransitionTime,omitempty"`

	// trustedIssuers describes the issuers in spec.trustedIssuers.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	TrustedIssuers []TrustedIssuerStatus `json:"trustedIssuers,omitempty"`
}

// SigningKeyState is the lifecycle state of a signing key.
//
// +kubebuilder:validation:Enum=Pending;Active;Retiring
type SigningKeyState string

const (
	// SigningKeyPending is the state of a key that is published but does not sign yet.
	SigningKeyPending SigningKeyState = "Pending"

	// SigningKeyActive is the state of the only key of the realm that signs tokens.
	SigningKeyActive SigningKeyState = "Active"

	// SigningKeyRetiring is the state of a key that no longer signs. It stays published until the
	// last token that it signed has expired.
	SigningKeyRetiring SigningKeyState = "Retiring"
)

// SigningKeyStatus describes a published signing key of a Realm.
type SigningKeyStatus struct {
	// keyID is the kid of the key (RFC 7517, section 4.5) in the realm's key set and in the header
	// of its tokens.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	KeyID string `json:"keyID,omitempty"`

	// algorithm is the signature algorithm of the key. It never changes.
	// +required
	Algorithm SigningAlgorithm `json:"algorithm,omitempty"`

	// state is the lifecycle state of the key. Pending means that it is published but does not sign
	// yet, Active that it signs, and Retiring that it no longer signs but is still published.
	// +required
	State SigningKeyState `json:"state,omitempty"`

	// creationTime is the time at which the key was generated.
	// +required
	CreationTime metav1.Time `json:"creationTime,omitzero"` //nolint:kubeapilinter // It is a string in JSON.

	// activationTime is the time at which the key started to sign tokens. Unset while the key is
	// Pending.
	// +optional
	ActivationTime *metav1.Time `json:"activationTime,omitempty"`

	// removalTime is the time at which a Retiring key is removed from the key set. By then the last
	// token that it can have signed has expired, plus 5 minutes to allow for slow clocks. Unset in
	// the other states, and until every live token server has stopped signing with the key.
	// +optional
	RemovalTime *metav1.Time `json:"removalTime,omitempty"`
}
