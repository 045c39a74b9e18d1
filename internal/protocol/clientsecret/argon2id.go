package clientsecret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/crypto/argon2"
)

const schemeArgon2id = "argon2id"

// Parameters of HashArgon2id. They are OWASP's second recommended option, which uses less memory
// than the first, because a token server verifies several hashes concurrently.
const (
	defaultMemoryKiB   = 19 << 10
	defaultIterations  = 2
	defaultParallelism = 1
	defaultTagBytes    = 32
)

// The accepted parameters of hashes created elsewhere. The upper bounds limit the memory and time
// of one verification on a token server.
const (
	maxMemoryKiB   = 64 << 10
	maxIterations  = 4
	maxParallelism = 4
	minSaltBytes   = 8
	maxSaltBytes   = 64
	minTagBytes    = 16
	maxTagBytes    = 64
)

// minMemoryKiB contains the smallest accepted memory for 1 to maxIterations passes. These are the
// minimum configurations of the OWASP Password Storage Cheat Sheet.
var minMemoryKiB = [maxIterations]uint32{46 << 10, 19 << 10, 12 << 10, 9 << 10}

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
	return Verifier{slow: h}, nil
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
	salt, okSalt := decodeWithin(encoding, fields[2], minSaltBytes, maxSaltBytes)
	tag, okTag := decodeWithin(encoding, fields[3], minTagBytes, maxTagBytes)
	if !okSalt || !okTag {
		return nil, ErrHashFormat
	}
	m, t, p := numbers[0], numbers[1], numbers[2]
	if m > maxMemoryKiB || t < 1 || t > maxIterations || p < 1 || p > maxParallelism {
		return nil, ErrHashParameters
	}
	if m < minMemoryKiB[t-1] {
		return nil, ErrHashTooWeak
	}
	return &argon2idHash{memoryKiB: m, iterations: t, parallelism: uint8(p), salt: salt, tag: tag}, nil
}

func (h *argon2idHash) String() string {
	return fmt.Sprintf("$%s$v=%d$m=%d,t=%d,p=%d$%s$%s", schemeArgon2id, argon2.Version,
		h.memoryKiB, h.iterations, h.parallelism, encoding.EncodeToString(h.salt), encoding.EncodeToString(h.tag))
}

func (h *argon2idHash) verify(secret string) bool {
	return subtle.ConstantTimeCompare(h.sum(secret), h.tag) == 1
}

func (h *argon2idHash) saltBytes() []byte { return h.salt }

func (h *argon2idHash) memory() int64 { return int64(h.memoryKiB) << 10 }

func (h *argon2idHash) sum(secret string) []byte {
	return argon2.IDKey([]byte(secret), h.salt, h.iterations, h.memoryKiB, h.parallelism, uint32(len(h.tag)))
}
