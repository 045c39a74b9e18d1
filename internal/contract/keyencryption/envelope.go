package keyencryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// dataKeySize selects AES-256.
const dataKeySize = 32

// Seal returns the key with its private part encrypted for a realm, with a new data key. The plugin must
// also decrypt the data key to the same bytes, because what it can't decrypt later would be lost.
//
// Errors: ErrUnavailable, ErrRejected, and signingkey.ErrSealed if the key has no private part in
// plaintext.
func (e *Encrypter) Seal(ctx context.Context, realmUID string, key *signingkey.Key) (signingkey.Key, error) {
	private, err := key.PrivateJWKS()
	if err != nil {
		return signingkey.Key{}, err
	}
	plaintext := make([]byte, dataKeySize)
	_, _ = rand.Read(plaintext) // it never fails
	w, err := e.wrap(ctx, plaintext)
	if err != nil {
		return signingkey.Key{}, err
	}
	aead, err := newAEAD(plaintext)
	if err != nil {
		return signingkey.Key{}, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(private)+aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return key.Seal(signingkey.Sealed{
		RealmUID:         realmUID,
		KeyID:            w.KeyID,
		EncryptedDataKey: w.Ciphertext,
		Annotations:      w.Annotations,
		Ciphertext:       aead.Seal(nonce, nonce, private, authenticated(realmUID, key.ID)),
	}), nil
}

// Open returns a sealed key with its private part in plaintext.
//
// Errors: ErrUnavailable; ErrRejected, also if the key was altered.
func (e *Encrypter) Open(ctx context.Context, key *signingkey.Key) (signingkey.Key, error) {
	sealed := key.Sealed()
	if sealed == nil {
		return *key, nil
	}
	private, err := e.open(ctx, key.ID, sealed)
	if err != nil {
		return signingkey.Key{}, fmt.Errorf("decrypting key %q with key %q of the KMS: %w", key.ID, sealed.KeyID, err)
	}
	return key.Open(private)
}

// open decrypts a private part.
func (e *Encrypter) open(ctx context.Context, keyID string, sealed *signingkey.Sealed) ([]byte, error) {
	plaintext, err := e.plugin.Decrypt(ctx, Wrapped{KeyID: sealed.KeyID, Ciphertext: sealed.EncryptedDataKey, Annotations: sealed.Annotations})
	if err != nil {
		return nil, err
	}
	if len(plaintext) != dataKeySize {
		return nil, fmt.Errorf("%w: the data key has %d bytes instead of %d", ErrRejected, len(plaintext), dataKeySize)
	}
	aead, err := newAEAD(plaintext)
	if err != nil {
		return nil, err
	}
	if len(sealed.Ciphertext) < aead.NonceSize() {
		return nil, fmt.Errorf("%w: the ciphertext is too short", ErrRejected)
	}
	nonce, ciphertext := sealed.Ciphertext[:aead.NonceSize()], sealed.Ciphertext[aead.NonceSize():]
	private, err := aead.Open(nil, nonce, ciphertext, authenticated(sealed.RealmUID, keyID))
	if err != nil {
		return nil, fmt.Errorf("%w: the encrypted key was altered", ErrRejected)
	}
	return private, nil
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
