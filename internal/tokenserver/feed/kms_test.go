package feed_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
)

// fakeKMS is a KMS plugin in this process. It encrypts nothing: a ciphertext is the plaintext after the
// ID of the key.
type fakeKMS struct {
	timeout time.Duration // of a request while the plugin hangs

	mu               sync.Mutex
	stopped, hangs   bool
	release          chan struct{} // closed when the plugin no longer hangs
	refuse           func(operation string) error
	requests         map[string]int
	concurrent, most int
}

func newFakeKMS() *fakeKMS {
	return &fakeKMS{timeout: time.Minute, release: make(chan struct{}), requests: map[string]int{}}
}

// Stop makes requests fail until Start.
func (p *fakeKMS) Stop() { p.set(func() { p.stopped = true }) }

// Start starts a stopped plugin.
func (p *fakeKMS) Start() { p.set(func() { p.stopped = false }) }

// Hang makes requests wait for their timeout.
func (p *fakeKMS) Hang() { p.set(func() { p.hangs = true }) }

// Refuse makes operations ("encrypt", "decrypt") fail with the error that refuse returns. A nil error, and
// a nil refuse, allow them.
func (p *fakeKMS) Refuse(refuse func(operation string) error) { p.set(func() { p.refuse = refuse }) }

func (p *fakeKMS) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Release makes the requests that hang fail, and later ones succeed.
func (p *fakeKMS) Release() {
	p.set(func() { p.hangs = false; close(p.release) })
}

// Requests returns the number of requests for an operation, without those while it was stopped.
func (p *fakeKMS) Requests(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[operation]
}

// MostConcurrent returns the largest number of requests that were in progress at the same time.
func (p *fakeKMS) MostConcurrent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// request counts a request, and returns its error.
func (p *fakeKMS) request(ctx context.Context, operation string) error {
	p.mu.Lock()
	if !p.stopped {
		p.requests[operation]++
	}
	p.concurrent++
	p.most = max(p.most, p.concurrent)
	stopped, hangs, refuse := p.stopped, p.hangs, p.refuse
	p.mu.Unlock()
	defer p.set(func() { p.concurrent-- })
	if hangs {
		select {
		case <-ctx.Done():
		case <-p.release:
		case <-time.After(p.timeout):
		}
	}
	if stopped || hangs {
		return fmt.Errorf("%w: it is stopped, or hangs", keyencryption.ErrUnavailable)
	}
	if refuse != nil {
		return refuse(operation)
	}
	return nil
}

func (p *fakeKMS) Status(context.Context) (string, error) { return "1", nil }

func (p *fakeKMS) Encrypt(ctx context.Context, plaintext []byte) (keyencryption.Wrapped, error) {
	return keyencryption.Wrapped{KeyID: "1", Ciphertext: append([]byte("1 "), plaintext...)}, p.request(ctx, "encrypt")
}

func (p *fakeKMS) Decrypt(ctx context.Context, w keyencryption.Wrapped) ([]byte, error) {
	if err := p.request(ctx, "decrypt"); err != nil {
		return nil, err
	}
	plaintext, ok := bytes.CutPrefix(w.Ciphertext, []byte(w.KeyID+" "))
	if !ok {
		return nil, fmt.Errorf("%w: another key encrypted it", keyencryption.ErrRejected)
	}
	return plaintext, nil
}
