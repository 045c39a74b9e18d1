// Package keyencryption encrypts the private keys in records with a KMS plugin.
//
// Each private key is encrypted with a data key of its own. The plugin encrypts the data key, and
// never sees the private key. Package kmsclient connects to a plugin.
package keyencryption

import (
	"context"
	"errors"
	"time"
)

// DefaultTimeout limits each request to a plugin.
const DefaultTimeout = 3 * time.Second

// ErrUnavailable means that the plugin doesn't respond, or can't reach its KMS. A later request can
// succeed.
var ErrUnavailable = errors.New("the KMS plugin is unavailable")

// ErrRejected means that the plugin responded with an error or with something that isn't allowed, or
// that an encrypted key isn't what was encrypted.
var ErrRejected = errors.New("the KMS plugin failed")

// Plugin is a KMS plugin. Its errors are ErrUnavailable and ErrRejected.
type Plugin interface {
	// Status returns the ID of the key with which the plugin encrypts.
	Status(ctx context.Context) (keyID string, err error)
	// Encrypt encrypts a data key.
	Encrypt(ctx context.Context, plaintext []byte) (Wrapped, error)
	// Decrypt returns the plaintext of a data key.
	Decrypt(ctx context.Context, w Wrapped) ([]byte, error)
}

// Wrapped is a data key that a plugin has encrypted.
type Wrapped struct {
	KeyID       string
	Ciphertext  []byte
	Annotations map[string][]byte
}

// Encrypter encrypts and decrypts private keys. It is safe for concurrent use.
type Encrypter struct{ plugin Plugin }

// New returns an Encrypter that uses the plugin.
func New(plugin Plugin) *Encrypter { return &Encrypter{plugin} }

// Status returns the ID of the key with which the plugin encrypts.
//
// Errors: ErrUnavailable and ErrRejected.
func (e *Encrypter) Status(ctx context.Context) (keyID string, err error) {
	return e.plugin.Status(ctx)
}
