// Package clientsecret generates, hashes and verifies client secrets.
//
// Generated secrets have 256 random bits, so a fast keyed hash protects them as well as a slow one
// does, and attackers can't overload the token endpoint with wrong secrets. User-chosen secrets
// need a slow hash.
package clientsecret

import (
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
)

const (
	prefix         = "rk_"
	entropyBytes   = 32
	entropyDigits  = 43 // 62^43 > 2^256
	checksumDigits = 6  // 62^6 > 2^32

	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Length is the number of characters in a generated secret.
const Length = len(prefix) + entropyDigits + checksumDigits

// Generate generates a secret: "rk_", 43 base62 characters with 256 bits read from random, and 6
// base62 characters with their CRC-32. The checksum lets secret scanners recognize secrets and
// catches typos. No character needs escaping in URLs, headers or YAML.
//
// It fails only if reading random fails.
func Generate(random io.Reader) (string, error) {
	var entropy [entropyBytes]byte
	if _, err := io.ReadFull(random, entropy[:]); err != nil {
		return "", fmt.Errorf("reading random bytes for a client secret: %w", err)
	}
	var n big.Int
	payload := prefix + base62(n.SetBytes(entropy[:]), entropyDigits)
	return payload + checksum(payload), nil
}

// WellFormed reports whether s has the form and the checksum of a generated secret.
func WellFormed(s string) bool {
	if len(s) != Length || !strings.HasPrefix(s, prefix) {
		return false
	}
	payload := s[:Length-checksumDigits]
	return strings.Trim(payload[len(prefix):], alphabet) == "" && s[len(payload):] == checksum(payload)
}

func checksum(payload string) string {
	sum := crc32.ChecksumIEEE([]byte(payload))
	return base62(new(big.Int).SetUint64(uint64(sum)), checksumDigits)
}

// base62 returns n with the given number of digits, most significant first.
func base62(n *big.Int, digits int) string {
	var (
		base = big.NewInt(int64(len(alphabet)))
		rest = new(big.Int)
		out  = make([]byte, digits)
	)
	for i := digits - 1; i >= 0; i-- {
		n.DivMod(n, base, rest)
		out[i] = alphabet[rest.Int64()]
	}
	return string(out)
}
