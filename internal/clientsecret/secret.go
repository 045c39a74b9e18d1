// Package clientsecret makes client secrets, hashes them, and verifies them.
//
// A generated secret carries 256 random bits, so a fast keyed hash protects it as
// well as a slow one would, and the token endpoint can't be exhausted by wrong ones. One that
// a person may have chosen needs the slow one.
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

// Length is the number of characters of a generated secret.
const Length = len(prefix) + entropyDigits + checksumDigits

// Generate makes a secret: "rk_", 43 base62 characters that hold 256 bits read from
// random, and 6 base62 characters of their CRC-32, which let scanners and typing
// slips be told from secrets. Every character stands for itself in a URL, a header and YAML.
//
// The error is random's.
func Generate(random io.Reader) (string, error) {
	var entropy [entropyBytes]byte
	if _, err := io.ReadFull(random, entropy[:]); err != nil {
		return "", fmt.Errorf("reading random bytes for a client secret: %w", err)
	}
	var n big.Int
	payload := prefix + base62(n.SetBytes(entropy[:]), entropyDigits)
	return payload + checksum(payload), nil
}

// WellFormed reports whether s has the shape and the checksum of a generated secret.
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

// base62 writes n with the given number of digits, most significant first.
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
