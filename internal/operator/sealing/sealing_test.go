package sealing_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/operator/sealing"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// plugin is a KMS plugin that encrypts nothing. While err is set, it fails.
type plugin struct {
	err      error
	requests int
	// received gets a value for each request, and the request waits for proceed; both can be nil.
	received, proceed chan struct{}
}

func (p *plugin) Status(context.Context) (string, error) { return "1", p.err }

func (p *plugin) Encrypt(_ context.Context, plaintext []byte) (keyencryption.Wrapped, error) {
	p.requests++
	if p.received != nil {
		p.received <- struct{}{}
		<-p.proceed
	}
	return keyencryption.Wrapped{KeyID: "1", Ciphertext: plaintext}, p.err
}

func (p *plugin) Decrypt(_ context.Context, w keyencryption.Wrapped) ([]byte, error) {
	return w.Ciphertext, p.err
}

// After a failure, the plugin gets no request until the pause has passed.
func TestPauseAfterFailure(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := &plugin{err: keyencryption.ErrUnavailable}
	s := &sealing.Sealer{Mode: sealing.Encrypt, Encrypter: keyencryption.New(p), Now: func() time.Time { return now }, Random: rand.Reader}
	for range 3 {
		if _, err := s.Generate(t.Context(), "uid", signingkey.ES256); !errors.Is(err, keyencryption.ErrUnavailable) {
			t.Errorf("error %v, want %v", err, keyencryption.ErrUnavailable)
		}
	}
	if p.requests != 1 {
		t.Errorf("%d requests, want 1", p.requests)
	}
	p.err, now = nil, now.Add(sealing.Pause)
	key, err := s.Generate(t.Context(), "uid", signingkey.ES256)
	if err != nil || key.State != signingkey.Pending || key.InPlaintext() || key.Sealed() == nil || key.Sealed().RealmUID != "uid" {
		t.Errorf("key %+v, error %v", key, err)
	}
	if _, err := s.Generate(t.Context(), "uid", signingkey.ES256); err != nil {
		t.Errorf("after a success: %v", err)
	}
}

// A plugin that doesn't respond occupies one caller.
func TestOneCallerWaits(t *testing.T) {
	p := &plugin{received: make(chan struct{}), proceed: make(chan struct{})}
	s := &sealing.Sealer{Mode: sealing.Encrypt, Encrypter: keyencryption.New(p), Now: time.Now, Random: rand.Reader}
	first := make(chan error)
	go func() {
		_, err := s.Generate(t.Context(), "a", signingkey.ES256)
		first <- err
	}()
	<-p.received
	if _, err := s.Generate(t.Context(), "b", signingkey.ES256); !errors.Is(err, sealing.ErrBusy) {
		t.Errorf("error %v, want %v", err, sealing.ErrBusy)
	}
	close(p.proceed)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// An RSA key takes long to generate even without a plugin, so it also occupies one caller.
func TestOneCallerGeneratesRSA(t *testing.T) {
	started, proceed := make(chan struct{}), make(chan struct{})
	now := sync.OnceValue(func() time.Time {
		started <- struct{}{}
		<-proceed
		return time.Now()
	})
	s := &sealing.Sealer{Mode: sealing.Off, Now: now, Random: rand.Reader}
	type result struct {
		key signingkey.Key
		err error
	}
	first := make(chan result)
	go func() {
		key, err := s.Generate(t.Context(), "a", signingkey.RS256)
		first <- result{key, err}
	}()
	<-started
	if _, err := s.Generate(t.Context(), "b", signingkey.PS256); !errors.Is(err, sealing.ErrBusy) {
		t.Errorf("error %v, want %v", err, sealing.ErrBusy)
	}
	close(proceed)
	if got := <-first; got.err != nil || got.key.Algorithm != signingkey.RS256 || !got.key.InPlaintext() {
		t.Errorf("key %+v, error %v", got.key, got.err)
	}
}
