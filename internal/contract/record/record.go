// Package record defines the records that the operator writes and the token servers read.
//
// A record is a Secret in the records namespace. It contains data of one Realm or ApiClient that
// token servers need, as JSON with a schema version.
//
// The name of a Realm's record contains the UID of the Realm, so that a recreated Realm never uses
// the record of the deleted one. The name of an ApiClient's record is derived from the UID of the
// Realm and the client ID. Because names are unique, the API server ensures that only one ApiClient
// holds a client ID, even if two operators run at the same time. The same is true for the subjects
// of tokens of trusted issuers and the cluster, and for the indexes in status lists, because the holder
// of one has a separate record for it.
package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// DataKey is the data key of the JSON in a record Secret.
const DataKey = "record.json"

// SchemaVersion is the version of the JSON that this package writes and reads. Members can be added
// without a new version, because readers ignore unknown members. One that restricts access belongs to
// Restrictions. A new version is needed only for a member that an older reader would misread. It can be
// written one minor release after it can be read, because token servers of both releases run at the same
// time.
const SchemaVersion = 1

// ErrUnreadable is returned for a record Secret without a valid record.
var ErrUnreadable = errors.New("unreadable record")

// Kind is the kind of a record. It is the value of the label v1beta1.RecordLabel.
type Kind string

// Kinds of records.
const (
	KindRealm   Kind = v1beta1.RecordRealm
	KindClient  Kind = v1beta1.RecordClient
	KindSubject Kind = v1beta1.RecordSubject
	KindIndex   Kind = v1beta1.RecordIndex
)

// Labels returns the labels of a record of a kind.
func Labels(kind Kind) map[string]string {
	return map[string]string{v1beta1.RecordLabel: string(kind), v1beta1.ManagedByLabel: v1beta1.ManagedBy}
}

// Selector selects records of all kinds, and the beacon. The operator and the token servers read the same
// Secrets, so that none has an effect that the operator doesn't see.
func Selector() labels.Selector {
	managed := labels.SelectorFromSet(labels.Set{v1beta1.ManagedByLabel: v1beta1.ManagedBy})
	record, err := labels.NewRequirement(v1beta1.RecordLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // The label is a constant.
	}
	return managed.Add(*record)
}

// Realm is the record of a Realm.
type Realm struct {
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
	// ClusterIssuerURL is the URL by which Pods of the cluster reach the realm. Its tokens and
	// metadata always state Issuer.
	ClusterIssuerURL string `json:"clusterURL,omitempty"`
	// Disabled means that no tokens are issued and existing tokens are rejected.
	Disabled bool `json:"disabled,omitempty"`
	// Restrictions apply to all clients of the realm.
	Restrictions Restrictions `json:"restrictions,omitempty"`
	// TokensValidAfter rejects tokens that were issued before this time. Zero accepts all tokens.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// TokenLifetimeSeconds is the lifetime of a token, at least 1.
	TokenLifetimeSeconds int64 `json:"tokenLifetimeSeconds"`
	// Scopes are the scopes in the realm's metadata.
	Scopes []string `json:"scopes,omitempty"`
	// Audiences are the audiences that clients of the realm can request.
	Audiences []string `json:"audiences,omitempty"`
	// Issuers are the trusted issuers, with different names. They differ in the URL or in the audience.
	Issuers []Issuer `json:"issuers,omitempty"`
	// Exchanges are the rules for tokens that act for another subject. The first one that allows an
	// exchange applies.
	Exchanges []Exchange `json:"exchanges,omitempty"`
	// TokensPerSecond limits how many tokens per second each client can get. Zero means no limit.
	TokensPerSecond int32 `json:"tokensPerSecond,omitempty"`
	// KeyCacheSeconds is the time for which verifiers may cache the public keys. It is shorter than
	// the time between the publication of a key and its first use.
	KeyCacheSeconds int64 `json:"keyCacheSeconds"`
	// Keys are the signing keys with their private parts. At most one is Active. None is before the first
	// key signs.
	Keys []signingkey.Key `json:"keys"`
	// StatusLists are the realm's status lists; nil if there are none.
	StatusLists *StatusLists `json:"statusLists,omitempty"`
	// Basis says which version of the Realm the record implements.
	Basis Basis `json:"basis,omitzero"`
	// Restored is set if the realm was restored from a backup. Token servers ignore it.
	Restored *Restored `json:"restored,omitempty"`
}

