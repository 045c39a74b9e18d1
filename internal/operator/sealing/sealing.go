// Package sealing generates signing keys whose private part a KMS plugin encrypts. A key is encrypted
// when it is generated and never again: a rotation replaces keys that are in another form.
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

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
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

// Pause is the time after a failure in which no request is sent to the plugin.
const Pause = 10 * time.Second

// ErrBusy means that another realm waits for the plugin. The caller must try again soon.
var ErrBusy = errors.New("another realm waits for the KMS plugin")

// Sealer generates encrypted keys. One realm at a time waits for the plugin, so a plugin that doesn't
// respond occupies a single worker of the controller. It is safe for concurrent use.
type Sealer struct {
	// Mode is the form of new keys. The other fields are required only if it is Encrypt.
	Mode      Mode
	Encrypter *keyencryption.Encrypter
	Now       func() time.Time
	Random    io.Reader

	mu      sync.Mutex
	busy    bool
	failure error // of the last request; nil if it succeeded
	retryAt time.Time
}

// Generate returns a new key for a realm, encrypted with the current key of the KMS.
//
// Errors: ErrBusy; keyencryption.ErrUnavailable and ErrRejected, which are repeated until Pause has
// passed.
func (s *Sealer) Generate(ctx context.Context, realm types.UID, algorithm signingkey.Algorithm) (signingkey.Key, error) {
	if err := s.enter(); err != nil {
		return signingkey.Key{}, err
	}
	key, err := s.generate(ctx, realm, algorithm)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to generate an encrypted signing key, will retry")
	}
	s.leave(err)
	return key, err
}

func (s *Sealer) generate(ctx context.Context, realm types.UID, algorithm signingkey.Algorithm) (signingkey.Key, error) {
	key, err := signingkey.Generate(algorithm, s.Now(), s.Random)
	if err != nil {
		return signingkey.Key{}, err
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
