package clientsecret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

const schemeArgon2id = "argon2id"

// DefaultArgon2idMemory is the number of bytes that verifying a hash of HashSlowly uses.
const DefaultArgon2idMemory = slowMemoryKiB << 10

// What HashSlowly makes: the second choice of the OWASP recommendations, with little memory, since a
// token server verifies several at a time.
const (
	slowMemoryKiB   = 19 << 10
	slowIterations  = 2
	slowParallelism = 1
	slowTagBytes    = 32
)

// The bounds within which the parameters of others are accepted. The upper ones keep one
// verification from taking a token server's memory or time, the lower ones are RFC 9106's.
const (
	maxMemoryKiB    = 64 << 10
	maxIterations   = 4
	maxParallelism  = 4
	minMemoryFactor = 8 // KiB for each lane
	minSlowSalt     = 8
	maxSlowSalt     = 64
	minSlowTag      = 16
	maxSlowTag      = 64
)

// argon2idHash is an Argon2id hash (RFC 9106) and what it was made with.
type argon2idHash struct {
	memoryKiB   uint32
	iterations  uint32
	parallelism uint8
	salt, tag   []byte
}

// HashSlowly makes the verifier of a secret that a person may have chosen: Argon2id with 19
// MiB, 2 passes, 1 lane, and a salt of 16 bytes read from random.
//
// The error is random's.
func HashSlowly(secret string, random io.Reader) (Verifier, error) {
	h := &argon2idHash{
		memoryKiB: slowMemoryKiB, iterations: slowIterations, parallelism: slowParallelism,
		salt: make([]byte, saltBytes), tag: make([]byte, slowTagBytes),
	}
	if _, err := io.ReadFull(random, h.salt); err != nil {
		return Verifier{}, fmt.Errorf("reading a random salt: %w", err)
	}
	h.tag = h.sum(secret)
	return Verifier{slow: h}, nil
}

// Slow reports whether the verifier takes milliseconds and megabytes.
func (v *Verifier) Slow() bool { return v.slow != nil }

// Memory is how many bytes a verification takes beyond the stack.
func (v *Verifier) Memory() int64 {
	if v.slow == nil {
		return 0
	}
	return int64(v.slow.memoryKiB) << 10
}

// parseArgon2id reads the fields of a PHC string after the scheme: v=19, then m, t and p
// in this order, salt and tag.
func parseArgon2id(fields []string) (*argon2idHash, error) {
	if len(fields) != 4 {
		return nil, ErrHashFormat
	}
	if fields[0] != "v="+strconv.Itoa(argon2.Version) {
		return nil, ErrHashParameters
	}
	numbers, ok := parseParameters(fields[1], "m", "t", "p")
	if !ok {
		return nil, ErrHashFormat
	}
	salt, okSalt := decodeWithin(fields[2], minSlowSalt, maxSlowSalt)
	tag, okTag := decodeWithin(fields[3], minSlowTag, maxSlowTag)
	if !okSalt || !okTag {
		return nil, ErrHashFormat
	}
	m, t, p := numbers[0], numbers[1], numbers[2]
	if m > maxMemoryKiB || t < 1 || t > maxIterations || p < 1 || p > maxParallelism || m < minMemoryFactor*p {
		return nil, ErrHashParameters
	}
	return &argon2idHash{memoryKiB: m, iterations: t, parallelism: uint8(p), salt: salt, tag: tag}, nil
}

// parseParameters reads "m=19456,t=2,p=1": decimal numbers of at most 9 digits without leading zeros.
func parseParameters(s string, names ...string) ([]uint32, bool) {
	fields := strings.Split(s, ",")
	if len(fields) != len(names) {
		return nil, false
	}
	numbers := make([]uint32, len(names))
	for i, name := range names {
		digits, ok := strings.CutPrefix(fields[i], name+"=")
		n, err := strconv.ParseUint(digits, 10, 30)
		if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
			return nil, false
		}
		numbers[i] = uint32(n)
	}
	return numbers, true
}

func decodeWithin(s string, shortest, longest int) ([]byte, bool) {
	n := encoding.DecodedLen(len(s))
	if n < shortest || n > longest {
		return nil, false
	}
	dst := make([]byte, n)
	return dst, decodeExactly(dst, s)
}

func (h *argon2idHash) String() string {
	return fmt.Sprintf("$%s$v=%d$m=%d,t=%d,p=%d$%s$%s", schemeArgon2id, argon2.Version,
		h.memoryKiB, h.iterations, h.parallelism, encoding.EncodeToString(h.salt), encoding.EncodeToString(h.tag))
}

func (h *argon2idHash) verify(secret string) bool {
	return subtle.ConstantTimeCompare(h.sum(secret), h.tag) == 1
}

func (h *argon2idHash) sum(secret string) []byte {
	return argon2.IDKey([]byte(secret), h.salt, h.iterations, h.memoryKiB, h.parallelism, uint32(len(h.tag)))
}
