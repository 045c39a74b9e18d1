package feed_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/realmkeeper/realmkeeper/internal/contract/keyencryption"
)

// fakeKMS is a KMS plugin in this process. It encrypts nothing: a ciphertext is the plaintext after the
// ID of the key.
type fakeKMS struct {
	mu       sync.Mutex
	stopped  bool
	refuse   func(operation string) error
	requests map[string]int
}

func newFakeKMS() *fakeKMS { return &fakeKMS{requests: map[string]int{}} }

// Stop makes requests fail until Start.
func (p *fakeKMS) Stop() { p.set(func() { p.stopped = true }) }

// Start starts a stopped plugin.
func (p *fakeKMS) Start() { p.set(func() { p.stopped = false }) }

// Refuse makes operations ("encrypt", "decrypt") fail with the error that refuse returns. A nil error, and
// a nil refuse, allow them.
func (p *fakeKMS) Refuse(refuse func(operation string) error) { p.set(func() { p.refuse = refuse }) }

func (p *fakeKMS) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Requests returns the number of requests for an operation, without those while it was stopped.
func (p *fakeKMS) Requests(operation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[operation]
}

// request counts a request, and returns its error.
func (p *fakeKMS) request(operation string) error {
	p.mu.Lock()
	stopped, refuse := p.stopped, p.refuse
	if !stopped {
		p.requests[operation]++
	}
	p.mu.Unlock()
	switch {
	case stopped:
		return fmt.Errorf("%w: it is stopped", keyencryption.ErrUnavailable)
	case refuse != nil:
		return refuse(operation)
	}
	return nil
}

func (p *fakeKMS) Status(context.Context) (string, error) { return "1", nil }

func (p *fakeKMS) Encrypt(_ context.Context, plaintext []byte) (keyencryption.Wrapped, error) {
	return keyencryption.Wrapped{KeyID: "1", Ciphertext: append([]byte("1 "), plaintext...)}, p.request("encrypt")
}

func (p *fakeKMS) Decrypt(_ context.Context, w keyencryption.Wrapped) ([]byte, error) {
	if err := p.request("decrypt"); err != nil {
		return nil, err
	}
	plaintext, ok := bytes.CutPrefix(w.Ciphertext, []byte(w.KeyID+" "))
	if !ok {
		return nil, fmt.Errorf("%w: another key encrypted it", keyencryption.ErrRejected)
	}
	return plaintext, nil
}
