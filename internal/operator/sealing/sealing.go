// Package sealing generates signing keys, which a KMS plugin can encrypt. A key is encrypted when it is
// generated and never again: a rotation replaces keys that are in another form.
package sealing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// Mode determines in which form new keys are stored.
type Mode int

const (
	// Off means that there is no KMS plugin. New keys are stored in plaintext.
	Off Mode = iota
	// Encrypt means that new keys are encrypted.
	Encrypt
	// Decrypt means that new keys are stored in plaintext, and that token servers still decrypt earlier
	// ones with the plugin.
	Decrypt
)

// Slow reports whether a new key takes so long that keys of several realms must not be generated at the
// same time.
func (m Mode) Slow(algorithm signingkey.Algorithm) bool {
	return m == Encrypt || algorithm.SlowToGenerate()
}

// Pause is the time after a failure in which no request is sent to the plugin.
const Pause = 10 * time.Second

// ErrBusy means that the key of another realm is being generated. The caller must try again soon.
var ErrBusy = errors.New("the key of another realm is being generated")

// Sealer generates keys. One realm at a time waits for a key that takes long, so RSA keys, or a plugin that
// doesn't respond, occupy a single worker of the controller. It is safe for concurrent use.
type Sealer struct {
	// Mode is the form of new keys.
	Mode Mode
	// Encrypter is required only if Mode is Encrypt.
	Encrypter *keyencryption.Encrypter
	Now       func() time.Time
	Random    io.Reader

	mu      sync.Mutex
	busy    bool
	failure error // of the last request; nil if it succeeded
	retryAt time.Time
}

// Generate returns a new key for a realm. If Mode is Encrypt, it is encrypted with the current key of the
// KMS.
//
// Errors: ErrBusy; keyencryption.ErrUnavailable and ErrRejected, which are repeated until Pause has
// passed.
func (s *Sealer) Generate(ctx context.Context, realm types.UID, algorithm signingkey.Algorithm) (signingkey.Key, error) {
	if err := s.enter(); err != nil {
		return signingkey.Key{}, err
	}
	key, err := s.generate(ctx, realm, algorithm)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to generate a signing key, will retry")
	}
	s.leave(err)
	return key, err
}

func (s *Sealer) generate(ctx context.Context, realm types.UID, algorithm signingkey.Algorithm) (signingkey.Key, error) {
	key, err := signingkey.Generate(algorithm, s.Now(), s.Random)
	if err != nil || s.Mode != Encrypt {
		return key, err
	}
	sealed, err := s.Encrypter.Seal(ctx, string(realm), &key)
	if err != nil {
		return signingkey.Key{}, fmt.Errorf("encrypting a new signing key: %w", err)
	}
	return sealed, nil
}

func (s *Sealer) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		return ErrBusy
	case s.failure != nil && s.Now().Before(s.retryAt):
		return s.failure
	}
	s.busy = true
	return nil
}

func (s *Sealer) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.failure, s.retryAt = false, err, s.Now().Add(Pause)
}
