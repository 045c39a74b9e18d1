package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Realm is an OAuth 2.0 authorization server of its own: an issuer with its signing
// keys, its scopes and audiences, and the clients that ApiClients add to it.
//
// Its name is the first segment of the path of its endpoints, so it is a DNS label of
// at most 63 characters. It serves
// https://api.<instance domain>/<name>/oauth2/token.
//
// A deleted Realm that is created again is a new one: it signs with new keys, and
// tokens of the old one don't verify.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=rlm,categories=realmkeeper
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Issuer",type=string,JSONPath=`.status.issuer`
// +kubebuilder:printcolumn:name="Lifetime",type=string,JSONPath=`.status.tokenLifetime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Algorithm",type=string,priority=1,JSONPath=`.status.signingKeys[?(@.state=="Active")].algorithm`
// +kubebuilder:printcolumn:name="Key age",type=date,priority=1,JSONPath=`.status.signingKeys[?(@.state=="Active")].activeAt`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.matches(r'^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')`,messageExpression="'metadata.name must be a DNS label (lower-case letters, digits and inner hyphens, at most 63 characters), not ' + self.metadata.name"
type Realm struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of a Kubernetes object. The name must be a DNS
	// label of at most 63 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the realm shall be.
	// +required
	Spec RealmSpec `json:"spec,omitzero"`

	// status is what the realm is now. The operator writes it.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status RealmStatus `json:"status,omitzero"`
}

// RealmList is a list of Realms.
//
// +kubebuilder:object:root=true
type RealmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the Realms of this list.
	Items []Realm `json:"items"`
}

