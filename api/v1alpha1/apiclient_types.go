package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApiClient is a client of a Realm: an identity that gets access tokens with the
// client credentials grant (RFC 6749, section 4.4), and the credentials for it.
//
// A deleted ApiClient that is created again is a new one: the secrets of the old one are
// refused. Tokens that it got verify offline until they expire.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=apic,categories=realmkeeper
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.realmRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Realm",type=string,JSONPath=`.spec.realmRef.name`
// +kubebuilder:printcolumn:name="Client ID",type=string,JSONPath=`.status.clientId`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secretName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Scopes",type=string,priority=1,JSONPath=`.spec.scopes`
// +kubebuilder:printcolumn:name="Next rotation",type=string,format=date-time,priority=1,JSONPath=`.status.nextRotationTime`
// +kubebuilder:printcolumn:name="Expires",type=string,format=date-time,priority=1,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule=`!(has(self.spec.secret) ? has(self.spec.secret.generated) : !has(self.spec.publicKeys) && !has(self.spec.serviceAccounts)) || !(has(oldSelf.spec.secret) ? has(oldSelf.spec.secret.generated) : !has(oldSelf.spec.publicKeys) && !has(oldSelf.spec.serviceAccounts)) || (has(self.spec.secret) && has(self.spec.secret.generated) && has(self.spec.secret.generated.secretName) ? self.spec.secret.generated.secretName : self.metadata.name) == (has(oldSelf.spec.secret) && has(oldSelf.spec.secret.generated) && has(oldSelf.spec.secret.generated.secretName) ? oldSelf.spec.secret.generated.secretName : oldSelf.metadata.name)`,fieldPath=".spec.secret.generated.secretName",messageExpression="'spec.secret.generated.secretName is immutable; it is ' + (has(oldSelf.spec.secret) && has(oldSelf.spec.secret.generated) && has(oldSelf.spec.secret.generated.secretName) ? oldSelf.spec.secret.generated.secretName : 'the name of the ApiClient, ' + oldSelf.metadata.name)"
type ApiClient struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of a Kubernetes object. Where spec.clientId is
	// left out, namespace and name make up the client id.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the client shall be.
	// +required
	Spec ApiClientSpec `json:"spec,omitzero"`

	// status is what the client is now. The operator writes it.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status ApiClientStatus `json:"status,omitzero"`
}

// ApiClientList is a list of ApiClients.
//
// +kubebuilder:object:root=true
type ApiClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the ApiClients of this list.
	Items []ApiClient `json:"items"`
}

