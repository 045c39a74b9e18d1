package signingkey

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of a third party's key set. They bound what a record can hold.
const (
	// maxSetEntries is the maximum number of entries, including those that are skipped.
	maxSetEntries = 64
	// maxSetKeys is the maximum number of keys.
	maxSetKeys = 32
	// maxKeyIDLength is the maximum length of a key ID in bytes.
	maxKeyIDLength = 256
)

// ErrNoKeys is the ErrKey of a key set without a supported key. No token of the third party can then be
// verified.
var ErrNoKeys = fmt.Errorf("%w: the JWK Set has no supported key with a kid", ErrKey)

// ParseKeySet parses the public keys of a third party from a JWK Set (RFC 7517 §5): the tokens that
// the third party issues are verified with these keys. The keys are sorted, so that the same keys
// are equal in every order. Several keys may have the same ID.
//
// RFC 7517 §5 asks to skip entries that aren't understood. These entries are skipped and counted:
// those without a "kid" of 1 to 256 printable ASCII characters that JSON needn't escape (a status shows
// it, and a record with the keys of many issuers has a limited size), those with an
// unsupported type, size or algorithm, and those with a "use" other than "sig" and "jwt-svid" (SPIFFE
// Trust Domain and Bundle §4.2.2). An RSA key without "alg" is for RS256, the default of OpenID
// Connect.
//
// The error is ErrKey if data is not a JWK Set, if it has no supported key (ErrNoKeys), more than 64
// entries or more than 32 supported keys. It is ErrPrivateKey if any entry is a private or symmetric key,
// because this third party can no longer be trusted to keep its keys. It never contains values from
// the set.
func ParseKeySet(data []byte) (keys []PublicKey, skipped int, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(data, &set) != nil || set.Keys == nil {
		return nil, 0, fmt.Errorf("%w: it is not a JWK Set, which is a JSON object with the list keys", ErrKey)
	}
	if len(set.Keys) > maxSetEntries {
		return nil, 0, fmt.Errorf("%w: the JWK Set has more than %d entries", ErrKey, maxSetEntries)
	}
	for _, entry := range set.Keys {
		key, err := parseSetKey(entry)
		if errors.Is(err, ErrPrivateKey) {
			return nil, 0, fmt.Errorf("the JWK Set: %w", ErrPrivateKey)
		}
		if err != nil {
			skipped++
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, skipped, ErrNoKeys
	}
	if len(keys) > maxSetKeys {
		return nil, skipped, fmt.Errorf("%w: the JWK Set has more than %d supported keys", ErrKey, maxSetKeys)
	}
	return sortedSet(keys), skipped, nil
}

// parseSetKey parses one entry of a key set.
func parseSetKey(entry []byte) (PublicKey, error) {
	jwk, err := parseJWK(entry, "sig", "jwt-svid")
	if err != nil {
		return PublicKey{}, err
	}
	if jwk.KeyID == "" || len(jwk.KeyID) > maxKeyIDLength || strings.ContainsFunc(jwk.KeyID, notPrintable) {
		return PublicKey{}, fmt.Errorf("%w: it has no kid of 1 to %d printable characters", ErrKey, maxKeyIDLength)
	}
	algorithm := Algorithm(jwk.Algorithm)
	if algorithm == "" && onlyAlgorithm(jwk.Key) == "" {
		algorithm = RS256
	}
	return newPublicKey(jwk.KeyID, algorithm, jwk.Key)
}

// notPrintable reports whether a character isn't printable, or encoding/json escapes it.
func notPrintable(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"&<>\`, r) }

// sortedSet sorts keys by ID and then by content, and removes repeated keys.
func sortedSet(keys []PublicKey) []PublicKey {
	slices.SortFunc(keys, func(a, b PublicKey) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.algorithm, b.algorithm), bytes.Compare(encoded(a.key), encoded(b.key)))
	})
	return slices.CompactFunc(keys, PublicKey.Equal)
}

// encoded returns a key's PKIX encoding, or nil if it has none. It only determines an order.
func encoded(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil
	}
	return der
}
