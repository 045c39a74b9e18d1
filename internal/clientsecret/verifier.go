package clientsecret

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
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
	// ErrHashFormat means that a hash is not in PHC string format or exceeds its bounds.
	ErrHashFormat = errors.New("hash must have the form $hmac-sha256$<salt>$<mac> or $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>")
	// ErrHashScheme means that the scheme of a hash is not supported.
	ErrHashScheme = errors.New("hash scheme not supported; use argon2id, or hmac-sha256 for randomly generated secrets")
	// ErrHashParameters means that the version or parameters of a hash are not supported.
	ErrHashParameters = errors.New("hash parameters not supported; argon2id requires v=19, m from 8 to 65536 KiB and at least 8 per lane, t from 1 to 4, p from 1 to 4")
)

// encoding is the Base64 encoding of the PHC string format. It has no padding and only one encoding
// per value.
var encoding = base64.RawStdEncoding.Strict()

// Verifier verifies a secret with its HMAC or Argon2id hash. It does not contain the secret.
type Verifier struct {
	salt     [saltBytes]byte
	mac      [sha256.Size]byte
	argon2id *argon2idHash // nil: HMAC
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

// ParseVerifier parses the output of Verifier.String. It is a PHC string:
//
//   - $hmac-sha256$<salt>$<mac>, where salt has 16 bytes and mac has 32 bytes
//   - $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, where salt has 8 to 64 bytes and tag has
//     16 to 64 bytes
//
// Salt, mac and tag are Base64 without padding. Each verifier has only one valid string.
//
// Errors: ErrHashFormat; ErrHashScheme for a PHC string with a different scheme; ErrHashParameters
// for Argon2id with more than 64 MiB, 4 passes or 4 lanes.
func ParseVerifier(phc string) (Verifier, error) {
	fields := strings.Split(phc, "$")
	if len(fields) < 3 || fields[0] != "" || fields[1] == "" {
		return Verifier{}, ErrHashFormat
	}
	switch fields[1] {
	case schemeHMAC:
	case schemeArgon2id:
		hash, err := parseArgon2id(fields[2:])
		return Verifier{argon2id: hash}, err
	default:
		return Verifier{}, ErrHashScheme
	}
	var v Verifier
	if len(fields) != 4 || !decodeExactly(v.salt[:], fields[2]) || !decodeExactly(v.mac[:], fields[3]) {
		return Verifier{}, ErrHashFormat
	}
	return v, nil
}

// String returns the PHC string that ParseVerifier parses. It does not contain the secret.
func (v Verifier) String() string {
	if v.argon2id != nil {
		return v.argon2id.String()
	}
	return "$" + schemeHMAC + "$" + encoding.EncodeToString(v.salt[:]) + "$" + encoding.EncodeToString(v.mac[:])
}

// Verify reports whether secret is the secret of v. It compares digests in constant time.
func (v *Verifier) Verify(secret string) bool {
	if v.argon2id != nil {
		return v.argon2id.verify(secret)
	}
	mac := v.sum(secret)
	return subtle.ConstantTimeCompare(mac[:], v.mac[:]) == 1
}

// Credential is a verifier with an ID and an expiration.
type Credential struct {
	// ID identifies the secret in status and audit events. It reveals nothing about the secret.
	ID       string
	Verifier Verifier
	// ExpiresAt is the time at which the secret expires. If zero, the secret does not expire.
	ExpiresAt time.Time
}

// Current reports whether the credential is unexpired.
func (c *Credential) Current(now time.Time) bool {
	return c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt)
}

// VerifyHMAC returns the credential that accepts secret, or nil. It considers only current
// credentials with an HMAC. It always evaluates all HMACs, or a dummy if there are none. Its
// running time therefore reveals neither whether a credential matched nor which one.
func VerifyHMAC(credentials []Credential, secret string, now time.Time) *Credential {
	matched, evaluated := -1, 0
	for i := range credentials {
		c := &credentials[i]
		if c.Verifier.argon2id != nil {
			continue
		}
		evaluated++
		mac := c.Verifier.sum(secret)
		match := subtle.ConstantTimeCompare(mac[:], c.Verifier.mac[:])
		if !c.Current(now) {
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
	return &credentials[matched]
}

// dummy is the verifier for clients that don't exist or have no HMAC credentials. Its result is
// never used. Only a preimage of the all-zero MAC would match it.
var dummy Verifier

// sum returns the HMAC-SHA-256 (RFC 2104) of secret, keyed with the salt.
func (v *Verifier) sum(secret string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, v.salt[:])
	mac.Write([]byte(secret))
	return [sha256.Size]byte(mac.Sum(nil))
}

// decodeExactly decodes Base64 into dst and requires exactly len(dst) bytes.
func decodeExactly(dst []byte, s string) bool {
	// The decoder ignores line breaks, which are not allowed in a PHC string.
	if encoding.DecodedLen(len(s)) != len(dst) || strings.ContainsAny(s, "\r\n") {
		return false
	}
	n, err := encoding.Decode(dst, []byte(s))
	return err == nil && n == len(dst)
}

// ID returns a short ID of the secret for status and logs. It is computed from the salt, so it
// reveals nothing about the secret.
func (v Verifier) ID() string {
	salt := v.salt[:]
	if v.argon2id != nil {
		salt = v.argon2id.salt
	}
	sum := sha256.Sum256(salt)
	return hex.EncodeToString(sum[:6])
}
