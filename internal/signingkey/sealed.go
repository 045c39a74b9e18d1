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

// Seal returns the key with the encrypted private part instead of the one in plaintext.
func (k *Key) Seal(sealed Sealed) Key {
	result := *k
	result.private, result.sealed = nil, &sealed
	return result
}

// PrivateJWK returns the private part in plaintext, as a JWK, to be encrypted.
//
// The error is ErrSealed if it is already encrypted or dropped.
func (k *Key) PrivateJWK() ([]byte, error) {
	if k.private == nil {
		return nil, ErrSealed
	}
	data, err := json.Marshal(jose.JSONWebKey{Key: k.private, KeyID: k.ID, Algorithm: string(k.Algorithm), Use: "sig"})
	if err != nil {
		return nil, fmt.Errorf("encoding key %q: %w", k.ID, err)
	}
	return data, nil
}

// Open returns the key with its private part in plaintext, from the result of PrivateJWK.
//
// The error is ErrKey if privateJWK isn't the private part of this key. It never contains values
// from privateJWK.
func (k *Key) Open(privateJWK []byte) (Key, error) {
	private, err := parsePrivate(privateJWK)
	if err != nil {
		return Key{}, err
	}
	id, err := thumbprint(private.Public())
	if err != nil {
		return Key{}, err
	}
	if id != k.ID || !k.Algorithm.matches(private.Public()) {
		return Key{}, fmt.Errorf("%w: the decrypted private key does not belong to key %q", ErrKey, k.ID)
	}
	result := *k
	result.private, result.sealed = private, nil
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

// parseSealed parses the JWK of a sealed key, which must be public, and checks that the sealed part
// is complete.
func parseSealed(data []byte, sealed *Sealed) (jose.JSONWebKey, error) {
	jwk, err := parseJWK(data, "sig")
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	if sealed.RealmUID == "" || sealed.KeyID == "" || len(sealed.EncryptedDataKey) == 0 || len(sealed.Ciphertext) == 0 {
		return jose.JSONWebKey{}, fmt.Errorf("%w: its sealed part is incomplete", ErrKey)
	}
	return jwk, nil
}
