package clientsecret

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	schemeHMAC = "hmac-sha256"
	saltBytes  = 16
)

var (
	// ErrHashFormat means that a hash is not in the format of its scheme or exceeds its bounds.
	ErrHashFormat = errors.New("hash must have the form $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, $hmac-sha256$<salt>$<mac>, $pbkdf2-sha256$i=<iterations>,l=<bytes>$<salt>$<tag>, or $2b$<cost>$<salt and tag>, in Base64 without padding")
	// ErrHashScheme means that the scheme of a hash is not supported.
	ErrHashScheme = errors.New("hash scheme not supported; use argon2id, or hmac-sha256 for randomly generated secrets; pbkdf2-sha256, pbkdf2-sha512, and bcrypt (2a, 2b, and 2y) are accepted for secrets from other systems")
	// ErrHashParameters means that the version or parameters of a hash are not supported.
	ErrHashParameters = errors.New("hash parameters not supported; argon2id requires v=19, m up to 65536 KiB, t from 1 to 4, p from 1 to 4; pbkdf2 allows up to 1000000 iterations, and bcrypt a cost up to 12")
	// ErrHashTooWeak means that the parameters of a hash are below the accepted minimum.
	ErrHashTooWeak = errors.New("hash is too easy to brute-force; argon2id requires at least m=47104 with t=1, m=19456 with t=2, m=12288 with t=3, or m=9216 with t=4; pbkdf2 requires at least 10000 iterations, and bcrypt a cost of at least 08")
)

// Verifier verifies a secret with its HMAC or slow hash. It does not contain the secret.
type Verifier struct {
	salt [saltBytes]byte
	mac  [sha256.Size]byte
	slow slowHash // nil: HMAC
}

// Hash returns the verifier of a generated secret: HMAC-SHA-256 (RFC 2104) of the secret, keyed
// with a salt of 16 bytes read from random.
//
// It fails only if reading random fails.
func Hash(secret string, random io.Reader) (Verifier, error) {
	var v Verifier
	if _, err := io.ReadFull(random, v.salt[:]); err != nil {
		return Verifier{}, fmt.Errorf("reading a random salt: %w", err)
	}
	v.mac = v.sum(secret)
	return v, nil
}

// ParseVerifier parses the output of Verifier.String. It is a string in PHC format, or in the format
// of passlib or crypt(3):
//
//   - $hmac-sha256$<salt>$<mac>, where salt has 16 bytes and mac has 32 bytes
//   - $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, where salt has 8 to 64 bytes and tag has
//     16 to 64 bytes
//   - $pbkdf2-sha256$<iterations>$<salt>$<tag> and $pbkdf2-sha512$<iterations>$<salt>$<tag>, where
//     iterations has the form i=<number>,l=<bytes of tag> or i=<number>, or is just a number as in
//     passlib, salt has 8 to 64 bytes, and tag has 16 to 32 bytes (SHA-256) or 64 bytes (SHA-512)
//   - $2a$<cost>$<salt><tag>, also with 2b and 2y: bcrypt
//
// Salt, mac and tag are Base64 without padding. bcrypt has its own alphabet. passlib writes a dot
// instead of a plus sign. Each verifier has only one valid string.
//
// Errors: ErrHashFormat; ErrHashScheme for a different scheme; ErrHashParameters for Argon2id with
// more than 64 MiB, 4 passes or 4 lanes, PBKDF2 with more than 1,000,000 iterations, and bcrypt with
// a cost above 12; ErrHashTooWeak for Argon2id below the OWASP minimum, PBKDF2 with fewer than 10,000
// iterations, and bcrypt with a cost below 8.
func ParseVerifier(phc string) (Verifier, error) {
	fields := strings.Split(phc, "$")
	if len(fields) < 3 || fields[0] != "" || fields[1] == "" {
		return Verifier{}, ErrHashFormat
	}
	switch scheme := fields[1]; scheme {
	case schemeHMAC:
		return parseHMAC(fields[2:])
	case schemeArgon2id:
		return slowVerifier(parseArgon2id(fields[2:]))
	case schemePBKDF2SHA256, schemePBKDF2SHA512:
		return slowVerifier(parsePBKDF2(phc, scheme, fields[2:]))
	case schemeBcrypt2A, schemeBcrypt2B, schemeBcrypt2Y:
		return slowVerifier(parseBcrypt(phc, fields[2:]))
	}
	return Verifier{}, ErrHashScheme
}

func slowVerifier[T slowHash](h T, err error) (Verifier, error) {
	if err != nil {
		return Verifier{}, err
	}
	return Verifier{slow: h}, nil
}

func parseHMAC(fields []string) (Verifier, error) {
	var v Verifier
	if len(fields) != 2 || !decodeExactly(encoding, v.salt[:], fields[0]) || !decodeExactly(encoding, v.mac[:], fields[1]) {
		return Verifier{}, ErrHashFormat
	}
	return v, nil
}

// String returns the string that ParseVerifier parses. It does not contain the secret.
func (v Verifier) String() string {
	if v.slow != nil {
		return v.slow.String()
	}
	return "$" + schemeHMAC + "$" + encoding.EncodeToString(v.salt[:]) + "$" + encoding.EncodeToString(v.mac[:])
}

// Verify reports whether secret is the secret of v. It compares digests in constant time.
func (v *Verifier) Verify(secret string) bool {
	if v.slow != nil {
		return v.slow.verify(secret)
	}
	mac := v.sum(secret)
	return subtle.ConstantTimeCompare(mac[:], v.mac[:]) == 1
}

// Stored is a stored secret: a verifier with an ID and an expiration.
type Stored struct {
	// ID identifies the secret in status and audit events. It reveals nothing about the secret.
	ID       string
	Verifier Verifier
	// ExpiresAt is the time at which the secret expires. If zero, the secret does not expire.
	ExpiresAt time.Time
}

// Unexpired reports whether the secret is unexpired.
func (s *Stored) Unexpired(now time.Time) bool {
	return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)
}

// VerifyHMAC returns the stored secret that accepts secret, or nil. It considers only unexpired ones with
// an HMAC. It always evaluates all HMACs, or a dummy if there are none. Its running time therefore reveals
// neither whether a stored secret matched nor which one.
func VerifyHMAC(stored []Stored, secret string, now time.Time) *Stored {
	matched, evaluated := -1, 0
	for i := range stored {
		s := &stored[i]
		if s.Verifier.slow != nil {
			continue
		}
		evaluated++
		mac := s.Verifier.sum(secret)
		match := subtle.ConstantTimeCompare(mac[:], s.Verifier.mac[:])
		if !s.Unexpired(now) {
			match = 0
		}
		matched = subtle.ConstantTimeSelect(match, i, matched)
	}
	if evaluated == 0 {
		dummy.Verify(secret)
	}
	if matched < 0 {
		return nil
	}
	return &stored[matched]
}

// dummy is the verifier for clients that don't exist or have no secrets with an HMAC. Its result is
// never used. Only a preimage of the all-zero MAC would match it.
var dummy Verifier

// sum returns the HMAC-SHA-256 (RFC 2104) of secret, keyed with the salt.
func (v *Verifier) sum(secret string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, v.salt[:])
	mac.Write([]byte(secret))
	return [sha256.Size]byte(mac.Sum(nil))
}

// ID returns a short ID of the secret for status and logs. It is computed from the salt, so it
// reveals nothing about the secret.
func (v Verifier) ID() string {
	salt := v.salt[:]
	if v.slow != nil {
		salt = v.slow.saltBytes()
	}
	sum := sha256.Sum256(salt)
	return hex.EncodeToString(sum[:6])
}
