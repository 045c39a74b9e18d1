package sealing

import (
	"context"
	"errors"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/realmkeeper/realmkeeper/internal/keyencryption"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// convert processes the request of a realm that waits. Failed parts are retried.
func (s *Sealer) convert(ctx context.Context, realm string) {
	uid, request := s.missing(realm)
	progress, err := s.work(ctx, realm, uid, &request)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.realms[realm]
	if r == nil || string(r.uid) != uid || !r.request.Urgent() {
		return
	}
	if err == nil {
		r.failed = false
		s.urgent.Forget(realm)
		s.reconcile(realm)
		return
	}
	if !r.failed {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to encrypt or decrypt signing keys with the KMS plugin, will retry", "realm", realm)
	}
	if progress || !r.failed {
		s.reconcile(realm)
	}
	r.failed = true
	s.urgent.AddRateLimited(realm)
}

// work processes a request and stores each result. It reports whether there is any, and returns the
// first error. A key that can't be converted doesn't delay the others.
func (s *Sealer) work(ctx context.Context, realm, uid string, request *Request) (progress bool, firstErr error) {
	for i := range request.Convert {
		result, err := s.convertKey(ctx, uid, &request.Convert[i])
		if errors.Is(err, keyencryption.ErrUnavailable) {
			return progress, err
		}
		if err == nil {
			progress = true
			s.store(realm, uid, func(r *state) { r.addConverted(result) })
		} else if firstErr == nil {
			firstErr = err
		}
	}
	if request.Generate != "" {
		key, err := s.generate(ctx, uid, request.Generate)
		if err == nil {
			progress = true
			s.store(realm, uid, func(r *state) { r.addGenerated(key) })
		} else if firstErr == nil {
			firstErr = err
		}
	}
	return progress, firstErr
}

// store adds a result, unless the realm was deleted.
func (s *Sealer) store(realm, uid string, add func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.realms[realm]; r != nil && string(r.uid) == uid {
		add(r)
	}
}

// addConverted adds a converted key, unless it is no longer requested.
func (r *state) addConverted(key signingkey.Key) {
	if contains(r.request.Convert, key.ID) || contains(r.request.Rewrap, key.ID) {
		r.converted[key.ID] = key
	}
}

// addGenerated adds a generated key, unless it is no longer requested.
func (r *state) addGenerated(key signingkey.Key) {
	if r.request.Generate == key.Algorithm {
		r.generated = &key
	}
}

// convertKey returns a key in the form in which it must be stored.
func (s *Sealer) convertKey(ctx context.Context, uid string, key *signingkey.Key) (signingkey.Key, error) {
	opened := *key
	if sealed := key.Sealed(); sealed != nil {
		// A key of another realm comes from a backup, whose realm had another UID.
		var err error
		if opened, err = s.Encrypter.Open(ctx, sealed.RealmUID, key); err != nil {
			return signingkey.Key{}, err
		}
	}
	if s.Mode == Decrypt {
		return opened, nil
	}
	return s.Encrypter.Seal(ctx, uid, &opened)
}

// generate generates a key after the plugin has encrypted the data key for it.
func (s *Sealer) generate(ctx context.Context, uid string, algorithm signingkey.Algorithm) (signingkey.Key, error) {
	dataKey, err := s.Encrypter.NewDataKey(ctx)
	if err != nil {
		return signingkey.Key{}, err
	}
	key, err := signingkey.Generate(algorithm, s.Now(), s.Random)
	if err != nil {
		return signingkey.Key{}, err
	}
	return dataKey.Seal(uid, &key)
}

// missing returns the current request of a realm without the parts whose result is already known.
func (s *Sealer) missing(realm string) (uid string, request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.realms[realm]
	if r == nil {
		return "", Request{}
	}
	request = r.request
	request.Convert = slices.DeleteFunc(slices.Clone(request.Convert), func(k signingkey.Key) bool {
		_, known := r.converted[k.ID]
		return known
	})
	if r.generated != nil {
		request.Generate = ""
	}
	return string(r.uid), request
}
