package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApiClient is an OAuth 2.0 client of a Realm. It gets access tokens with the client credentials
// grant (RFC 6749, section 4.4) or the JWT bearer grant (RFC 7523, section 2.1), and tokens that act for
// another subject with token exchange (RFC 8693) or an ID-JAG.
//
// If you delete an ApiClient and create it again, the new object is a different client: a generated
// secret of the old one is rejected. Tokens of the old client fail introspection and the verify
// endpoint, but verification with only the public keys accepts them until they expire, unless it also uses
// the status list of the realm.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=apic,categories=realmkeeper
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.realmRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Realm",type=string,JSONPath=`.spec.realmRef.name`
// +kubebuilder:printcolumn:name="Client ID",type=string,JSONPath=`.status.clientID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Secret",type=string,priority=1,JSONPath=`.status.secretName`
// +kubebuilder:printcolumn:name="Scopes",type=string,priority=1,JSONPath=`.spec.scopes`
// +kubebuilder:printcolumn:name="Next rotation",type=string,format=date-time,priority=1,JSONPath=`.status.nextRotationTime`
// +kubebuilder:printcolumn:name="Expires",type=string,format=date-time,priority=1,JSONPath=`.spec.expirationTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule=`!self.metadata.name.startsWith('sh.helm.release.')`,message="metadata.name must not start with sh.helm.release., because Helm would treat a credentials Secret with this name as a release"
type ApiClient struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard Kubernetes object metadata. If spec.clientID is unset, the client ID
	// is derived from the namespace and name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec defines the desired state of the ApiClient. At least one of secret, publicKeys, and
	// identities must be set. A name in parentheses in the description of a field is the reason of
	// the Accepted condition.
	// +required
	Spec ApiClientSpec `json:"spec,omitzero"`

	// status is the observed state of the ApiClient. It is written by the operator.
	// +default={"observedGeneration":-1}
	// +optional
	Status ApiClientStatus `json:"status,omitzero"` //nolint:kubeapilinter // It is never written as {}.
}

// ApiClientList is a list of ApiClients.
//
// +kubebuilder:object:root=true
type ApiClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items lists the ApiClients.
	Items []ApiClient `json:"items"`
}