// RealmSpec is what a Realm shall be.
type RealmSpec struct {
	// displayName is the name of the realm for people, at most 128 characters. It has no
	// effect on tokens. Left out, the realm is shown under its metadata.name.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// tokenLifetime is how long an access token of this realm is valid, as a duration
	// from 10s to 24h in hours, minutes and whole seconds, such as "5m" or "1h30m". It is
	// the upper bound for the lifetime that an ApiClient may ask for. It may not exceed
	// the instance's maximum; a realm that does isn't Accepted
	// (LifetimeExceedsInstanceMaximum). A change holds for tokens issued from then on.
	// Left out, the instance's default lifetime holds, and follows it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.tokenLifetime must be a duration in hours, minutes and whole seconds, such as 5m or 1h30m"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))`,message="spec.tokenLifetime must be between 10s and 24h"
	// +optional
	TokenLifetime *metav1.Duration `json:"tokenLifetime,omitempty"`

	// audiences are the values that the aud claim of a token of this realm may have, at
	// most 16 of at most 256 characters each. Each one is an absolute URI without a
	// fragment (RFC 8707, section 2) such as "https://orders.example.com", or a name
	// without a colon such as "orders" (RFC 7519, section 2).
	//
	// A token carries all audiences of its client unless the request asks for some of
	// them. A client has all audiences of its realm unless it lists its own.
	// Left out or empty, the only audience is the issuer.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$")`,message="spec.audiences must hold absolute URIs without a fragment, or names: only characters of RFC 3986, no space and no #"
	// +kubebuilder:validation:items:XValidation:rule=`!self.contains(':') || (self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*:.') && isURL(self))`,message="spec.audiences must hold absolute URIs or names: a value with a colon must be an absolute URI"
	// +listType=set
	// +optional
	Audiences []string `json:"audiences,omitempty"`

	// scopes are the scopes that an ApiClient of this realm may list, at most 256 of at
	// most 128 characters each. Each one is a scope-token of RFC 6749, section 3.3:
	// printable ASCII characters without space, double quote and backslash. When a
	// scope is taken away, the clients that list it are no longer accepted and get no
	// token until they drop it.
	// Left out or empty, the realm has no scopes, and tokens carry no scope claim.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!#-\[\]-~]+$')`,message="spec.scopes must hold scope tokens of RFC 6749 section 3.3: printable ASCII characters without space, double quote and backslash"
	// +listType=set
	// +optional
	Scopes []string `json:"scopes,omitempty"`

	// allowedNamespaces says in which namespaces an ApiClient may join this realm. It has
	// no default: who may create clients is a decision. When a namespace is no longer
	// allowed, its clients get no more tokens.
	// +required
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`

	// signing says how tokens are signed. Left out, as if it were empty.
	// +optional
	Signing Signing `json:"signing,omitzero"`

	// limits bound what each single client of the realm may do. Left out, nothing is limited.
	// +optional
	Limits Limits `json:"limits,omitzero"`

	// suspend stops the realm while it is true: no client of it gets a token, and
	// introspection and verify refuse those that are under way. Nothing is lost; with false the realm goes on with the same keys and secrets. Left out, false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// tokensValidAfter revokes tokens: introspection and verify refuse those of the realm
	// that were issued before this instant, an RFC 3339 time between the years 1000 and
	// 2999, such as "2026-03-01T12:00:00Z". A token counts as issued at the start of its
	// second. In the future the instant refuses every token until it has passed. Verifiers that know
	// nothing but the public keys don't learn of it: for them a token ends with its
	// lifetime. Left out, no token is refused for its age.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	TokensValidAfter *metav1.Time `json:"tokensValidAfter,omitempty"`
}

// SigningAlgorithm is a signature algorithm by its name in a JSON Web Signature
// (RFC 7518, section 3.1 and RFC 8037, section 3.1).
//
// +kubebuilder:validation:Enum=ES256;ES384;EdDSA;RS256;PS256
type SigningAlgorithm string

const (
	// SigningAlgorithmES256 is ECDSA on P-256 with SHA-256.
	SigningAlgorithmES256 SigningAlgorithm = "ES256"

	// SigningAlgorithmES384 is ECDSA on P-384 with SHA-384.
	SigningAlgorithmES384 SigningAlgorithm = "ES384"

	// SigningAlgorithmEdDSA is EdDSA on Ed25519.
	SigningAlgorithmEdDSA SigningAlgorithm = "EdDSA"

	// SigningAlgorithmRS256 is RSASSA-PKCS1-v1_5 with SHA-256.
	SigningAlgorithmRS256 SigningAlgorithm = "RS256"

	// SigningAlgorithmPS256 is RSASSA-PSS with SHA-256.
	SigningAlgorithmPS256 SigningAlgorithm = "PS256"
)

// Signing says how a Realm signs tokens, and when it changes its key.
//
// A new key is published ahead of its first signature, so that verifiers know it by then,
// and stays published until the last token that it signed has expired.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.publishAhead) || !self.publishAhead.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (has(self.rotationInterval) && !self.rotationInterval.matches(r'^([0-9]{1,5}[hms]){1,3}$')) || duration(self.publishAhead) + duration(self.publishAhead) <= duration(has(self.rotationInterval) ? self.rotationInterval : '720h')`,fieldPath=".publishAhead",messageExpression="'spec.signing.publishAhead must be at most half of spec.signing.rotationInterval, which is ' + (has(self.rotationInterval) ? self.rotationInterval : '720h where it is left out')"
type Signing struct {
	// algorithm is the algorithm of the realm's signing key: ES256, ES384, EdDSA, RS256
	// or PS256. ES256 is fast and understood everywhere; RS256 is for verifiers that know
	// nothing else. A change is a rotation: the key of the new algorithm is published
	// ahead as any other. Left out, ES256.
	// +optional
	Algorithm SigningAlgorithm `json:"algorithm,omitempty"`

	// rotationInterval is how long a key signs before the next one does, as a duration of
	// at least 1h in hours, minutes and whole seconds, such as "720h". Left out, 720h,
	// which is 30 days.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.signing.rotationInterval must be a duration in hours, minutes and whole seconds, such as 720h"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('1h')`,message="spec.signing.rotationInterval must be at least 1h"
	// +optional
	RotationInterval *metav1.Duration `json:"rotationInterval,omitempty"`

	// publishAhead is how long a key is published before it signs, as a duration of at
	// least 10m and at most half of rotationInterval, in hours, minutes and whole seconds,
	// such as "24h". It counts from when every live token server publishes the key.
	// Verifiers may cache the keys for 5 minutes; a longer time is for those that cache
	// longer, or have keys brought to them by hand. Left out, 1h, or half of rotationInterval where that is
	// shorter.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.signing.publishAhead must be a duration in hours, minutes and whole seconds, such as 1h or 24h"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || duration(self) >= duration('10m')`,message="spec.signing.publishAhead must be at least 10m"
	// +optional
	PublishAhead *metav1.Duration `json:"publishAhead,omitempty"`

	// rotateAfter replaces, once, the keys that were made before this instant, as soon as
	// it has passed: an RFC 3339 time between the years 1000 and 2999, such as
	// "2031-12-31T23:59:59Z". The new key is published ahead as any other. A key that is
	// younger stays, so the field may stand in Git for ever; a later instant rotates
	// again. Left out, keys change by rotationInterval alone.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	RotateAfter *metav1.Time `json:"rotateAfter,omitempty"`
}

// RealmStatus is what a Realm is now.
type RealmStatus struct {
	// conditions tell the state of the realm: Accepted, Programmed and Ready always,
	// Reconciling and Stalled only while they are True.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status is about: -1 as long
	// as the operator hasn't seen the object, so that nobody takes it for settled.
	// +kubebuilder:validation:Minimum=-1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// issuer is the iss claim of the realm's tokens (RFC 8414, section 2):
	// https://api.<instance domain>/<name>.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// tokenEndpoint is the URL where clients of the realm get tokens (RFC 6749,
	// section 3.2).
	// +kubebuilder:validation:MaxLength=512
	// +optional
	TokenEndpoint string `json:"tokenEndpoint,omitempty"`

	// jwksUri is the URL of the public keys that verify the realm's tokens (RFC 7517,
	// section 5).
	// +kubebuilder:validation:MaxLength=512
	// +optional
	JWKSURI string `json:"jwksUri,omitempty"`

	// tokenLifetime is how long a token of the realm is valid: spec.tokenLifetime, or
	// the instance's default where that is left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +optional
	TokenLifetime *metav1.Duration `json:"tokenLifetime,omitempty"`

	// signingKeys are the published keys of the realm, without their private parts.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=keyID
	// +optional
	SigningKeys []SigningKeyStatus `json:"signingKeys,omitempty"`

	// nextKeyTransitionTime is when the next change of the signing keys is due: a new key
	// is published, begins to sign, or an old one is published no more. Left out while
	// that waits for token servers to load the last change.
	// +optional
	NextKeyTransitionTime *metav1.Time `json:"nextKeyTransitionTime,omitempty"`
}

// SigningKeyState is where a signing key stands in its life.
//
// +kubebuilder:validation:Enum=Pending;Active;Retiring
type SigningKeyState string

const (
	// SigningKeyPending is a key that is published and doesn't sign yet.
	SigningKeyPending SigningKeyState = "Pending"

	// SigningKeyActive is the one key of the realm that signs.
	SigningKeyActive SigningKeyState = "Active"

	// SigningKeyRetiring is a key that signs no more and is published until the last
	// token that it signed has expired.
	SigningKeyRetiring SigningKeyState = "Retiring"
)

// SigningKeyStatus is a published signing key of a Realm.
type SigningKeyStatus struct {
	// keyID is the kid of the key in the realm's key set and in the header of its tokens
	// (RFC 7517, section 4.5).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	KeyID string `json:"keyID,omitempty"`

	// algorithm is the signature algorithm of the key, which never changes.
	// +required
	Algorithm SigningAlgorithm `json:"algorithm,omitempty"`

	// state is where the key stands: Pending is published and doesn't sign yet, Active
	// signs, Retiring signs no more and is still published.
	// +required
	State SigningKeyState `json:"state,omitempty"`

	// createdAt is when the key was made.
	// +required
	CreatedAt metav1.Time `json:"createdAt,omitzero"`

	// activeAt is when the key began to sign. Left out while it is Pending.
	// +optional
	ActiveAt *metav1.Time `json:"activeAt,omitempty"`

	// removeAt is when a Retiring key is published no more: the longest token that it can
	// have signed has expired then, and 5 minutes have passed for clocks that are behind.
	// Left out in the other states, and until every live token server has stopped signing
	// with the key.
	// +optional
	RemoveAt *metav1.Time `json:"removeAt,omitempty"`
}
