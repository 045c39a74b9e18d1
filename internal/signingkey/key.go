package signingkey

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// State is the state of a key in its rotation.
type State string

// The states of a key. A key is published in every state and signs only in Active.
const (
	// Pending means that the key is published in advance, so that verifiers know it before it
	// signs.
	Pending State = "Pending"
	// Active means that the key signs. Each realm has one Active key, and none before its first key is
	// published.
	Active State = "Active"
	// Retiring means that the key no longer signs. It remains published until all tokens that it
	// signed have expired.
	Retiring State = "Retiring"
)

// ErrKey means that an encoded key can't be used.
var ErrKey = errors.New("key not valid")

// Key is a signing key with its state and history. Its private part is either in plaintext or sealed; a
// sealed key can't sign. A Retiring key has none, because it only verifies.
type Key struct {
	// ID is the key's "kid". It is the RFC 7638 thumbprint, so equal keys have equal IDs.
	ID        string
	Algorithm Algorithm
	State     State
	CreatedAt time.Time
	// PublishedAt is the time since which every live token server has published the key. It is zero
	// until that is known, and for a first key that did not wait for it.
	PublishedAt time.Time
	// ActiveAt is the time at which the key began to sign. It is zero until then.
	ActiveAt time.Time
	// RetiredAt is the time since which no live token server has signed with the key. It is zero
	// until that is known.
	RetiredAt time.Time
	// LongestLifetime is the longest lifetime of a token signed by this key.
	LongestLifetime time.Duration

	public  crypto.PublicKey
	private crypto.Signer // nil if the key is sealed or Retiring
	sealed  *Sealed       // nil unless the key is sealed
}

// Generate generates a Pending key.
//
// Errors: ErrAlgorithm, and errors from random.
func Generate(algorithm Algorithm, now time.Time, random io.Reader) (Key, error) {
	private, err := newPrivateKey(algorithm, random)
	if err != nil {
		return Key{}, fmt.Errorf("generating a signing key: %w", err)
	}
	id, err := thumbprint(private.Public())
	if err != nil {
		return Key{}, err
	}
	return Key{ID: id, Algorithm: algorithm, State: Pending, CreatedAt: now, public: private.Public(), private: private}, nil
}

// Public returns the public part of the key.
func (k *Key) Public() PublicKey {
	return PublicKey{id: k.ID, algorithm: k.Algorithm, key: k.public}
}

// storedKey is the encoding of a Key in a record.
type storedKey struct {
	JWK             json.RawMessage `json:"jwk"`
	Sealed          *Sealed         `json:"sealed,omitempty"`
	State           State           `json:"state"`
	CreatedAt       time.Time       `json:"createdAt"`
	PublishedAt     time.Time       `json:"publishedAt,omitzero"`
	ActiveAt        time.Time       `json:"activeAt,omitzero"`
	RetiredAt       time.Time       `json:"retiredAt,omitzero"`
	LongestLifetime int64           `json:"longestLifetimeSeconds,omitempty"`
}

// InPlaintext reports whether the key has a private part that is not encrypted.
func (k *Key) InPlaintext() bool { return k.private != nil }

// Retire makes the key Retiring, and drops its private part.
func (k *Key) Retire() { k.State, k.private, k.sealed = Retiring, nil, nil }

// MarshalJSON writes the key as a JWK (RFC 7517), together with its state. The JWK has private members
// unless the key is sealed or Retiring.
func (k Key) MarshalJSON() ([]byte, error) {
	if k.State == Retiring {
		k.Retire()
	}
	jwk := jose.JSONWebKey{Key: k.public, KeyID: k.ID, Algorithm: string(k.Algorithm), Use: "sig"}
	if k.InPlaintext() {
		jwk.Key = k.private
	}
	encoded, err := json.Marshal(jwk)
	if err != nil {
		return nil, fmt.Errorf("encoding key %q: %w", k.ID, err)
	}
	return json.Marshal(storedKey{
		JWK:             encoded,
		Sealed:          k.sealed,
		State:           k.State,
		CreatedAt:       k.CreatedAt.UTC(),
		PublishedAt:     k.PublishedAt.UTC(),
		ActiveAt:        k.ActiveAt.UTC(),
		RetiredAt:       k.RetiredAt.UTC(),
		LongestLifetime: int64(k.LongestLifetime / time.Second),
	})
}

// UnmarshalJSON reads the output of MarshalJSON. It returns ErrKey if the key is neither private nor
// sealed, or is both, or is Retiring and either, does not match its algorithm, has an ID other than its
// thumbprint, has an unknown state, has private and public members of different keys, or has a lifetime
// out of range.
func (k *Key) UnmarshalJSON(data []byte) error {
	var stored storedKey
	var header struct {
		ID        string    `json:"kid"`
		Algorithm Algorithm `json:"alg"`
	}
	if json.Unmarshal(data, &stored) != nil || json.Unmarshal(stored.JWK, &header) != nil {
		// Don't wrap the decoder's error, because it may quote key material.
		return fmt.Errorf("%w: it is not a JWK with a state", ErrKey)
	}
	parsed := Key{Algorithm: header.Algorithm, sealed: stored.Sealed}
	if err := parsed.readJWK(stored); err != nil {
		return err
	}
	if !parsed.Algorithm.matches(parsed.public) {
		return fmt.Errorf("%w: %w %q for this key", ErrKey, ErrAlgorithm, parsed.Algorithm)
	}
	id, err := thumbprint(parsed.public)
	if err != nil {
		return err
	}
	if id != header.ID {
		return fmt.Errorf("%w: its ID %q is not its thumbprint", ErrKey, header.ID)
	}
	switch stored.State {
	case Pending, Active, Retiring:
	default:
		return fmt.Errorf("%w: unknown state %q of key %q", ErrKey, stored.State, id)
	}
	if stored.LongestLifetime < 0 || stored.LongestLifetime > int64(math.MaxInt64/time.Second) {
		return fmt.Errorf("%w: the longest lifetime of key %q is out of range", ErrKey, id)
	}
	parsed.ID, parsed.State = id, stored.State
	parsed.CreatedAt, parsed.PublishedAt, parsed.ActiveAt, parsed.RetiredAt = stored.CreatedAt, stored.PublishedAt, stored.ActiveAt, stored.RetiredAt
	parsed.LongestLifetime = time.Duration(stored.LongestLifetime) * time.Second
	*k = parsed
	return nil
}

// readJWK reads the public part of a stored key, and its private part unless it is sealed or Retiring.
func (k *Key) readJWK(stored storedKey) error {
	var jwk jose.JSONWebKey
	var err error
	switch {
	case stored.State == Retiring && stored.Sealed != nil:
		return fmt.Errorf("%w: a retiring key has a sealed part", ErrKey)
	case stored.State == Retiring:
		jwk, err = parseJWK(stored.JWK, "sig")
	case stored.Sealed != nil:
		jwk, err = parseSealed(stored.JWK, stored.Sealed)
	default:
		if k.private, err = parsePrivate(stored.JWK); err == nil {
			jwk.Key = k.private.Public()
		}
	}
	k.public = jwk.Key
	return err
}

func thumbprint(public crypto.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("computing the thumbprint of a signing key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
