package clientsecret

// slowHash is a hash that takes milliseconds of CPU to verify, which makes guessing expensive.
type slowHash interface {
	String() string
	verify(secret string) bool
	saltBytes() []byte
	memory() int64
}

// IsSlow reports whether the secret is hashed with Argon2id, PBKDF2, or bcrypt, so verification
// takes milliseconds of CPU and, with Argon2id, megabytes of memory.
func (v *Verifier) IsSlow() bool { return v.slow != nil }

// IsWeak reports whether the secret is hashed with PBKDF2 or bcrypt. These hashes are only accepted
// so that secrets can be imported from other systems. Neither needs much memory, so special
// hardware can guess far more secrets than with Argon2id, and the accepted parameters include some
// below today's OWASP recommendations.
func (v *Verifier) IsWeak() bool {
	switch v.slow.(type) {
	case *pbkdf2Hash, *bcryptHash:
		return true
	}
	return false
}

// Memory returns the number of bytes of heap memory needed to verify a secret. It is 0 for HMAC.
func (v *Verifier) Memory() int64 {
	if v.slow == nil {
		return 0
	}
	return v.slow.memory()
}
