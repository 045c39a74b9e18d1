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
	// Active means that the key signs. Each realm has one Active key.
	Active State = "Active"
	// Retiring means that the key no longer signs. It remains published until all tokens that it
	// signed have expired.
	Retiring State = "Retiring"
)

// ErrKey means that an encoded key can't be used.
var ErrKey = errors.New("key not valid")

// Key is a private signing key with its state and history.
type Key struct {
	// ID is the key's "kid". It is the RFC 7638 thumbprint, so equal keys have equal IDs.
	ID        string
	Algorithm Algorithm
	State     State
	CreatedAt time.Time
	// PublishedAt is the time since which every live token server has published the key. It is zero
	// until that is known, and for keys that were never Pending.
	PublishedAt time.Time
	// ActiveAt is the time at which the key began to sign. It is zero until then.
	ActiveAt time.Time
	// RetiredAt is the time since which no live token server has signed with the key. It is zero
	// until that is known.
	RetiredAt time.Time
	// LongestLifetime is the longest lifetime of a token signed by this key.
	LongestLifetime time.Duration

	private crypto.Signer
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
	return Key{ID: id, Algorithm: algorithm, State: Pending, CreatedAt: now, private: private}, nil
}

// Public returns the public part of the key.
func (k *Key) Public() PublicKey {
	return PublicKey{id: k.ID, algorithm: k.Algorithm, key: k.private.Public()}
}

// storedKey is the encoding of a Key in a record.
type storedKey struct {
	JWK             jose.JSONWebKey `json:"jwk"`
	State           State           `json:"state"`
	CreatedAt       time.Time       `json:"createdAt"`
	PublishedAt     time.Time       `json:"publishedAt,omitzero"`
	ActiveAt        time.Time       `json:"activeAt,omitzero"`
	RetiredAt       time.Time       `json:"retiredAt,omitzero"`
	LongestLifetime int64           `json:"longestLifetimeSeconds,omitempty"`
}

// MarshalJSON writes the key as a JWK (RFC 7517) with its private members, together with its state.
func (k Key) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedKey{
		JWK:             jose.JSONWebKey{Key: k.private, KeyID: k.ID, Algorithm: string(k.Algorithm), Use: "sig"},
		State:           k.State,
		CreatedAt:       k.CreatedAt.UTC(),
		PublishedAt:     k.PublishedAt.UTC(),
		ActiveAt:        k.ActiveAt.UTC(),
		RetiredAt:       k.RetiredAt.UTC(),
		LongestLifetime: int64(k.LongestLifetime / time.Second),
	})
}

// UnmarshalJSON reads the output of MarshalJSON. It returns ErrKey if the key is only public, does
// not match its algorithm, has an ID other than its thumbprint, has an unknown state, has private
// and public members of different keys, or has a lifetime out of range.
func (k *Key) UnmarshalJSON(data []byte) error {
	var stored storedKey
	if err := json.Unmarshal(data, &stored); err != nil {
		// Don't wrap the decoder's error, because it may quote key material.
		return fmt.Errorf("%w: it is not a JWK with a state", ErrKey)
	}
	private, ok := stored.JWK.Key.(crypto.Signer)
	if !ok || !stored.JWK.Valid() {
		return fmt.Errorf("%w: it is not a valid private key", ErrKey)
	}
	algorithm := Algorithm(stored.JWK.Algorithm)
	if !algorithm.matches(private.Public()) {
		return fmt.Errorf("%w: %w %q for this key", ErrKey, ErrAlgorithm, algorithm)
	}
	if !consistent(private) {
		return fmt.Errorf("%w: its private and public members belong to different keys", ErrKey)
	}
	id, err := thumbprint(private.Public())
	if err != nil {
		return err
	}
	if id != stored.JWK.KeyID {
		return fmt.Errorf("%w: its ID %q is not its thumbprint", ErrKey, stored.JWK.KeyID)
	}
	switch stored.State {
	case Pending, Active, Retiring:
	default:
		return fmt.Errorf("%w: unknown state %q of key %q", ErrKey, stored.State, id)
	}
	if stored.LongestLifetime < 0 || stored.LongestLifetime > int64(math.MaxInt64/time.Second) {
		return fmt.Errorf("%w: the longest lifetime of key %q is out of range", ErrKey, id)
	}
	*k = Key{
		ID: id, Algorithm: algorithm, State: stored.State,
		CreatedAt: stored.CreatedAt, PublishedAt: stored.PublishedAt, ActiveAt: stored.ActiveAt, RetiredAt: stored.RetiredAt,
		LongestLifetime: time.Duration(stored.LongestLifetime) * time.Second,
		private:         private,
	}
	return nil
}

func thumbprint(public crypto.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("computing the thumbprint of a signing key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
