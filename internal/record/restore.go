package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// MaxRestoredSecrets limits the secrets that a client gets from a backup, because a token server may
// verify all of them in a request. A client has at most 8 secrets in its spec, or 2 others.
const MaxRestoredSecrets = 16

// ErrRestore is returned for a restore record that the operator would not accept.
var ErrRestore = errors.New("invalid restore record")

// Restore is a restore record: what a backup contains about one Realm or ApiClient. The command
// "kubectl realmkeeper restore" writes it, and the operator adopts it. Exactly one of Realm and Client
// is set. Token servers ignore restore records.
//
// The operator deletes the record of a Realm after the realm has its keys. The record of an ApiClient
// exists as long as the client's restored secrets are accepted. Deleting it ends them.
type Restore struct {
	// BackupTime is the time of the backup.
	BackupTime time.Time `json:"backupTime"`
	// Realm is set if the record restores a Realm, and Client if it restores an ApiClient.
	Realm  *RestoredRealm  `json:"realm,omitempty"`
	Client *RestoredClient `json:"client,omitempty"`
}

// RestoredRealm is what a backup contains about a Realm.
type RestoredRealm struct {
	Name             string    `json:"name"`
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// Keys are the signing keys. Exactly one is Active.
	Keys []signingkey.Key `json:"keys"`
}