// ApiClientSpec defines the desired state of an ApiClient. At least one of secret, publicKeys, and
// identities must be set. They are independent: to add or remove one does not change another.
//
// +kubebuilder:validation:XValidation:rule=`has(self.secret) || has(self.publicKeys) || has(self.identities)`,reason=FieldValueRequired,fieldPath=".secret",message="the client has no way to authenticate; set at least one of spec.secret, spec.publicKeys, and spec.identities, for example \"secret: {generated: {}}\" for a secret that the operator generates"
// +kubebuilder:validation:XValidation:rule=`has(self.clientID) == has(oldSelf.clientID) && (!has(self.clientID) || self.clientID == oldSelf.clientID)`,fieldPath=".clientID",messageExpression="'spec.clientID is immutable (it cannot be changed, added, or removed); it is ' + (has(oldSelf.clientID) ? oldSelf.clientID : 'unset') + '; create another ApiClient instead'"
type ApiClientSpec struct {
	// realmRef references the realm of this client. A grant of the realm must cover the client; see
	// spec.grants of the Realm. You can create the client before the realm.
	// +required
	RealmRef RealmReference `json:"realmRef,omitzero"`

	// clientID is the client identifier (RFC 6749, section 2.2): 1 to 255 printable ASCII
	// characters except space, colon, "%", "+", and "*". It must not begin with "wl/", which is
	// reserved. A grant of the realm must list it in clientIDs; otherwise the client is not Accepted
	// (NotGranted). It must be unique in the realm: the first ApiClient that is Accepted holds the
	// client ID until it is deleted or releases it, and others are not Accepted (ClientIDConflict).
	// clientID is immutable and cannot be added or removed later.
	//
	// Defaults to "<namespace>.<name>", which needs no entry in a grant and has at most 317
	// characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[!-$&-),-9;-~]+$')`,message="spec.clientID must have 1 to 255 printable ASCII characters except space, colon, percent sign, plus sign, and asterisk"
	// +kubebuilder:validation:XValidation:rule=`!self.startsWith('wl/')`,message="spec.clientID must not begin with wl/, which is reserved; choose another client ID"
	// +optional
	ClientID string `json:"clientID,omitempty"`

	// description describes the purpose of the client in at most 256 characters. It has no effect
	// on tokens. If unset, the client has no description.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Description string `json:"description,omitempty"` //nolint:kubeapilinter // "" means the same as an unset field.

	// scopes lists the scopes that the client can request. It can have at most 256 entries of at
	// most 128 characters. A token request without a scope gets all of them. Each scope must be
	// defined by the realm; otherwise the client is not Accepted (ScopeNotInRealm). The grant that
	// covers the client must allow all of them; otherwise the client is not Accepted (NotGranted).
	// If unset or empty, the client has no scopes.
	// +optional
	Scopes Scopes `json:"scopes,omitempty"`

	// delegatedScopes lists further scopes that the client can have only in tokens with which it acts for
	// another subject; see spec.exchanges of the Realm. It can have at most 64 entries of at most 128
	// characters. Each scope must be defined by the realm (ScopeNotInRealm), and the grant that covers
	// the client must allow all of them (NotGranted). If unset or empty, the client can have only scopes
	// in such tokens.
	// +optional
	DelegatedScopes DelegatedScopes `json:"delegatedScopes,omitempty"`

	// audiences lists the values that the aud claim of the client's tokens can have. It can have at
	// most 16 entries of at most 256 characters. A token request without an audience gets all of
	// them. Each audience must be an audience of the realm; otherwise the client is not Accepted
	// (AudienceNotInRealm). The grant that covers the client must allow all of them; otherwise the
	// client is not Accepted (NotGranted). If unset or empty, the client has all audiences of the
	// first grant that covers it.
	// +optional
	Audiences Audiences `json:"audiences,omitempty"`

	// introspection allows the client to introspect tokens of other clients (RFC 7662). If unset,
	// the client can introspect only its own tokens.
	// +optional
	Introspection Introspection `json:"introspection,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.

	// tokenLifetime is the lifetime of the client's access tokens: a duration from 10s to 24h in
	// hours, minutes, and whole seconds, such as "5m" or "1h30m". It must not exceed the lifetime
	// of the realm; otherwise the client is not Accepted (LifetimeExceedsRealm). A change applies
	// to tokens issued after it. Defaults to the lifetime of the realm, including later changes to
	// it.
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))`,message="spec.tokenLifetime must be between 10s and 24h"
	// +optional
	TokenLifetime *Duration `json:"tokenLifetime,omitempty"`

	// limits restricts the client in addition to the limits of its realm. If both set the same
	// limit, the lower value applies. If unset, only the limits of the realm apply.
	// +optional
	Limits Limits `json:"limits,omitzero"` //nolint:kubeapilinter // {} means the same as an unset field.

	// suspend stops the client while it is true. A suspended client cannot get tokens, and
	// introspection and the verify endpoint reject its existing tokens. Nothing is deleted, and
	// rotations continue. If you set suspend to false, the client can get tokens again. Defaults to
	// false.
	// +optional
	Suspend bool `json:"suspend,omitempty"` //nolint:kubeapilinter // false means the same as an unset field.

	// The API server's date-time format accepts values that Go can't parse: lowercase "t" and "z",
	// or an offset of 99:99. A single unparsable object stops an informer for all objects, so the
	// pattern is stricter.

	// expirationTime is the time at which the client expires: an RFC 3339 time between the years 1000
	// and 2999, such as "2031-12-31T23:59:59Z". An expired client is treated like a suspended one.
	// A later time reactivates it. If unset, the client does not expire.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// tokensValidAfterTime revokes older tokens: introspection and the verify endpoint reject
	// tokens of the client that were issued before this time, an RFC 3339 time between the years
	// 1000 and 2999, such as "2026-03-01T12:00:00Z". Issue times are truncated to whole seconds. A
	// time in the future rejects every token until it has passed, and with spec.statusList of the Realm,
	// clients get no tokens until then. Verifiers that only use the public keys are not notified: they
	// accept tokens until the tokens expire, unless they use the status list. There, tokens that the client
	// got between this time and the change are INVALID, too. If you set an earlier time or remove it,
	// introspection and the verify endpoint accept the revoked tokens again until they expire; in the
	// status list, they stay INVALID once the client has another index. If unset, no tokens are rejected
	// because of their age.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	TokensValidAfterTime *metav1.Time `json:"tokensValidAfterTime,omitempty"`

	// secret selects the source of the client secret, exactly one of generated, provided, and
	// hashed. You can change the source later. The previous secret then stays valid for the overlap
	// of the new source; hashed has none, so that it is revoked immediately. If you remove secret,
	// the client secret is revoked immediately. If unset, the client has no client secret, and
	// publicKeys or identities must be set.
	// +optional
	Secret *ClientSecretSource `json:"secret,omitempty"`

	// publicKeys lists 1 to 4 public keys with which the client authenticates instead of a
	// secret. The client signs assertions with the private key (private_key_jwt: RFC 7523, and
	// OpenID Connect Core 1.0, section 9). A key is valid while it is listed; list two keys to let
	// workloads switch from one to the other. A client with an unsupported key is not Accepted
	// (PublicKeyNotSupported). If unset, the client cannot authenticate with assertions signed by
	// its own key.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=keyID
	// +optional
	PublicKeys []PublicKey `json:"publicKeys,omitempty"`

	// identities lists 1 to 16 workloads that can authenticate as the client with a token that they
	// already have. They are service accounts in the client's namespace, or have an issuer that the
	// realm trusts, such as CI jobs and Pods of other clusters. They present the token as client
	// assertion, or with the JWT bearer grant (RFC 7523). The grant that covers the client must
	// allow the issuers, and "kubernetes" for service accounts; otherwise the client is not
	// Accepted (NotGranted). If unset, no such token can authenticate the client.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule=`self.all(x, !has(x.serviceAccount) || self.exists_one(y, has(y.serviceAccount) && y.serviceAccount.name == x.serviceAccount.name))`,message="spec.identities must not have two entries with the same serviceAccount"
	// +listType=map
	// +listMapKey=name
	// +optional
	Identities []Identity `json:"identities,omitempty"`

	// senderConstraint requires that the client's tokens are bound to a key. DPoP requires a DPoP
	// proof (RFC 9449) in every token request and every API request with such a token. If unset,
	// the tokens of requests with a proof are bound, and others are not. A grant can require it
	// too; see spec.grants of the Realm.
	// +optional
	SenderConstraint SenderConstraint `json:"senderConstraint,omitempty"`

	// claims lists at most 16 fixed claims that the client's tokens contain, in addition to those
	// of the realm. The realm must list their names in allowedClaims; otherwise the client is not
	// Accepted (ClaimNotInRealm). The claims of the realm and the client together can have at most
	// 16 entries and 2048 bytes as JSON (ClaimsTooLarge). A change applies to tokens issued after
	// it. If unset or empty, the tokens contain only the fixed claims of the realm.
	// +optional
	Claims Claims `json:"claims,omitempty"`
}

