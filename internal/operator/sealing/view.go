// Package sealing encrypts the signing keys of realms with a KMS plugin, and decrypts them again if
// encryption is to be disabled. All requests to the plugin are made in the background, so that a
// reconcile never waits for one.
package sealing

import (
	"io"
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// Mode determines in which form keys are stored.
type Mode int

const (
	// Off means that there is no KMS plugin. New keys are stored in plaintext, and encrypted keys are
	// kept.
	Off Mode = iota
	// Encrypt means that keys are encrypted.
	Encrypt
	// Decrypt means that encrypted keys are decrypted, and new keys are stored in plaintext.
	Decrypt
)

// View is what a decision about a realm's keys depends on. The zero value is without a KMS plugin.
type View struct {
	Mode Mode
	// KeyID identifies the key of the KMS that must encrypt. It is empty while it isn't known for
	// certain.
	KeyID string
	// Converted are keys in the form in which they must be stored, by ID.
	Converted map[string]signingkey.Key
	// Generated is a new key that is already encrypted, or nil.
	Generated *signingkey.Key
	// Unavailable means that the plugin failed to process the request of this realm, which is retried.
	Unavailable bool
}

// Request is what a realm needs from the plugin.
type Request struct {
	// Convert are keys to encrypt or decrypt.
	Convert []signingkey.Key
	// Rewrap are keys that another key of the KMS has encrypted.
	Rewrap []signingkey.Key
	// Generate is the algorithm of a new key; empty if none is needed.
	Generate signingkey.Algorithm
}

// Urgent reports whether the realm waits for the request.
func (r *Request) Urgent() bool { return len(r.Convert) > 0 || r.Generate != "" }

// Apply returns the keys of a realm in the form in which they must be stored, as far as it is known.
// It adds to request what isn't known.
func (v View) Apply(realmUID string, keys []signingkey.Key, request *Request) []signingkey.Key {
	if v.Mode == Off {
		return keys
	}
	result := slices.Clone(keys)
	for i := range result {
		key := &result[i]
		converted, known := v.Converted[key.ID]
		converted = key.WithPrivatePartOf(&converted)
		switch {
		case v.unconverted(realmUID, key):
			if known && !v.unconverted(realmUID, &converted) {
				*key = converted
			} else {
				request.Convert = append(request.Convert, *key)
			}
		case v.outdated(key):
			if known && !v.outdated(&converted) {
				*key = converted
			} else {
				request.Rewrap = append(request.Rewrap, *key)
			}
		}
	}
	return result
}

// unconverted reports whether a key must be encrypted or decrypted.
func (v View) unconverted(realmUID string, key *signingkey.Key) bool {
	sealed := key.Sealed()
	switch v.Mode {
	case Encrypt:
		return sealed == nil || sealed.RealmUID != realmUID
	case Decrypt:
		return sealed != nil
	}
	return false
}

// outdated reports whether another key of the KMS than the current one has encrypted a key.
func (v View) outdated(key *signingkey.Key) bool {
	return v.Mode == Encrypt && v.KeyID != "" && key.Sealed() != nil && key.Sealed().KeyID != v.KeyID
}

// Adopt returns restored keys in the form in which they must be stored, and whether all of them are in
// this form. Keys that were encrypted for the realm that was backed up need the plugin. If some aren't
// ready, Adopt adds them to request, and none may be stored yet.
func (v View) Adopt(realmUID string, restored []signingkey.Key, request *Request) (keys []signingkey.Key, ready bool) {
	keys = v.Apply(realmUID, restored, request)
	ready = !slices.ContainsFunc(keys, func(k signingkey.Key) bool {
		foreign := k.Sealed() != nil && k.Sealed().RealmUID != realmUID
		return foreign || v.unconverted(realmUID, &k)
	})
	return keys, ready
}

// Generator returns the source of new keys for a realm with the given keys. A key that must be
// encrypted is generated in the background; until then, the source returns signingkey.ErrLater.
func (v View) Generator(keys []signingkey.Key, random io.Reader, request *Request) signingkey.Generator {
	return func(algorithm signingkey.Algorithm, now time.Time) (signingkey.Key, error) {
		switch {
		case v.Mode == Encrypt:
			if v.Generated == nil || v.Generated.Algorithm != algorithm || contains(keys, v.Generated.ID) {
				request.Generate = algorithm
				return signingkey.Key{}, signingkey.ErrLater
			}
			key := *v.Generated
			key.State, key.CreatedAt = signingkey.Pending, now
			return key, nil
		case v.Mode == Off && slices.ContainsFunc(keys, func(k signingkey.Key) bool { return k.Sealed() != nil }):
			return signingkey.Key{}, signingkey.ErrLater // the configuration of the plugin is missing
		}
		return signingkey.Generate(algorithm, now, random)
	}
}

func contains(keys []signingkey.Key, id string) bool {
	return slices.ContainsFunc(keys, func(k signingkey.Key) bool { return k.ID == id })
}
