package verify

import (
	"crypto/sha256"
	"sync"
)

const (
	// maxSignatures is the memory for valid tokens in bytes.
	maxSignatures = 1 << 20
	// signatureOverhead is how many bytes a map, which is partly empty, needs at most for an entry without the claims.
	signatureOverhead = 128
)

// tokenHash identifies a whole token, with its signature.
type tokenHash [sha256.Size]byte

// signedClaims are the claims of an access token, and the key that signed it. The claims are read-only.
type signedClaims struct {
	key    *publicKey
	claims *Claims
}

// validSignatures remembers tokens whose signature is valid, because to verify it, and to decode the claims, takes
// nearly all of the time of a verification. An entry states only that the key signed the claims, which remains true.
// Whether it is still a key of the issuer, and whether the API accepts the token, must be checked each time.
//
// If newer is full, it replaces older. Tokens that are used again move to newer, so new ones don't displace them. A
// nil *validSignatures remembers nothing.
type validSignatures struct {
	mu           sync.Mutex
	newer, older map[tokenHash]signedClaims
	size         int // of newer, in bytes
}

func newValidSignatures() *validSignatures {
	return &validSignatures{newer: map[tokenHash]signedClaims{}}
}

// get returns the hash of a token, and what is remembered for it. The key is nil if that is nothing.
func (s *validSignatures) get(token string) (tokenHash, signedClaims) {
	if s == nil {
		return tokenHash{}, signedClaims{}
	}
	hash := tokenHash(sha256.Sum256([]byte(token)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if signed, ok := s.newer[hash]; ok {
		return hash, signed
	}
	return hash, s.older[hash]
}

// put remembers a token with a valid signature that the API accepts, or that it is still used.
func (s *validSignatures) put(hash tokenHash, signed signedClaims) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.newer[hash]; !ok {
		size := signed.claims.size() + signatureOverhead
		if s.size+size > maxSignatures/2 {
			s.newer, s.older, s.size = map[tokenHash]signedClaims{}, s.newer, 0
		}
		s.size += size
	}
	s.newer[hash] = signed
}