// Introspection specifies which tokens of other clients a client can introspect (RFC 7662, section
// 4).
type Introspection struct {
	// audiences lists the audiences whose tokens the client can introspect: the aud claim of a
	// token must contain one of them. For other tokens, except its own, the client gets the
	// response for an inactive token. It can have at most 16 entries of at most 256 characters.
	// Each audience must be an audience of the realm (AudienceNotInRealm), and the grant that
	// covers the client must allow all of them (NotGranted). If unset or empty, the client can
	// introspect only its own tokens.
	// +optional
	Audiences Audiences `json:"audiences,omitempty"`
}

// RealmReference references a Realm.
type RealmReference struct {
	// name is the name of the Realm. It is immutable; to move to another realm, create another
	// client.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.realmRef.name must be a valid Realm name: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf`,messageExpression="'spec.realmRef.name is immutable; it is ' + oldSelf + '; create another ApiClient instead'"
	// +required
	Name string `json:"name,omitempty"`
}

// ClientSecretSource selects the source of a client secret. Exactly one member must be set.
//
// +union
// +kubebuilder:validation:XValidation:rule=`[has(self.generated), has(self.provided), has(self.hashed)].exists_one(member, member)`,messageExpression="'spec.secret must have exactly one of generated, provided, and hashed, but it has ' + (has(self.generated) ? (has(self.provided) ? (has(self.hashed) ? 'all of them' : 'generated and provided') : 'generated and hashed') : (has(self.provided) ? 'provided and hashed' : 'none; for a secret that the operator generates, set generated: {}'))"
type ClientSecretSource struct {
	// generated configures a secret of 256 random bits. The operator generates it and stores it in
	// the credentials Secret, a Secret in the client's namespace that workloads can mount. It is
	// deleted with the ApiClient. If unset, provided or hashed must be set.
	// +optional
	Generated *GeneratedSecret `json:"generated,omitempty"`

	// provided uses a secret from an existing Secret in the client's namespace. If unset, generated
	// or hashed must be set.
	// +optional
	Provided *ProvidedSecret `json:"provided,omitempty"` //nolint:kubeapilinter // All members of the union are pointers.

	// hashed lists the hashes of one or two secrets. The cluster never stores their plaintext. A
	// secret is valid while its hash is listed; list two to let workloads switch from one to the
	// other. If unset, generated or provided must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=map
	// +listMapKey=id
	// +optional
	Hashed []HashedSecret `json:"hashed,omitempty"`
}

