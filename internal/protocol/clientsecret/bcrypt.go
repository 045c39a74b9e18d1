package clientsecret

import (
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// The schemes of bcrypt. For the secrets that clients can send, all three hash alike. "2x" marks
// hashes from an implementation with a bug, and is not supported.
const (
	schemeBcrypt2A = "2a"
	schemeBcrypt2B = "2b"
	schemeBcrypt2Y = "2y"
)

const (
	// minBcryptCost and maxBcryptCost are the lowest and the highest accepted cost. With the highest,
	// the verification of a secret takes up to a second of CPU time.
	minBcryptCost = 8
	maxBcryptCost = 12
	// maxBcryptSecret is the number of bytes that bcrypt uses. Other implementations ignore the
	// rest; here, longer secrets never match.
	maxBcryptSecret = 72

	bcryptSaltBytes = 16
	bcryptTagBytes  = 23
	bcryptSaltChars = 22
	// bcryptMemory is more than bcrypt allocates: a Blowfish cipher has 4,168 bytes.
	bcryptMemory = 8 << 10
)

// bcryptEncoding is the Base64 encoding of bcrypt.
var bcryptEncoding = base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").
	WithPadding(base64.NoPadding).Strict()

// bcryptHash is a bcrypt hash in the format of crypt(3).
type bcryptHash struct {
	hash string
	salt []byte
}

// parseBcrypt parses the fields of a hash after the scheme: a cost of two digits, then salt and tag
// without a separator.
func parseBcrypt(hash string, fields []string) (*bcryptHash, error) {
	if len(fields) != 2 || len(fields[1]) < bcryptSaltChars {
		return nil, ErrHashFormat
	}
	cost, ok := parseNumber(strings.TrimPrefix(fields[0], "0"))
	if !ok || len(fields[0]) != 2 {
		return nil, ErrHashFormat
	}
	h := &bcryptHash{hash: hash, salt: make([]byte, bcryptSaltBytes)}
	salt, tag := fields[1][:bcryptSaltChars], fields[1][bcryptSaltChars:]
	if !decodeExactly(bcryptEncoding, h.salt, salt) || !decodeExactly(bcryptEncoding, make([]byte, bcryptTagBytes), tag) {
		return nil, ErrHashFormat
	}
	switch {
	case cost > maxBcryptCost:
		return nil, ErrHashParameters
	case cost < minBcryptCost:
		return nil, ErrHashTooWeak
	}
	return h, nil
}

func (h *bcryptHash) String() string { return h.hash }

// verify rejects a NUL, because bcrypt ends the secret with one and then repeats it: "a" and
// "a\x00a" have the same hash.
func (h *bcryptHash) verify(secret string) bool {
	if len(secret) > maxBcryptSecret || strings.Contains(secret, "\x00") {
		return false
	}
	return bcrypt.CompareHashAndPassword([]byte(h.hash), []byte(secret)) == nil
}

func (h *bcryptHash) saltBytes() []byte { return h.salt }

func (h *bcryptHash) memory() int64 { return bcryptMemory }
