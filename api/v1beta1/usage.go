package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CredentialUse describes a credential of an ApiClient and when it was last used.
//
// +kubebuilder:object:generate=false
type CredentialUse struct {
	Type CredentialType
	// ID is unique among the credentials of the same type.
	ID string
	// Name describes the credential to people. It is the ID, except for a federated identity.
	Name string
	// CreationTime is the creation time of a secret. Other credentials have no creation time of their
	// own and have that of the ApiClient.
	CreationTime time.Time
	// LastUsed is when a client last authenticated with the credential, truncated to the resolution
	// of the instance configuration. Zero if it has never been used.
	LastUsed time.Time
	// ExpirationTime is when the credential expires. Zero if it doesn't expire.
	ExpirationTime time.Time
}

// UnusedSince returns the last use of the credential, or its creation if it has never been used.
func (u CredentialUse) UnusedSince() time.Time {
	if u.LastUsed.Before(u.CreationTime) {
		return u.CreationTime
	}
	return u.LastUsed
}

// CredentialUses returns the credentials of c with their last use: the client secrets that the
// status lists, oldest first, and then the public keys, service accounts, and federated identities
// that the spec lists. A federated identity of this cluster counts as a service account.
func (c *ApiClient) CredentialUses() []CredentialUse {
	created := c.CreationTimestamp.Time
	used := make(map[CredentialStatus]time.Time, len(c.Status.Credentials))
	for _, s := range c.Status.Credentials {
		used[CredentialStatus{Type: s.Type, ID: s.ID}] = s.LastUsedTime.Time
	}
	var uses []CredentialUse
	for _, s := range c.Status.Secrets {
		uses = append(uses, CredentialUse{
			Type: CredentialTypeSecret, ID: s.ID, Name: s.ID,
			CreationTime: s.CreationTime.Time, LastUsed: timeOf(s.LastUsedTime), ExpirationTime: timeOf(s.ExpirationTime),
		})
	}
	add := func(kind CredentialType, id, name string) {
		uses = append(uses, CredentialUse{
			Type: kind, ID: id, Name: name, CreationTime: created, LastUsed: used[CredentialStatus{Type: kind, ID: id}],
		})
	}
	for _, k := range c.Spec.PublicKeys {
		add(CredentialTypePublicKey, k.KeyID, k.KeyID)
	}
	for _, a := range c.Spec.ServiceAccounts {
		add(CredentialTypeServiceAccount, a.Name, a.Name)
	}
	for _, f := range c.Spec.FederatedIdentities {
		if f.Issuer == IssuerKubernetes {
			name := f.Subject[strings.LastIndexByte(f.Subject, ':')+1:]
			if !slices.ContainsFunc(c.Spec.ServiceAccounts, func(a ServiceAccountReference) bool { return a.Name == name }) {
				add(CredentialTypeServiceAccount, name, name)
			}
			continue
		}
		add(CredentialTypeFederatedIdentity, f.ID(), f.describe())
	}
	return uses
}

// ID identifies the identity among those of an ApiClient: the name of the issuer, a hyphen, and the
// first 12 hexadecimal digits of a hash of the whole identity.
func (f FederatedIdentity) ID() string {
	encoded, err := json.Marshal(f) // members and keys of maps have a fixed order
	if err != nil {
		panic(err) // strings and maps of strings can always be encoded
	}
	sum := sha256.Sum256(encoded)
	return f.Issuer + "-" + hex.EncodeToString(sum[:6])
}

// describe returns the issuer and what a token of it must have.
func (f FederatedIdentity) describe() string {
	if f.Subject != "" {
		return f.Issuer + " " + f.Subject
	}
	var claims []string
	for _, name := range slices.Sorted(maps.Keys(f.Claims)) {
		claims = append(claims, name+"="+string(f.Claims[name]))
	}
	return f.Issuer + " " + strings.Join(claims, " ")
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
