package signingkey

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// ErrSealed means that a key can't sign, because its private part is encrypted or dropped.
var ErrSealed = errors.New("the private part of the key is encrypted or dropped")

// Sealed is the encrypted private part of a key. Package keyencryption encrypts and decrypts it.
type Sealed struct {
	// RealmUID is the UID of the realm for which the private part was encrypted. It is authenticated
	// additional data. If the realm was restored from a backup, it now has another UID.
	RealmUID string `json:"realmUID"`
	// KeyID identifies the key of the KMS that encrypted the data key.
	KeyID string `json:"keyID"`
	// EncryptedDataKey is the data key, encrypted by the KMS.
	EncryptedDataKey []byte `json:"encryptedDataKey"`
	// Annotations are what the KMS plugin needs in addition to decrypt the data key.
	Annotations map[string][]byte `json:"annotations,omitempty"`
	// Ciphertext is the private part, encrypted with the data key.
	Ciphertext []byte `json:"ciphertext"`
}

// Equal reports whether both have the same content.
func (s *Sealed) Equal(other *Sealed) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.RealmUID == other.RealmUID && s.KeyID == other.KeyID &&
		slices.Equal(s.EncryptedDataKey, other.EncryptedDataKey) && slices.Equal(s.Ciphertext, other.Ciphertext) &&
		maps.EqualFunc(s.Annotations, other.Annotations, slices.Equal)
}

// Sealed returns the encrypted private part of the key, or nil if there is none. The caller must not modify it.
func (k *Key) Sealed() *Sealed { return k.sealed }

// complete reports whether nothing is missing that decryption needs.
func (s *Sealed) complete() bool {
	return s.RealmUID != "" && s.KeyID != "" && len(s.EncryptedDataKey) > 0 && len(s.Ciphertext) > 0
}

// Seal returns the key with the encrypted private part instead of the one in plaintext.
func (k *Key) Seal(sealed Sealed) Key {
	result := *k
	result.token.private, result.list.private, result.sealed = nil, nil, &sealed
	return result
}

// PrivateJWKS returns the private part in plaintext, to be encrypted. It is a JWK Set with the key for tokens,
// followed by the one for status lists if there is one.
//
// The error is ErrSealed if it is already encrypted or dropped.
func (k *Key) PrivateJWKS() ([]byte, error) {
	if !k.InPlaintext() {
		return nil, ErrSealed
	}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k.token.jwk(k.Algorithm)}}
	if k.list.private != nil {
		set.Keys = append(set.Keys, k.list.jwk(k.Algorithm))
	}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encoding key %q: %w", k.ID, err)
	}
	return data, nil
}

// Open returns the key with its private part in plaintext, from the result of PrivateJWKS. Versions that had no
// keys for lists sealed a JWK instead of a set.
//
// The error is ErrKey if privateJWKS isn't the private part of this key. It never contains values
// from privateJWKS.
func (k *Key) Open(privateJWKS []byte) (Key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(privateJWKS, &set) != nil {
		// Don't wrap the decoder's error, because it may quote key material.
		return Key{}, fmt.Errorf("%w: the decrypted private key is not a JWK Set", ErrKey)
	}
	if set.Keys == nil && k.list.public == nil {
		set.Keys = []json.RawMessage{privateJWKS}
	}
	result := *k
	result.sealed = nil
	sealed := []*pair{&result.token}
	if k.list.public != nil {
		sealed = append(sealed, &result.list)
	}
	if len(set.Keys) != len(sealed) {
		return Key{}, fmt.Errorf("%w: the decrypted JWK Set of key %q has %d keys instead of %d", ErrKey, k.ID, len(set.Keys), len(sealed))
	}
	for i, jwk := range set.Keys {
		opened, err := readPair(jwk, k.Algorithm, false)
		if err != nil {
			return Key{}, err
		}
		if opened.id != sealed[i].id {
			return Key{}, fmt.Errorf("%w: the decrypted private key does not belong to key %q", ErrKey, k.ID)
		}
		*sealed[i] = opened
	}
	return result, nil
}

// parsePrivate parses a JWK that must be a valid private key.
func parsePrivate(data []byte) (crypto.Signer, error) {
	var jwk jose.JSONWebKey
	if json.Unmarshal(data, &jwk) != nil {
		// Don't wrap the decoder's error, because it may quote key material.
		return nil, fmt.Errorf("%w: it is not a JWK", ErrKey)
	}
	private, ok := jwk.Key.(crypto.Signer)
	if !ok || !jwk.Valid() {
		return nil, fmt.Errorf("%w: it is not a valid private key", ErrKey)
	}
	if !consistent(private) {
		return nil, fmt.Errorf("%w: its private and public members belong to different keys", ErrKey)
	}
	return private, nil
}
