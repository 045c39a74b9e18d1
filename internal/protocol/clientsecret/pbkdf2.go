package clientsecret

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strings"
)

const (
	schemePBKDF2SHA256 = "pbkdf2-sha256"
	schemePBKDF2SHA512 = "pbkdf2-sha512"
)

// The accepted numbers of iterations. Verifying a secret with the maximum takes up to a second of CPU.
const (
	minPBKDF2Iterations = 10_000
	maxPBKDF2Iterations = 1_000_000
)

// pbkdf2Memory is more than PBKDF2 allocates.
const pbkdf2Memory = 4 << 10

// passlibEncoding is Base64 with a dot instead of a plus sign, as in Python's passlib.
var passlibEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./").
	WithPadding(base64.NoPadding).Strict()

// pbkdf2Hash is a PBKDF2 hash (RFC 8018).
type pbkdf2Hash struct {
	hash       string
	function   func() hash.Hash
	iterations uint32
	salt, tag  []byte
}

// parsePBKDF2 parses the fields of a hash after the scheme: iterations, salt, and tag. The iterations are
// "i=25000,l=32" (Ory Hydra and Kratos, RustCrypto), "i=25000", or "25000" (passlib, Authelia). The tag is not longer
// than the output of the hash function, because only its first part slows attackers down, while a token server computes
// all of it.
func parsePBKDF2(hash, scheme string, fields []string) (*pbkdf2Hash, error) {
	if len(fields) != 3 {
		return nil, ErrHashFormat
	}
	h, longest, alphabet := &pbkdf2Hash{hash: hash, function: sha256.New}, sha256.Size, encoding
	if scheme == schemePBKDF2SHA512 {
		h.function, longest = sha512.New, sha512.Size
	}
	numbers, ok := parseParameters(fields[0], "i", "l")
	if !ok {
		numbers, ok = parseParameters(fields[0], "i")
	}
	if !ok {
		alphabet, numbers = passlibEncoding, make([]uint32, 1)
		numbers[0], ok = parseNumber(fields[0])
	}
	var okSalt, okTag bool
	h.salt, okSalt = decodeWithin(alphabet, fields[1], minSaltBytes, maxSaltBytes)
	h.tag, okTag = decodeWithin(alphabet, fields[2], minTagBytes, longest)
	if !ok || !okSalt || !okTag || len(numbers) == 2 && int(numbers[1]) != len(h.tag) {
		return nil, ErrHashFormat
	}
	h.iterations = numbers[0]
	switch {
	case h.iterations > maxPBKDF2Iterations:
		return nil, ErrHashParameters
	case h.iterations < minPBKDF2Iterations:
		return nil, ErrHashTooWeak
	}
	return h, nil
}

func (h *pbkdf2Hash) String() string { return h.hash }

// verify rejects a NUL, because HMAC appends them to short keys: "a" and "a\x00" have the same hash.
func (h *pbkdf2Hash) verify(secret string) bool {
	if strings.Contains(secret, "\x00") {
		return false
	}
	tag, err := pbkdf2.Key(h.function, secret, h.salt, int(h.iterations), len(h.tag))
	// It fails only in the strict FIPS 140 mode, for short salts.
	return err == nil && subtle.ConstantTimeCompare(tag, h.tag) == 1
}

func (h *pbkdf2Hash) saltBytes() []byte { return h.salt }

func (h *pbkdf2Hash) memory() int64 { return pbkdf2Memory }
