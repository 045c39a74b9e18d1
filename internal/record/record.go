// Package record defines the records that the operator writes and the token servers read.
//
// A record is a Secret in the records namespace. It contains the data of one Realm or ApiClient that
// token servers need, as JSON with a schema version. Its name contains the UID of its owner, so
// that a recreated object never uses the record of the deleted object with the same name.
package record

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// DataKey is the data key of the JSON in a record Secret.
const DataKey = "record.json"

// SchemaVersion is the version of the JSON that this package writes and reads. Members can be added
// without a new version, because readers ignore unknown members.
const SchemaVersion = 1

// ErrUnreadable is returned for a record Secret without a valid record.
var ErrUnreadable = errors.New("unreadable record")

// Kind is the kind of a record's owner. It is the value of the label v1alpha1.RecordLabel.
type Kind string

// Kinds of records.
const (
	KindRealm  Kind = v1alpha1.RecordRealm
	KindClient Kind = v1alpha1.RecordClient
)

// Realm is the record of a Realm.
type Realm struct {
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
	// Disabled means that no tokens are issued and existing tokens are rejected.
	Disabled bool `json:"disabled,omitempty"`
	// TokensValidAfter rejects tokens that were issued before this time. Zero accepts all tokens.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// TokenLifetimeSeconds is the lifetime of a token, at least 1.
	TokenLifetimeSeconds int64 `json:"tokenLifetimeSeconds"`
	// Audiences are the default audiences of a token. If empty, the audience is the issuer.
	Audiences []string `json:"audiences,omitempty"`
	// Scopes are the scopes in the realm's metadata.
	Scopes []string `json:"scopes,omitempty"`
	// TokensPerSecond limits how many tokens per second each client can get. Zero means no limit.
	TokensPerSecond int32 `json:"tokensPerSecond,omitempty"`
	// KeyCacheSeconds is the time for which verifiers may cache the public keys. It is shorter than
	// the time between the publication of a key and its first use.
	KeyCacheSeconds int64 `json:"keyCacheSeconds"`
	// Keys are the signing keys with their private parts. Exactly one is Active.
	Keys []signingkey.Key `json:"keys"`
}

// Client is the record of an ApiClient.
type Client struct {
	// RealmUID is the UID of the realm. It prevents the record from applying to a new realm with
	// the same name.
	RealmUID types.UID `json:"realmUID"`
	ClientID string    `json:"clientID"`
	// CreatedAt is the creation time of the ApiClient, or the time at which it acquired its client
	// ID from another ApiClient.
	CreatedAt time.Time `json:"createdAt"`
	// Disabled means that no tokens are issued and existing tokens are rejected.
	Disabled bool `json:"disabled,omitempty"`
	// ExpiresAt is the time at which the client expires, with the same effect as Disabled. Zero
	// means never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// TokensValidAfter rejects tokens that were issued before this time. Zero accepts all tokens.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// TokenLifetimeSeconds shortens the realm's token lifetime. Zero means the realm's value.
	TokenLifetimeSeconds int64 `json:"tokenLifetimeSeconds,omitempty"`
	// TokensPerSecond limits how many tokens per second the client can get. Zero means the realm's
	// value.
	TokensPerSecond int32 `json:"tokensPerSecond,omitempty"`
	// Scopes are the scopes granted to the client.
	Scopes []string `json:"scopes,omitempty"`
	// Audiences are the audiences granted to the client. If empty, the realm's audiences apply.
	Audiences []string `json:"audiences,omitempty"`
	// Secrets are the client's secrets without their plaintext.
	Secrets []ClientSecret `json:"secrets"`
	// PublicKeys verify the client's assertions.
	PublicKeys []signingkey.PublicKey `json:"publicKeys,omitempty"`
	// ServiceAccounts can authenticate as the client with their tokens.
	ServiceAccounts []ServiceAccount `json:"serviceAccounts,omitempty"`
}

// ServiceAccount is an existing service account. Its UID distinguishes it from a deleted one with
// the same name.
type ServiceAccount struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// ClientSecret is a client secret without its plaintext.
type ClientSecret struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is the time at which the secret expires. Zero means never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Hash is a PHC string that clientsecret.ParseVerifier accepts.
	Hash string `json:"hash"`
	// Source identifies the origin of an active secret, so that the operator recognizes a secret
	// that it has already hashed. It is empty for a generated secret and for a replaced one. Token
	// servers ignore it.
	Source string `json:"source,omitempty"`
	// Successor means that the secret replaced an active secret. Status reports this rotation even
	// after the old secret is removed. Token servers ignore it.
	Successor bool `json:"successor,omitempty"`
}

// SecretName returns the name of the record Secret for an owner.
func SecretName(kind Kind, owner types.UID) string {
	return string(kind) + "-" + string(owner)
}

// OwnerUID returns the UID of a record's owner.
func OwnerUID(secret *corev1.Secret) types.UID {
	_, uid, _ := strings.Cut(secret.Name, "-")
	return types.UID(uid)
}

// KindOf returns the kind of a record Secret, or an empty string if the Secret is not a record. It
// uses only the name, because a record that lost its label is still a record.
func KindOf(secret *corev1.Secret) Kind {
	kind, uid, _ := strings.Cut(secret.Name, "-")
	if uid != "" && (Kind(kind) == KindRealm || Kind(kind) == KindClient) {
		return Kind(kind)
	}
	return ""
}

// OwnerName returns the namespace and name of a record's owner. The namespace is empty for a Realm.
func OwnerName(secret *corev1.Secret) types.NamespacedName {
	namespace, name, found := strings.Cut(secret.Annotations[v1alpha1.OwnerAnnotation], "/")
	if !found {
		return types.NamespacedName{Name: namespace}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
