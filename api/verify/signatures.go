package verify

import (
	"crypto/sha256"
	"sync"
)

const (
	// maxSignatures is the memory for valid tokens in bytes.
	maxSignatures = 1 << 20
	// signatureOverhead is how many bytes a map, which is partly empty, needs at most for an entry without the payload.
	signatureOverhead = 136
)

// tokenHash identifies a whole token, with its signature.
type tokenHash [sha256.Size]byte

// signedPayload is the payload of an access token, and the key that signed the token. The payload is a string so
// that no caller can change it.
type signedPayload struct {
	key     *publicKey
	payload string
}

// validSignatures remembers tokens whose signature is valid, because a signature takes most of the time of a
// verification. An entry states only that the key signed the payload, which remains true. Whether it is still a key
// of the issuer, and whether the API accepts the token, must be checked each time.
//
// If newer is full, it replaces older. Tokens that are used again move to newer, so new ones don't displace them. A
// nil *validSignatures remembers nothing.
type validSignatures struct {
	mu           sync.Mutex
	newer, older map[tokenHash]signedPayload
	size         int // of newer, in bytes
}

func newValidSignatures() *validSignatures {
	return &validSignatures{newer: map[tokenHash]signedPayload{}}
}

// get returns the hash of a token, and what is remembered for it. The key is nil if that is nothing.
func (s *validSignatures) get(token string) (tokenHash, signedPayload) {
	if s == nil {
		return tokenHash{}, signedPayload{}
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
func (s *validSignatures) put(hash tokenHash, signed signedPayload) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.newer[hash]; !ok {
		size := len(signed.payload)*6/5 + signatureOverhead // memory is allocated in steps of less than a fifth
		if s.size+size > maxSignatures/2 {
			s.newer, s.older, s.size = map[tokenHash]signedPayload{}, s.newer, 0
		}
		s.size += size
	}
	s.newer[hash] = signed
}