// ApiClientSpec is what an ApiClient shall be.
//
// +kubebuilder:validation:XValidation:rule=`has(self.clientId) == has(oldSelf.clientId) && (!has(self.clientId) || self.clientId == oldSelf.clientId)`,fieldPath=".clientId",messageExpression="'spec.clientId is immutable (it can not be changed, added or removed); it is ' + (has(oldSelf.clientId) ? oldSelf.clientId : 'left out')"
type ApiClientSpec struct {
	// realmRef names the realm of this client. The realm must allow this namespace
	// (spec.allowedNamespaces). It may be created later than the client.
	// +required
	RealmRef RealmReference `json:"realmRef,omitzero"`

	// clientId is the client identifier (RFC 6749, section 2.2): 1 to 64 letters, digits,
	// underscores and hyphens. It is unique in its realm: of several ApiClients with the
	// same one the oldest wins, and the others aren't Accepted (ClientIdConflict). It is
	// immutable, and can't be added or removed later.
	//
	// Left out, the client id is "<namespace>.<name>" of this object. No clientId can be
	// equal to that, for it holds no dot, and no other object can have it, for a
	// namespace holds none either. It is as long as the two names are, at most 317
	// characters, and like every clientId it needs no encoding in a URL or form.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z0-9_-]+$')`,message="spec.clientId must be 1 to 64 letters, digits, underscores and hyphens"
	// +optional
	ClientID string `json:"clientId,omitempty"`

	// description says for people what the client is for, at most 256 characters. It has
	// no effect on tokens. Left out, there is none.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Description string `json:"description,omitempty"`

	// scopes are the scopes that the client may ask for, at most 256 of at most 128
	// characters each, and all that it gets when it asks for none. Each one must be a
	// scope of the realm; a client with another isn't Accepted (ScopeNotInRealm).
	// Left out or empty, the client has no scopes.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r'^[!#-\[\]-~]+$')`,message="spec.scopes must hold scope tokens of RFC 6749 section 3.3: printable ASCII characters without space, double quote and backslash"
	// +listType=set
	// +optional
	Scopes []string `json:"scopes,omitempty"`

	// audiences are the values that the aud claim of the client's tokens may have, at
	// most 16 of at most 256 characters each, and all that it gets when it asks for none.
	// Each one must be an audience of the realm; a client with another isn't Accepted
	// (AudienceNotInRealm). Left out or empty, the client has the realm's audiences.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+$")`,message="spec.audiences must hold absolute URIs without a fragment, or names: only characters of RFC 3986, no space and no #"
	// +kubebuilder:validation:items:XValidation:rule=`!self.contains(':') || (self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*:.') && isURL(self))`,message="spec.audiences must hold absolute URIs or names: a value with a colon must be an absolute URI"
	// +listType=set
	// +optional
	Audiences []string `json:"audiences,omitempty"`

	// tokenLifetime is how long an access token of this client is valid, as a duration
	// from 10s to 24h in hours, minutes and whole seconds, such as "5m" or "1h30m". It
	// may not exceed the realm's; a client that does isn't Accepted
	// (LifetimeExceedsRealm). A change holds for tokens issued from then on.
	// Left out, the realm's lifetime holds, and follows it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([0-9]{1,5}[hms]){1,3}$')`,message="spec.tokenLifetime must be a duration in hours, minutes and whole seconds, such as 5m or 1h30m"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'^([0-9]{1,5}[hms]){1,3}$') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))`,message="spec.tokenLifetime must be between 10s and 24h"
	// +optional
	TokenLifetime *metav1.Duration `json:"tokenLifetime,omitempty"`

	// limits bound what the client may do, beside the limits of its realm: of two that differ
	// the lower one holds. Left out, the realm's alone hold.
	// +optional
	Limits Limits `json:"limits,omitzero"`

	// suspend stops the client while it is true: it gets no token, and introspection and
	// verify refuse those that it has. Nothing is lost; with false it goes on with the same secret. Left out, false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// The date-time of the API server lets pass what Go can't read ("t" and "z" in lower
	// case, an offset of 99:99), and one object that can't be read stops an informer for
	// all: hence the pattern.

	// expiresAt stops the client as suspend does, from this instant on, as an RFC 3339
	// time between the years 1000 and 2999, such as "2031-12-31T23:59:59Z". A later instant revives it. Left out, the
	// client doesn't expire.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// tokensValidAfter revokes tokens: introspection and verify refuse those of the client
	// that were issued before this instant, an RFC 3339 time between the years 1000 and
	// 2999, such as "2026-03-01T12:00:00Z". A token counts as issued at the start of its
	// second. In the future the instant refuses every token until it has passed. Verifiers that know
	// nothing but the public keys don't learn of it: for them a token ends with its
	// lifetime. Left out, no token is refused for its age.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +optional
	TokensValidAfter *metav1.Time `json:"tokensValidAfter,omitempty"`

	// secret says where the client secret comes from: the operator makes one, someone
	// provides it in a Secret, or here are hashes. It may change; a secret that came from
	// elsewhere before stays valid for the overlap, if there is one. Left out, the operator
	// makes one, as with "generated: {}"; but a client with publicKeys or serviceAccounts
	// then has no client secret at all, and one that it had before ends at once.
	// +optional
	Secret *ClientSecretSource `json:"secret,omitempty"`

	// publicKeys are the keys, at most 4, with which the client signs assertions instead of
	// sending a secret (private_key_jwt: RFC 7523, and OpenID Connect Core 1.0, section 9).
	// Each is valid as long as it stands here; with two, the workloads can change from one
	// to the other. A client with a key that isn't supported isn't Accepted
	// (PublicKeyNotSupported). Left out, the client can't authenticate this way.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=kid
	// +optional
	PublicKeys []PublicKey `json:"publicKeys,omitempty"`

	// serviceAccounts are service accounts of this namespace, at most 8, that may act as the
	// client: a pod presents its projected token, whose audience is the realm's issuer, as
	// client assertion. One that doesn't exist is waited for; a client that can
	// authenticate in no other way isn't Accepted meanwhile (ServiceAccountNotFound). One
	// that is deleted and made again is another, and old tokens don't revive.
	// Left out, no service account may.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	ServiceAccounts []ServiceAccountReference `json:"serviceAccounts,omitempty"`
}

