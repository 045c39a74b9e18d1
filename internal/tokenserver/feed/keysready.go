package feed

import (
	"errors"
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// A realm counts as rejected after this many attempts over at least this time, because a plugin that
// starts may respond with errors before it works.
const (
	minRejections = 3
	rejectedAfter = time.Minute
)

// Errors of KeysReady.
var (
	errNoPlugin = errors.New("records contain encrypted signing keys, but --kms-socket is not set")
	errWaiting  = errors.New("waiting for the KMS plugin to decrypt signing keys")
	errRejected = errors.New("the KMS plugin has not decrypted any signing key")
)

// rejections counts the attempts since the last success at which the plugin refused to decrypt a key of
// a realm.
type rejections struct {
	count       int
	first, last time.Time
	err         error // the last one
}

// persist reports whether the plugin has rejected the keys often enough.
func (r *rejections) persist() bool {
	return r.count >= minRejections && r.last.Sub(r.first) >= rejectedAfter
}

func (r *rejections) add(err error, now time.Time) {
	if r.count == 0 {
		r.first = now
	}
	r.count, r.last, r.err = r.count+1, now, err
}

// KeysReady returns nil once each realm with an Active key can sign, except for those whose keys the KMS
// plugin has refused to decrypt for a minute while it decrypts others. From then on, it always returns nil: this
// server keeps serving from memory when the plugin is unavailable, and only new keys have to wait.
func (f *Feed) KeysReady() error {
	k := f.keys
	if k.ready.Load() {
		return nil // Each request calls this function.
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	waiting, rejected := 0, 0
	for _, r := range k.realms {
		if r.waitsForState(signingkey.Active) {
			waiting++
			rejected += boolToInt(r.rejected.persist())
		}
	}
	switch {
	case waiting > 0 && k.plugin == nil:
		return errNoPlugin
	case waiting > rejected && k.unavailable != nil:
		return fmt.Errorf("%w of %d realms: %w", errWaiting, waiting-rejected, k.unavailable)
	case waiting > rejected:
		return fmt.Errorf("%w of %d realms", errWaiting, waiting-rejected)
	case waiting > 0 && !k.opened:
		return errRejected
	}
	k.ready.Store(true)
	return nil
}