// RestoredClient is what a backup contains about an ApiClient. It applies only to an ApiClient with
// this realm, client ID, namespace, and name.
type RestoredClient struct {
	RealmName string `json:"realmName"`
	ClientID  string `json:"clientID"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Identity is the client's identity in tokens.
	Identity         types.UID `json:"identity"`
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// Secrets are the secrets that token servers accepted, as in the client's record. There are at
	// most MaxRestoredSecrets.
	Secrets []ClientSecret `json:"secrets,omitempty"`
}

// Restoration describes the backup from which a Realm or ApiClient was restored.
type Restoration struct {
	// From is the UID of the restore record. A restore record is adopted only once.
	From types.UID `json:"from"`
	// BackupTime is the time of the backup. At is the time at which the restore record was adopted.
	BackupTime time.Time `json:"backupTime"`
	At         time.Time `json:"at"`
	// TokensValidAfter is the value in the backup. It applies in addition to that in the spec.
	TokensValidAfter time.Time `json:"tokensValidAfter,omitzero"`
	// Secrets are the restored secrets of a client that are accepted. A secret that ends never
	// returns.
	Secrets []ClientSecret `json:"secrets,omitempty"`
	// OmittedKeys are the IDs of the restored keys for which a realm had no room.
	OmittedKeys []string `json:"omittedKeys,omitempty"`
}

// RestoreRealm returns the restore record for a backup of a Realm with the given record.
func RestoreRealm(r Realm, backupTime time.Time) Restore {
	return Restore{BackupTime: backupTime, Realm: &RestoredRealm{Name: r.Name, TokensValidAfter: r.TokensValidAfter, Keys: r.Keys}}
}

// RestoreClient returns the restore record for a backup of an ApiClient with the given record.
func RestoreClient(c Client, backupTime time.Time) Restore {
	restored, _ := RestorableSecrets(c, backupTime)
	return Restore{BackupTime: backupTime, Client: &RestoredClient{
		RealmName: c.RealmName, ClientID: c.ClientID, Namespace: c.Namespace, Name: c.Name,
		Identity: c.Identity, TokensValidAfter: c.TokensValidAfter, Secrets: restored,
	}}
}

// RestorableSecrets returns the secrets of a backup of an ApiClient with the given record: those that
// were valid, up to MaxRestoredSecrets. If there are more, it omits the oldest of those that came from
// an earlier backup.
func RestorableSecrets(c Client, backupTime time.Time) (restored, omitted []ClientSecret) {
	restored = slices.Clone(c.Secrets)
	if c.Restored != nil {
		earlier := slices.Clone(c.Restored.Secrets)
		slices.SortStableFunc(earlier, func(a, b ClientSecret) int { return b.CreatedAt.Compare(a.CreatedAt) })
		restored = append(restored, earlier...)
	}
	restored = slices.DeleteFunc(restored, func(s ClientSecret) bool { return !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(backupTime) })
	most := min(len(restored), MaxRestoredSecrets)
	return restored[:most:most], restored[most:]
}

// RealmRestoreName returns the name of the restore record of a Realm.
func RealmRestoreName(realm string) string { return restoreName(KindRealm, realm, "") }

// ClientRestoreName returns the name of the restore record of the client with a client ID in a realm.
func ClientRestoreName(realm, clientID string) string {
	return restoreName(KindClient, realm, clientID)
}

func restoreName(kind Kind, realm, clientID string) string {
	sum := sha256.Sum256([]byte(string(kind) + "/" + realm + "/" + clientID))
	return string(KindRestore) + "-" + hex.EncodeToString(sum[:])
}

// owner returns the name of the object that the record restores, as in v1alpha1.OwnerAnnotation.
func (r *Restore) owner() string {
	if r.Client != nil {
		return r.Client.Namespace + "/" + r.Client.Name
	}
	return r.Realm.Name
}

// SecretName returns the name of the restore record.
func (r *Restore) SecretName() string {
	if r.Client != nil {
		return ClientRestoreName(r.Client.RealmName, r.Client.ClientID)
	}
	if r.Realm != nil {
		return RealmRestoreName(r.Realm.Name)
	}
	return ""
}

// ForRestore returns the Secret of a restore record. The caller must create it; a restore record is
// never changed. The error wraps ErrRestore.
func ForRestore(namespace string, body Restore) (*corev1ac.SecretApplyConfiguration, error) {
	if err := body.check(); err != nil {
		return nil, err
	}
	secret, err := newSecret(namespace, KindRestore, body.owner(), body.SecretName(), body)
	if err != nil {
		return nil, err
	}
	return secret.WithImmutable(true), nil
}

// ReadRestore returns the restore record in secret. The error wraps ErrUnreadable and never contains
// record data.
func ReadRestore(secret *corev1.Secret) (Restore, error) {
	body, err := read[Restore](secret, KindRestore)
	if err != nil {
		return Restore{}, err
	}
	if err := body.check(); err != nil {
		return Restore{}, fmt.Errorf("%w: Secret %s/%s: %w", ErrUnreadable, secret.Namespace, secret.Name, err)
	}
	if secret.Name != body.SecretName() {
		return Restore{}, unreadable(secret, "its name does not match the realm and client ID")
	}
	return body, nil
}

// AdoptedBy returns the value of v1alpha1.AdoptedByAnnotation for a Realm, or for an ApiClient if
// client is not empty.
func AdoptedBy(realm, client types.UID) string {
	if client == "" {
		return string(realm)
	}
	return string(realm) + "/" + string(client)
}

// Adopter returns the object that has adopted a restore record, as returned by AdoptedBy; empty if
// there is none.
func Adopter(secret *corev1.Secret) string { return secret.Annotations[v1alpha1.AdoptedByAnnotation] }

// DeleteCommand returns the command that deletes a restore record.
func DeleteCommand(secret *corev1.Secret) string {
	return "kubectl delete secret " + secret.Name + " -n " + secret.Namespace
}

func (r *Restore) check() error {
	switch {
	case (r.Realm == nil) == (r.Client == nil):
		return fmt.Errorf("%w: it must contain either a realm or a client", ErrRestore)
	case r.BackupTime.IsZero():
		return fmt.Errorf("%w: backupTime is missing", ErrRestore)
	case r.Realm != nil:
		return r.Realm.check()
	}
	return r.Client.check()
}

func (r *RestoredRealm) check() error {
	active := 0
	for i := range r.Keys {
		if r.Keys[i].State == signingkey.Active {
			active++
		}
	}
	switch {
	case r.Name == "":
		return fmt.Errorf("%w: the name of the realm is missing", ErrRestore)
	case active != 1:
		return fmt.Errorf("%w: exactly one signing key must be active", ErrRestore)
	case len(r.Keys) > signingkey.MaxKeys:
		return fmt.Errorf("%w: it has %d signing keys, more than %d", ErrRestore, len(r.Keys), signingkey.MaxKeys)
	}
	return nil
}

func (c *RestoredClient) check() error {
	switch {
	case c.RealmName == "" || c.ClientID == "" || c.Namespace == "" || c.Name == "" || c.Identity == "":
		return fmt.Errorf("%w: realmName, clientID, namespace, name, or identity is missing", ErrRestore)
	case len(c.Secrets) > MaxRestoredSecrets:
		return fmt.Errorf("%w: it has %d secrets, more than %d", ErrRestore, len(c.Secrets), MaxRestoredSecrets)
	}
	for _, s := range c.Secrets {
		if _, err := clientsecret.ParseVerifier(s.Hash); err != nil {
			return fmt.Errorf("%w: secret %q: %w", ErrRestore, s.ID, err)
		}
	}
	return nil
}