// Client is the record of an ApiClient.
type Client struct {
	// UID, Namespace, and Name identify the ApiClient, which holds the client ID.
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// RealmUID and ClientID determine the name of the record; see ClientRecordName. RealmName is
	// the name of the realm.
	RealmUID  types.UID `json:"realmUID"`
	RealmName string    `json:"realmName"`
	ClientID  string    `json:"clientID"`
	// Identity is the client's identity in tokens: the UID of the ApiClient, or the identity that the client
	// had in a backup from which it was restored. A token with another identity, except the UID, is not a
	// token of this client, even if it has the same client ID.
	Identity types.UID `json:"identity"`
	// Disabled means that no tokens are issued and existing tokens are rejected.
	Disabled bool `json:"disabled,omitempty"`
	// Restrictions apply to the client.
	Restrictions Restrictions `json:"restrictions,omitempty"`
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
	// Scopes are the scopes that the client can request.
	Scopes []string `json:"scopes,omitempty"`
	// DelegatedScopes are scopes that the client can have only in tokens that act for another subject.
	DelegatedScopes []string `json:"delegatedScopes,omitempty"`
	// NamespaceSelectors are the digests of the selectors in exchanges of the realm that the labels of
	// the client's namespace match, sorted; see ClientSelector.Labels.
	NamespaceSelectors []string `json:"namespaceSelectors,omitempty"`
	// Audiences are the audiences that the client can request. There is at least one.
	Audiences []string `json:"audiences"`
	// IntrospectionAudiences are the audiences whose tokens the client can introspect in addition
	// to its own tokens.
	IntrospectionAudiences []string `json:"introspectionAudiences,omitempty"`
	// Secrets are the client's secrets without their plaintext.
	Secrets []ClientSecret `json:"secrets"`
	// SecretSerial is the serial of the latest generated secret that Secrets has contained. Token servers
	// ignore it.
	SecretSerial int64 `json:"secretSerial,omitempty"`
	// PublicKeys verify the client's assertions.
	PublicKeys []signingkey.PublicKey `json:"publicKeys,omitempty"`
	// Identities are the service accounts and the tokens of trusted issuers that authenticate the client.
	Identities []Identity `json:"identities,omitempty"`
	// DPoP means that every token is bound to a key of the client (RFC 9449).
	DPoP bool `json:"dpop,omitempty"`
	// Claims are added to every token, sorted by name.
	Claims []Claim `json:"claims,omitempty"`
	// StatusIndex is the index in the realm's status lists to which the client's tokens refer; nil if they
	// refer to none.
	StatusIndex *StatusIndex `json:"statusIndex,omitempty"`
	// IndexSerial is the serial of the latest index that StatusIndex has contained. An index with this or
	// an earlier serial that is not StatusIndex never becomes StatusIndex again. Token servers ignore it.
	IndexSerial int64 `json:"indexSerial,omitempty"`
	// Basis says which versions of the ApiClient, the Realm, and the Namespace the record implements.
	Basis Basis `json:"basis,omitzero"`
	// Restored is set if the client was restored from a backup. Its secrets are accepted in addition
	// to Secrets.
	Restored *Restored `json:"restored,omitempty"`
}

// MaxRestoredSecrets limits the secrets that a client gets from a backup, because a token server may
// verify all of them in a request. A client has at most 8 secrets in its spec, or 2 others.
const MaxRestoredSecrets = 16

