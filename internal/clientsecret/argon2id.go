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

// DefaultArgon2idMemory is the number of bytes needed to verify a hash created by HashArgon2id.
const DefaultArgon2idMemory = defaultMemoryKiB << 10

// Parameters of HashArgon2id. They are OWASP's second recommended option, which uses less memory
// than the first, because a token server verifies several hashes concurrently.
const (
	defaultMemoryKiB   = 19 << 10
	defaultIterations  = 2
	defaultParallelism = 1
	defaultTagBytes    = 32
)

// The accepted parameters of hashes created elsewhere. The upper bounds limit the memory and time
// of one verification on a token server. The lower bounds come from RFC 9106.
const (
	maxMemoryKiB    = 64 << 10
	maxIterations   = 4
	maxParallelism  = 4
	minMemoryFactor = 8 // KiB per lane
	minArgon2idSalt = 8
	maxArgon2idSalt = 64
	minArgon2idTag  = 16
	maxArgon2idTag  = 64
)

// argon2idHash is an Argon2id hash (RFC 9106) with its parameters.
type argon2idHash struct {
	memoryKiB   uint32
	iterations  uint32
	parallelism uint8
	salt, tag   []byte
}

// HashArgon2id returns the verifier of a user-chosen secret: Argon2id with 19 MiB, 2 passes, 1
// lane, and a salt of 16 bytes read from random.
//
// It fails only if reading random fails.
func HashArgon2id(secret string, random io.Reader) (Verifier, error) {
	h := &argon2idHash{
		memoryKiB: defaultMemoryKiB, iterations: defaultIterations, parallelism: defaultParallelism,
		salt: make([]byte, saltBytes), tag: make([]byte, defaultTagBytes),
	}
	if _, err := io.ReadFull(random, h.salt); err != nil {
		return Verifier{}, fmt.Errorf("reading a random salt: %w", err)
	}
	h.tag = h.sum(secret)
	return Verifier{argon2id: h}, nil
}

// IsArgon2id reports whether the secret is hashed with Argon2id, so verification takes milliseconds
// of CPU and megabytes of memory.
func (v *Verifier) IsArgon2id() bool { return v.argon2id != nil }

// Memory returns the number of bytes of heap memory needed to verify a secret. It is 0 for HMAC.
func (v *Verifier) Memory() int64 {
	if v.argon2id == nil {
		return 0
	}
	return int64(v.argon2id.memoryKiB) << 10
}

// parseArgon2id parses the fields of a PHC string after the scheme: v=19, then m, t and p in this
// order, salt and tag.
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
	salt, okSalt := decodeWithin(fields[2], minArgon2idSalt, maxArgon2idSalt)
	tag, okTag := decodeWithin(fields[3], minArgon2idTag, maxArgon2idTag)
	if !okSalt || !okTag {
		return nil, ErrHashFormat
	}
	m, t, p := numbers[0], numbers[1], numbers[2]
	if m > maxMemoryKiB || t < 1 || t > maxIterations || p < 1 || p > maxParallelism || m < minMemoryFactor*p {
		return nil, ErrHashParameters
	}
	return &argon2idHash{memoryKiB: m, iterations: t, parallelism: uint8(p), salt: salt, tag: tag}, nil
}

// parseParameters parses "m=19456,t=2,p=1". The values are decimal numbers below 2^30 without
// leading zeros.
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

// decodeWithin decodes Base64 and requires shortest to longest decoded bytes.
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
