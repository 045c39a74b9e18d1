package clientsecret

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
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

// pbkdf2Form is the form of the iterations in a hash.
type pbkdf2Form int

const (
	pbkdf2Length  pbkdf2Form = iota // i=25000,l=32 (Ory Hydra and Kratos, RustCrypto)
	pbkdf2PHC                       // i=25000
	pbkdf2Passlib                   // 25000 (passlib, Authelia)
)

// pbkdf2Hash is a PBKDF2 hash (RFC 8018) with its parameters and its form.
type pbkdf2Hash struct {
	scheme     string
	form       pbkdf2Form
	iterations uint32
	salt, tag  []byte
}

// parsePBKDF2 parses the fields of a hash after the scheme: iterations, salt, and tag. The tag is
// not longer than the output of the hash function, because only its first part slows attackers
// down, while a token server computes all of it.
func parsePBKDF2(scheme string, fields []string) (*pbkdf2Hash, error) {
	if len(fields) != 3 {
		return nil, ErrHashFormat
	}
	longest := sha256.Size
	if scheme == schemePBKDF2SHA512 {
		longest = sha512.Size
	}
	h := &pbkdf2Hash{scheme: scheme}
	length, ok := h.parseIterations(fields[0])
	if !ok {
		return nil, ErrHashFormat
	}
	var okSalt, okTag bool
	h.salt, okSalt = decodeWithin(h.encoding(), fields[1], minSaltBytes, maxSaltBytes)
	h.tag, okTag = decodeWithin(h.encoding(), fields[2], minTagBytes, longest)
	if !okSalt || !okTag || h.form == pbkdf2Length && int(length) != len(h.tag) {
		return nil, ErrHashFormat
	}
	switch {
	case h.iterations > maxPBKDF2Iterations:
		return nil, ErrHashParameters
	case h.iterations < minPBKDF2Iterations:
		return nil, ErrHashTooWeak
	}
	return h, nil
}

// parseIterations sets the form and the iterations, and returns the length if the form has one.
func (h *pbkdf2Hash) parseIterations(s string) (length uint32, ok bool) {
	if numbers, ok := parseParameters(s, "i", "l"); ok {
		h.form, h.iterations = pbkdf2Length, numbers[0]
		return numbers[1], true
	}
	if numbers, ok := parseParameters(s, "i"); ok {
		h.form, h.iterations = pbkdf2PHC, numbers[0]
		return 0, true
	}
	h.form = pbkdf2Passlib
	h.iterations, ok = parseNumber(s)
	return 0, ok
}

func (h *pbkdf2Hash) encoding() *base64.Encoding {
	if h.form == pbkdf2Passlib {
		return passlibEncoding
	}
	return encoding
}

func (h *pbkdf2Hash) String() string {
	parameters := fmt.Sprintf("i=%d", h.iterations)
	switch h.form {
	case pbkdf2Length:
		parameters += fmt.Sprintf(",l=%d", len(h.tag))
	case pbkdf2PHC:
	case pbkdf2Passlib:
		parameters = parameters[len("i="):]
	}
	return "$" + h.scheme + "$" + parameters + "$" + h.encoding().EncodeToString(h.salt) + "$" + h.encoding().EncodeToString(h.tag)
}

// verify rejects a NUL, because HMAC appends them to short keys: "a" and "a\x00" have the same hash.
func (h *pbkdf2Hash) verify(secret string) bool {
	if strings.Contains(secret, "\x00") {
		return false
	}
	var tag []byte
	var err error
	if h.scheme == schemePBKDF2SHA512 {
		tag, err = pbkdf2.Key(sha512.New, secret, h.salt, int(h.iterations), len(h.tag))
	} else {
		tag, err = pbkdf2.Key(sha256.New, secret, h.salt, int(h.iterations), len(h.tag))
	}
	// It fails only in the strict FIPS 140 mode, for short salts.
	return err == nil && subtle.ConstantTimeCompare(tag, h.tag) == 1
}

func (h *pbkdf2Hash) saltBytes() []byte { return h.salt }

func (h *pbkdf2Hash) memory() int64 { return pbkdf2Memory }
