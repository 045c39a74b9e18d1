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

// State is where a key is in its life.
type State string

// A key is published in every state, and signs in one.
const (
	// Pending keys are published ahead, so that verifiers know them before they sign.
	Pending State = "Pending"
	// Active is the one key that signs.
	Active State = "Active"
	// Retiring keys sign no more, and stay published while a token of theirs may be valid.
	Retiring State = "Retiring"
)

// ErrKey says that an encoded key can't be used.
var ErrKey = errors.New("signing key not readable")

// Key is a private signing key with its life so far.
type Key struct {
	// ID is the key's "kid": its RFC 7638 thumbprint, so equal keys have equal ids.
	ID        string
	Algorithm Algorithm
	State     State
	CreatedAt time.Time
	// PublishedAt is since when every live token server publishes the key. It is known of
	// keys that were Pending, once it is so.
	PublishedAt time.Time
	// ActiveAt is when the key began to sign, zero until then.
	ActiveAt time.Time
	// RetiredAt is since when no live token server signs with the key; zero until that is
	// known.
	RetiredAt time.Time
	// LongestLifetime is the longest that any token signed by this key is valid.
	LongestLifetime time.Duration

	private crypto.Signer
}

// Generate makes a Pending key.
//
// Errors: ErrAlgorithm, and those of random.
func Generate(algorithm Algorithm, now time.Time, random io.Reader) (Key, error) {
	private, err := newPrivateKey(algorithm, random)
	if err != nil {
		return Key{}, fmt.Errorf("making a signing key: %w", err)
	}
	id, err := thumbprint(private.Public())
	if err != nil {
		return Key{}, err
	}
	return Key{ID: id, Algorithm: algorithm, State: Pending, CreatedAt: now, private: private}, nil
}

// Public returns what verifiers may know of the key.
func (k *Key) Public() PublicKey {
	return PublicKey{id: k.ID, algorithm: k.Algorithm, key: k.private.Public()}
}

// storedKey is how a Key stands in a record.
type storedKey struct {
	JWK             jose.JSONWebKey `json:"jwk"`
	State           State           `json:"state"`
	CreatedAt       time.Time       `json:"createdAt"`
	PublishedAt     time.Time       `json:"publishedAt,omitzero"`
	ActiveAt        time.Time       `json:"activeAt,omitzero"`
	RetiredAt       time.Time       `json:"retiredAt,omitzero"`
	LongestLifetime int64           `json:"longestLifetimeSeconds,omitempty"`
}

// MarshalJSON writes the key with its private members, as a JWK (RFC 7517) and its state.
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

// UnmarshalJSON reads what MarshalJSON writes. It refuses, with ErrKey, a key that
// is public only, does not fit its algorithm, is not the one its id says, has no known
// state, or whose private and public members or lifetime can't be.
func (k *Key) UnmarshalJSON(data []byte) error {
	var stored storedKey
	if err := json.Unmarshal(data, &stored); err != nil {
		// What went wrong is told without the text around it, which may be key material.
		return fmt.Errorf("%w: it is not a JWK with a state", ErrKey)
	}
	private, ok := stored.JWK.Key.(crypto.Signer)
	if !ok || !stored.JWK.Valid() {
		return fmt.Errorf("%w: it is not a valid private key", ErrKey)
	}
	algorithm := Algorithm(stored.JWK.Algorithm)
	if !algorithm.fits(private.Public()) {
		return fmt.Errorf("%w: %w %q for this key", ErrKey, ErrAlgorithm, algorithm)
	}
	if !whole(private) {
		return fmt.Errorf("%w: its private and public members don't belong together", ErrKey)
	}
	id, err := thumbprint(private.Public())
	if err != nil {
		return err
	}
	if id != stored.JWK.KeyID {
		return fmt.Errorf("%w: its id %q is not its thumbprint", ErrKey, stored.JWK.KeyID)
	}
	switch stored.State {
	case Pending, Active, Retiring:
	default:
		return fmt.Errorf("%w: state %q of key %q is unknown", ErrKey, stored.State, id)
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
