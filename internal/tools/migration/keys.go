package migration

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9._~:/+=@-]{1,128}$`)

// ValidKeyID reports whether an ApiClient can have a public key with this ID.
func ValidKeyID(id string) bool { return keyIDPattern.MatchString(id) }

// Keys returns the public keys in a JWK Set (RFC 7517 §5) that verify assertions. rsaAlgorithm is the
// algorithm of RSA keys without one.
//
// The error says why the keys can't be used. It contains no part of a key except for its ID.
func Keys(set json.RawMessage, rsaAlgorithm signingkey.Algorithm) ([]PublicKey, error) {
	var parsed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if Decode(set, &parsed) != nil {
		return nil, errors.New("the key set is not a JWK Set")
	}
	var keys []PublicKey
	seen := map[string]bool{}
	for i, raw := range parsed.Keys {
		var jwk struct {
			ID        string `json:"kid"`
			Type      string `json:"kty"`
			Use       string `json:"use"`
			Algorithm string `json:"alg"`
		}
		if Decode(raw, &jwk) != nil {
			return nil, fmt.Errorf("key %d is not a JWK", i+1)
		}
		if jwk.Use == "enc" {
			continue
		}
		id := jwk.ID
		if id == "" {
			id = fmt.Sprintf("key-%d", i+1)
		}
		if !ValidKeyID(id) {
			return nil, fmt.Errorf("the ID of key %d must have 1 to 128 letters, digits, and characters from ._~:/+=@-", i+1)
		}
		if seen[id] {
			return nil, fmt.Errorf("two keys have the ID %q", id)
		}
		seen[id] = true
		algorithm := signingkey.Algorithm(jwk.Algorithm)
		if algorithm == "" && jwk.Type == "RSA" {
			algorithm = rsaAlgorithm
		}
		key, err := signingkey.ImportJWK(raw, id, algorithm)
		if err != nil {
			return nil, fmt.Errorf("the key %q cannot be used: %w", id, err)
		}
		public, err := publicJWK(key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, PublicKey{ID: id, JWK: public})
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key that verifies signatures")
	}
	return keys, nil
}

// publicJWK returns the key with its public members only.
func publicJWK(key signingkey.PublicKey) (string, error) {
	set, err := signingkey.JWKS([]signingkey.PublicKey{key})
	if err != nil {
		return "", err
	}
	var parsed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(set, &parsed); err != nil {
		return "", fmt.Errorf("encoding a public key: %w", err)
	}
	return string(parsed.Keys[0]), nil
}