// ApiClientStatus is the observed state of an ApiClient.
type ApiClientStatus struct {
	// conditions describes the state of the client. Accepted says whether the spec is valid and the
	// realm allows the client, Programmed whether every live token server has loaded it, and Ready
	// whether the client can get tokens. These three are always present. Reconciling, Stalled, and
	// WeaklyHashed are present only while they are True, and OldSecretInUse only while it is True
	// or Unknown. Restored is present while the client accepts secrets of a backup.
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

	// clientID is the effective client identifier. The client sends it in token requests.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +optional
	ClientID string `json:"clientID,omitempty"`

	// issuer is the iss claim of the client's tokens, which is the issuer of its realm.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// tokenEndpoint is the URL of the token endpoint (RFC 6749, section 3.2).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	TokenEndpoint string `json:"tokenEndpoint,omitempty"`

	// clusterTokenEndpoint is the URL of the token endpoint at the token servers' Service, for
	// workloads in this cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ClusterTokenEndpoint string `json:"clusterTokenEndpoint,omitempty"`

	// jwksURI is the URL of the public keys that verify the client's tokens (RFC 7517, section 5).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	JWKSURI string `json:"jwksURI,omitempty"`

	// grant is the name of the grant of the realm that covers the client. Unset while the client is
	// not Accepted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Grant string `json:"grant,omitempty"`

	// scopes lists the scopes that the client can request, sorted. Unset while the client is not
	// Accepted, and if it has no scopes.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=atomic
	// +optional
	Scopes []string `json:"scopes,omitempty"`

	// audiences lists the values that the aud claim of the client's tokens can have, sorted: those of
	// the spec, or those of the grant if the spec lists none. Unset while the client is not Accepted.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +optional
	Audiences []string `json:"audiences,omitempty"`

	// secretName is the name of the credentials Secret. It is set after the Secret has been
	// written. Unset if the client secret is not generated.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// lastRotationTime is the time at which the most recent secret that replaced another one was
	// created. Unset if the secret has never been rotated.
	// +optional
	LastRotationTime *metav1.Time `json:"lastRotationTime,omitempty"`

	// nextRotationTime is the time at which the next rotation starts. Unset if no rotation is
	// scheduled or one is in progress.
	// +optional
	NextRotationTime *metav1.Time `json:"nextRotationTime,omitempty"`

	// lastReleaseTime is the time up to which the client ID and the subjects of the client were
	// released. It is that of the annotation auth.realmkeeper.dev/release of the client or of its
	// Realm. Unset if nothing was released.
	// +optional
	LastReleaseTime *metav1.Time `json:"lastReleaseTime,omitempty"`

	// lastUsedTime is the latest lastUsedTime of all credentials that the client has or had. Unset
	// if the client has never been used.
	// +optional
	LastUsedTime *metav1.Time `json:"lastUsedTime,omitempty"`

	// credentials lists the credentials of the client, without their values: the recorded client
	// secrets that have not expired, and then the public keys and identities of the spec, unused
	// ones too. Secrets that were restored from a backup are not listed.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	// +listMapKey=name
	// +optional
	Credentials []CredentialStatus `json:"credentials,omitempty"`
}