// Restored says from which backup a Realm or ApiClient was restored.
type Restored struct {
	// BackupTime is the time of the backup. At is the time of the restore.
	BackupTime time.Time `json:"backupTime"`
	At         time.Time `json:"at"`
	// TokensValidAfter is the value in the backup. It applies in addition to that in the spec.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// Secrets are the secrets of the backup that a client accepts. A secret that has expired never returns.
	// There are at most MaxRestoredSecrets.
	Secrets []ClientSecret `json:"secrets,omitempty"`
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
	// Role is what the secret is for. Token servers ignore it: they accept every secret that hasn't expired.
	Role SecretRole `json:"role,omitempty"`
	// Source identifies the origin of a secret, so that the operator recognizes one that it has already
	// hashed. It is empty for a generated secret. Token servers ignore it.
	Source string `json:"source,omitempty"`
	// Successor means that the secret replaced another one. Status reports this rotation even
	// after the old secret is removed. Token servers ignore it.
	Successor bool `json:"successor,omitempty"`
	// ReplacedAt is the time from which on workloads had a newer secret, rounded up to a second. Zero means
	// that the secret has not been replaced. Token servers ignore it.
	ReplacedAt time.Time `json:"replacedAt,omitzero"`
}

// SecretRole is what a recorded client secret is for.
type SecretRole string

// Roles of client secrets.
const (
	// RoleCurrent is the secret that the credentials Secret contains for workloads, or one that was
	// provided or listed in the spec.
	RoleCurrent SecretRole = "current"
	// RoleNext is a generated secret that replaces the current one when every live token server has it.
	RoleNext SecretRole = "next"
	// RoleRetiring is a secret that was replaced and expires.
	RoleRetiring SecretRole = "retiring"
	// RoleRestored is a secret of a backup that is accepted in addition to the others.
	RoleRestored SecretRole = "restored"
)

// RealmRecordName returns the name of the record Secret of a Realm.
func RealmRecordName(realm types.UID) string {
	return string(KindRealm) + "-" + string(realm)
}

// ClientRecordName returns the name of the record Secret of the ApiClient that holds a client ID in
// a realm. It contains a hash because client IDs can have characters and lengths that names can't.
func ClientRecordName(realm types.UID, clientID string) string {
	sum := sha256.Sum256([]byte(string(realm) + "/" + clientID))
	return string(KindClient) + "-" + hex.EncodeToString(sum[:])
}

// SubjectRecordName returns the name of the record Secret of the ApiClient that holds a subject of an
// issuer in a realm. The issuer is identified by its name in the Realm, which contains no slash, and by
// its URL. The length of the URL separates it from the subject, because both can contain any character.
func SubjectRecordName(realm types.UID, issuerName, issuer, subject string) string {
	key := binary.BigEndian.AppendUint64([]byte(string(realm)+"/"+issuerName+"/"), uint64(len(issuer)))
	sum := sha256.Sum256(append(append(key, issuer...), subject...))
	return string(KindSubject) + "-" + hex.EncodeToString(sum[:])
}

// RealmUID returns the UID of the Realm that owns a record Secret.
func RealmUID(secret *corev1.Secret) types.UID {
	return types.UID(strings.TrimPrefix(secret.Name, string(KindRealm)+"-"))
}

// KindOf returns the kind of a record Secret, or an empty string if the Secret is not a record. It
// uses only the name, because a record that lost its label is still a record.
func KindOf(secret *corev1.Secret) Kind {
	kind, key, _ := strings.Cut(secret.Name, "-")
	if key == "" {
		return ""
	}
	switch Kind(kind) {
	case KindRealm, KindClient, KindSubject, KindIndex:
		return Kind(kind)
	}
	return ""
}

// OwnerName returns the namespace and name of a record's owner. The namespace is empty for a Realm.
func OwnerName(secret *corev1.Secret) types.NamespacedName {
	namespace, name, found := strings.Cut(secret.Annotations[v1beta1.OwnerAnnotation], "/")
	if !found {
		return types.NamespacedName{Name: namespace}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