// RealmReference names a Realm.
type RealmReference struct {
	// name is the name of the Realm. It is immutable: a client of another realm is
	// another client.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="spec.realmRef.name must be the name of a Realm: at most 63 lower-case letters, digits and inner hyphens"
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf`,message="spec.realmRef.name is immutable"
	// +required
	Name string `json:"name,omitempty"`
}

// ClientSecretSource says where a client secret comes from. Exactly one member is set.
//
// +union
// +kubebuilder:validation:XValidation:rule=`[has(self.generated), has(self.provided), has(self.hashed)].exists_one(member, member)`,message="spec.secret must hold exactly one of: generated, provided, hashed"
type ClientSecretSource struct {
	// generated lets the operator make a secret of 256 random bits and keep it in a
	// Secret of the client's namespace, for workloads to mount.
	// +optional
	Generated *GeneratedSecret `json:"generated,omitempty"`

	// provided takes a secret that someone keeps in a Secret of the client's namespace.
	// +optional
	Provided *ProvidedSecret `json:"provided,omitempty"`

	// hashed are the hashes of one or two secrets, of which the cluster never sees the
	// plain text. Each is valid as long as it stands here; with two, the workloads can
	// change from one to the other.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +listType=map
	// +listMapKey=id
	// +optional
	Hashed []HashedSecret `json:"hashed,omitempty"`
}

// ApiClientStatus is what an ApiClient is now.
type ApiClientStatus struct {
	// conditions tell the state of the client: Accepted, Programmed and Ready always,
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

	// clientId is the client identifier with which the client asks for tokens.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	ClientID string `json:"clientId,omitempty"`

	// tokenEndpoint is the URL where the client gets tokens (RFC 6749, section 3.2).
	// +kubebuilder:validation:MaxLength=512
	// +optional
	TokenEndpoint string `json:"tokenEndpoint,omitempty"`

	// secretName is the name of the consumer Secret, once it has been written. Left out
	// where no client secret is generated.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// secrets are the client secrets that are valid now, without their values.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=id
	// +optional
	Secrets []ClientSecretStatus `json:"secrets,omitempty"`

	// lastRotationTime is when the last secret was made that replaced another in a
	// rotation. Left out, there was no rotation yet.
	// +optional
	LastRotationTime *metav1.Time `json:"lastRotationTime,omitempty"`

	// nextRotationTime is when the next rotation begins. Left out, none is planned, or one
	// is under way.
	// +optional
	NextRotationTime *metav1.Time `json:"nextRotationTime,omitempty"`
}

// ClientSecretStatus is a valid client secret of an ApiClient.
type ClientSecretStatus struct {
	// id names the secret in audit lines. It tells nothing about its value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id,omitempty"`

	// createdAt is when the secret was made.
	// +required
	CreatedAt metav1.Time `json:"createdAt,omitzero"`

	// expiresAt is from when on the secret is refused. Left out, it has no end.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}