// CredentialStatus describes a credential of an ApiClient.
type CredentialStatus struct {
	// type is the kind of credential: Secret, PublicKey, or Identity.
	// +required
	Type CredentialType `json:"type,omitempty"`

	// name identifies the credential among those of its type: the ID of a secret, which also appears in
	// audit events and reveals nothing about the value; the keyID of a public key; or the name of an
	// identity.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Name string `json:"name,omitempty"`

	// state is set for secrets. Current is a secret that workloads use, Next is a generated secret
	// that replaces it as soon as all token servers accept it, and Retiring is a secret that was
	// replaced and expires.
	// +optional
	State CredentialState `json:"state,omitempty"`

	// creationTime is the time at which the secret was generated, or at which the operator first
	// recorded a provided or hashed secret. Unset for other credentials.
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`

	// expirationTime is the time at which the credential expires. If unset, it does not expire.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// lastUsedTime is when a client last authenticated with the credential, truncated to
	// usage.resolution of the instance configuration, by default to the hour. Later uses in the
	// same period do not change it. A new value appears with a delay of minutes, and of up to an
	// hour if the client uses several credentials. Unset if the credential has never been used.
	// +optional
	LastUsedTime *metav1.Time `json:"lastUsedTime,omitempty"`
}

// CredentialState is the lifecycle state of a client secret.
//
// +kubebuilder:validation:Enum=Current;Next;Retiring
type CredentialState string

const (
	// CredentialCurrent is the state of a secret that workloads use.
	CredentialCurrent CredentialState = "Current"

	// CredentialNext is the state of a generated secret that replaces the current one when every live
	// token server accepts it.
	CredentialNext CredentialState = "Next"

	// CredentialRetiring is the state of a secret that was replaced. It is accepted until it expires.
	CredentialRetiring CredentialState = "Retiring"
)

// CredentialType is a kind of credential of an ApiClient.
//
// +kubebuilder:validation:Enum=Secret;PublicKey;Identity
type CredentialType string

const (
	// CredentialTypeSecret is a client secret. Its name is its ID.
	CredentialTypeSecret CredentialType = "Secret"

	// CredentialTypePublicKey is a public key in spec.publicKeys. Its name is its keyID.
	CredentialTypePublicKey CredentialType = "PublicKey"

	// CredentialTypeIdentity is an identity in spec.identities.
	CredentialTypeIdentity CredentialType = "Identity"
)
