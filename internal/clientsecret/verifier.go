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
	// ErrHashFormat says that a hash is not in PHC string format or breaks one of its bounds.
	ErrHashFormat = errors.New("not a hash in the form $hmac-sha256$<salt>$<mac> or $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>")
	// ErrHashScheme says that a hash names a scheme that is not supported.
	ErrHashScheme = errors.New("hash scheme not supported; use argon2id, or hmac-sha256 for secrets that a machine made")
	// ErrHashParameters says that a hash has a version or parameters that are not supported.
	ErrHashParameters = errors.New("hash parameters not supported; argon2id needs v=19, m of 8 to 65536 KiB and at least 8 for each lane, t of 1 to 4, p of 1 to 4")
)

// encoding is the Base64 of the PHC string format: no padding, one spelling for each value.
var encoding = base64.RawStdEncoding.Strict()

// Verifier checks a secret without holding it: by HMAC, or slowly by Argon2id.
type Verifier struct {
	salt [saltBytes]byte
	mac  [sha256.Size]byte
	slow *argon2idHash // nil: HMAC
}

// Hash makes the verifier of a generated secret: HMAC-SHA-256 (RFC 2104) over the
// secret, keyed with a salt of 16 bytes read from random.
//
// The error is random's.
func Hash(secret string, random io.Reader) (Verifier, error) {
	var v Verifier
	if _, err := io.ReadFull(random, v.salt[:]); err != nil {
		return Verifier{}, fmt.Errorf("reading a random salt: %w", err)
	}
	v.mac = v.sum(secret)
	return v, nil
}

// ParseVerifier reads the PHC string that Verifier.String writes:
// $hmac-sha256$<salt>$<mac>, with 16 and 32 bytes in unpadded Base64, or
// $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<tag>, with 8 to 64 and 16 to 64
// bytes. A verifier has one spelling.
//
// Errors: ErrHashFormat; ErrHashScheme for a PHC string of another scheme;
// ErrHashParameters for Argon2id beyond 64 MiB, 4 passes or 4 lanes.
func ParseVerifier(phc string) (Verifier, error) {
	fields := strings.Split(phc, "$")
	if len(fields) < 3 || fields[0] != "" || fields[1] == "" {
		return Verifier{}, ErrHashFormat
	}
	switch fields[1] {
	case schemeHMAC:
	case schemeArgon2id:
		slow, err := parseArgon2id(fields[2:])
		return Verifier{slow: slow}, err
	default:
		return Verifier{}, ErrHashScheme
	}
	var v Verifier
	if len(fields) != 4 || !decodeExactly(v.salt[:], fields[2]) || !decodeExactly(v.mac[:], fields[3]) {
		return Verifier{}, ErrHashFormat
	}
	return v, nil
}

// String returns the PHC string that ParseVerifier reads. It doesn't hold the secret.
func (v Verifier) String() string {
	if v.slow != nil {
		return v.slow.String()
	}
	return "$" + schemeHMAC + "$" + encoding.EncodeToString(v.salt[:]) + "$" + encoding.EncodeToString(v.mac[:])
}

// Verify reports whether secret is the one that v was made of, in a time that
// doesn't depend on where they differ.
func (v *Verifier) Verify(secret string) bool {
	if v.slow != nil {
		return v.slow.verify(secret)
	}
	mac := v.sum(secret)
	return subtle.ConstantTimeCompare(mac[:], v.mac[:]) == 1
}

// Credential is a verifier and the time for which it counts.
type Credential struct {
	// ID names the secret in status and audit. It tells nothing about it.
	ID       string
	Verifier Verifier
	// ExpiresAt is from when on the secret is refused; zero: never.
	ExpiresAt time.Time
}

// Current reports whether the credential counts at that time.
func (c *Credential) Current(now time.Time) bool {
	return c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt)
}

// VerifyFast returns the credential that accepts secret, of those that are current and not
// slow, or nil. It always evaluates all of them, and one that nothing passes when there are none, so that
// the time taken tells neither which one matched nor whether there was any.
func VerifyFast(credentials []Credential, secret string, now time.Time) *Credential {
	matched, evaluated := -1, 0
	for i := range credentials {
		c := &credentials[i]
		if c.Verifier.slow != nil {
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
		nobody.Verify(secret)
	}
	if matched < 0 {
		return nil
	}
	return &credentials[matched]
}

// nobody stands in for the verifier of a client that doesn't exist: finding a secret for an
// all-zero MAC is a preimage of SHA-256, and its result is never used.
var nobody Verifier

// sum returns the HMAC-SHA-256 (RFC 2104) of secret, keyed with the salt.
func (v *Verifier) sum(secret string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, v.salt[:])
	mac.Write([]byte(secret))
	return [sha256.Size]byte(mac.Sum(nil))
}

func decodeExactly(dst []byte, s string) bool {
	// The decoder passes over line breaks, which a PHC string can't hold.
	if encoding.DecodedLen(len(s)) != len(dst) || strings.ContainsAny(s, "\r\n") {
		return false
	}
	n, err := encoding.Decode(dst, []byte(s))
	return err == nil && n == len(dst)
}

// ID returns a short name for the secret behind the verifier, for status and logs. It is
// computed from the salt, so that it tells nothing about the secret.
func (v Verifier) ID() string {
	salt := v.salt[:]
	if v.slow != nil {
		salt = v.slow.salt
	}
	sum := sha256.Sum256(salt)
	return hex.EncodeToString(sum[:6])
}
