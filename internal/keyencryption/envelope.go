package keyencryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// dataKeySize selects AES-256.
const dataKeySize = 32

// DataKey encrypts the private part of one key. It is not used twice.
type DataKey struct {
	aead    cipher.AEAD
	wrapped Wrapped
}

// NewDataKey generates a data key and lets the plugin encrypt it. The plugin must also decrypt it to
// the same bytes, because what it can't decrypt later would be lost.
//
// Errors: ErrUnavailable and ErrRejected.
func (e *Encrypter) NewDataKey(ctx context.Context) (*DataKey, error) {
	plaintext := make([]byte, dataKeySize)
	_, _ = rand.Read(plaintext) // it never fails
	w, err := e.wrap(ctx, plaintext)
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(plaintext)
	if err != nil {
		return nil, err
	}
	return &DataKey{aead, w}, nil
}

// Seal returns the key with its private part encrypted for a realm.
//
// The error is signingkey.ErrSealed if it is already encrypted.
func (d *DataKey) Seal(realmUID string, key *signingkey.Key) (signingkey.Key, error) {
	private, err := key.PrivateJWK()
	if err != nil {
		return signingkey.Key{}, err
	}
	nonce := make([]byte, d.aead.NonceSize(), d.aead.NonceSize()+len(private)+d.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return key.Seal(signingkey.Sealed{
		RealmUID:         realmUID,
		KeyID:            d.wrapped.KeyID,
		EncryptedDataKey: d.wrapped.Ciphertext,
		Annotations:      d.wrapped.Annotations,
		Ciphertext:       d.aead.Seal(nonce, nonce, private, authenticated(realmUID, key.ID)),
	}), nil
}

// Seal returns the key with its private part encrypted for a realm.
//
// Errors: those of NewDataKey and DataKey.Seal.
func (e *Encrypter) Seal(ctx context.Context, realmUID string, key *signingkey.Key) (signingkey.Key, error) {
	dataKey, err := e.NewDataKey(ctx)
	if err != nil {
		return signingkey.Key{}, err
	}
	return dataKey.Seal(realmUID, key)
}

// Open returns a sealed key of a realm with its private part in plaintext.
//
// Errors: ErrUnavailable; ErrRejected, also if the key was sealed for another realm or was altered.
func (e *Encrypter) Open(ctx context.Context, realmUID string, key *signingkey.Key) (signingkey.Key, error) {
	if key.Sealed() == nil {
		return *key, nil
	}
	opened, _, err := e.open(ctx, realmUID, key)
	if err != nil {
		return signingkey.Key{}, fmt.Errorf("decrypting key %q: %w", key.ID, err)
	}
	return opened, nil
}

// Rewrap returns a sealed key of a realm whose data key is encrypted with the plugin's current key.
//
// Errors: ErrUnavailable; ErrRejected, also if the key can't be decrypted as it is.
func (e *Encrypter) Rewrap(ctx context.Context, realmUID string, key *signingkey.Key) (signingkey.Key, error) {
	if key.Sealed() == nil {
		return *key, nil
	}
	// Open the private part too. Otherwise, wrong bytes from the plugin would replace the data key.
	_, plaintext, err := e.open(ctx, realmUID, key)
	if err != nil {
		return signingkey.Key{}, fmt.Errorf("decrypting key %q: %w", key.ID, err)
	}
	w, err := e.wrap(ctx, plaintext)
	if err != nil {
		return signingkey.Key{}, fmt.Errorf("encrypting the data key of key %q: %w", key.ID, err)
	}
	sealed := *key.Sealed()
	sealed.KeyID, sealed.EncryptedDataKey, sealed.Annotations = w.KeyID, w.Ciphertext, w.Annotations
	return key.Seal(sealed), nil
}

// open decrypts a sealed key. It also returns the data key in plaintext.
func (e *Encrypter) open(ctx context.Context, realmUID string, key *signingkey.Key) (opened signingkey.Key, dataKey []byte, err error) {
	sealed := key.Sealed()
	plaintext, err := e.plugin.Decrypt(ctx, Wrapped{KeyID: sealed.KeyID, Ciphertext: sealed.EncryptedDataKey, Annotations: sealed.Annotations})
	if err != nil {
		return signingkey.Key{}, nil, err
	}
	if len(plaintext) != dataKeySize {
		return signingkey.Key{}, nil, fmt.Errorf("%w: the data key has %d bytes instead of %d", ErrRejected, len(plaintext), dataKeySize)
	}
	aead, err := newAEAD(plaintext)
	if err != nil {
		return signingkey.Key{}, nil, err
	}
	if len(sealed.Ciphertext) < aead.NonceSize() {
		return signingkey.Key{}, nil, fmt.Errorf("%w: the ciphertext is too short", ErrRejected)
	}
	nonce, ciphertext := sealed.Ciphertext[:aead.NonceSize()], sealed.Ciphertext[aead.NonceSize():]
	private, err := aead.Open(nil, nonce, ciphertext, authenticated(realmUID, key.ID))
	if err != nil {
		return signingkey.Key{}, nil, fmt.Errorf("%w: the encrypted key was altered, or belongs to another realm", ErrRejected)
	}
	opened, err = key.Open(private)
	return opened, plaintext, err
}

// wrap lets the plugin encrypt a data key, and checks that it can decrypt it.
func (e *Encrypter) wrap(ctx context.Context, plaintext []byte) (Wrapped, error) {
	w, err := e.plugin.Encrypt(ctx, plaintext)
	if err != nil {
		return Wrapped{}, err
	}
	decrypted, err := e.plugin.Decrypt(ctx, w)
	if err != nil {
		return Wrapped{}, err
	}
	if !bytes.Equal(plaintext, decrypted) {
		return Wrapped{}, fmt.Errorf("%w: the plaintext after decryption differs from the one that was encrypted", ErrRejected)
	}
	return w, nil
}

// authenticated is the additional data that ties a private part to its realm and key. A UID and a key
// ID contain no NUL.
func authenticated(realmUID, keyID string) []byte {
	return []byte("realmkeeper signing key\x00" + realmUID + "\x00" + keyID)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("preparing a data key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("preparing a data key: %w", err)
	}
	return aead, nil
}
