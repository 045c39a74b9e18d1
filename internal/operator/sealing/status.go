package sealing

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// equalReplies is how many times in a row the plugin must report a key ID before keys are rewrapped
// with it, because replicas of a plugin can disagree while its key is replaced.
const equalReplies = 3

// plugin is what is known about the plugin.
type plugin struct {
	keyID     string // the accepted key ID; empty until there is one
	candidate string // the last reported key ID
	equal     int    // how many times in a row it was reported
	err       error  // of the last request for the status
}

// poll requests the plugin's status until ctx is canceled.
func (s *Sealer) poll(ctx context.Context) {
	for {
		keyID, err := s.Encrypter.Status(ctx)
		if ctx.Err() != nil {
			return
		}
		s.observe(ctx, keyID, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.StatusInterval):
		}
	}
}

// observe processes a reported status.
func (s *Sealer) observe(ctx context.Context, keyID string, err error) {
	logger := ctrl.LoggerFrom(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.plugin
	failed := p.err != nil
	p.err = err
	if err != nil {
		p.candidate, p.equal = "", 0
		if !failed {
			logger.Error(err, "KMS plugin unavailable; new signing keys and rotations wait for it")
			s.each(func(realm string, r *state) {
				if r.request.Urgent() {
					s.reconcile(realm) // its condition changes
				}
			})
		}
		return
	}
	if failed {
		logger.Info("KMS plugin available again")
		s.each(func(realm string, r *state) {
			if r.request.Urgent() {
				s.urgent.Forget(realm)
				s.urgent.Add(realm)
			}
		})
	}
	if keyID != p.candidate {
		p.candidate, p.equal = keyID, 0
	}
	p.equal++
	if p.equal >= equalReplies && p.keyID != keyID {
		if p.keyID != "" {
			logger.Info("KMS plugin has a new key; rewrapping signing keys in the background")
		}
		p.keyID = keyID
		s.each(func(realm string, r *state) {
			if r.generated != nil && r.generated.Sealed().KeyID != keyID {
				r.generated = nil // the KMS may soon delete the previous key
			}
			s.reconcile(realm)
		})
	}
}

// each calls f for each known realm.
func (s *Sealer) each(f func(realm string, r *state)) {
	for realm, r := range s.realms {
		f(realm, r)
	}
}
