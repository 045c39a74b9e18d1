package signingkey

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
//
// It consists of two key pairs: one signs tokens and the other one status lists. A verifier of tokens
// therefore rejects a status list even if it checks nothing but the signature (RFC 8725 §3.12).
type Key struct {
	// ID is the "kid" in tokens. It is the RFC 7638 thumbprint, so equal keys have equal IDs.
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
	// LongestLifetime is the longest lifetime of a token signed by this key, at most MaxLifetime.
	LongestLifetime time.Duration

	token, list pair    // list is empty in records of versions that signed lists with the other pair
	sealed      *Sealed // nil unless the key is sealed
}

// pair is a key pair. All pairs of a Key have its Algorithm.
type pair struct {
	id      string // the thumbprint of public
	public  crypto.PublicKey
	private crypto.Signer // nil if the key is sealed or Retiring
}

func newPair(algorithm Algorithm, random io.Reader) (pair, error) {
	private, err := newPrivateKey(algorithm, random)
	if err != nil {
		return pair{}, fmt.Errorf("generating a signing key: %w", err)
	}
	id, err := thumbprint(private.Public())
	return pair{id: id, public: private.Public(), private: private}, err
}

// jwk returns the pair as a JWK, with its private part unless that is nil.
func (p pair) jwk(algorithm Algorithm) jose.JSONWebKey {
	jwk := jose.JSONWebKey{Key: p.public, KeyID: p.id, Algorithm: string(algorithm), Use: "sig"}
	if p.private != nil {
		jwk.Key = p.private
	}
	return jwk
}

// Generate generates a Pending key.
//
// Errors: ErrAlgorithm, and errors from random.
func Generate(algorithm Algorithm, now time.Time, random io.Reader) (Key, error) {
	token, err := newPair(algorithm, random)
	if err != nil {
		return Key{}, err
	}
	list, err := newPair(algorithm, random)
	if err != nil {
		return Key{}, err
	}
	return Key{ID: token.id, Algorithm: algorithm, State: Pending, CreatedAt: now, token: token, list: list}, nil
}

// Public returns the public key that verifies tokens.
func (k *Key) Public() PublicKey {
	return PublicKey{id: k.ID, algorithm: k.Algorithm, key: k.token.public}
}

// ListPublic returns the public key that verifies status lists. ok is false if the key signs none, because its
// record is from a version that signed them with the key for tokens.
func (k *Key) ListPublic() (public PublicKey, ok bool) {
	return PublicKey{id: k.list.id, algorithm: k.Algorithm, key: k.list.public}, k.list.public != nil
}

// storedKey is the encoding of a Key in a record.
type storedKey struct {
	JWK             json.RawMessage `json:"jwk"`
	ListJWK         json.RawMessage `json:"listJWK,omitempty"`
	Sealed          *Sealed         `json:"sealed,omitempty"`
	State           State           `json:"state"`
	CreatedAt       time.Time       `json:"createdAt"`
	PublishedAt     time.Time       `json:"publishedAt,omitzero"`
	ActiveAt        time.Time       `json:"activeAt,omitzero"`
	RetiredAt       time.Time       `json:"retiredAt,omitzero"`
	LongestLifetime int64           `json:"longestLifetimeSeconds,omitempty"`
}

// InPlaintext reports whether the key has a private part that is not encrypted.
func (k *Key) InPlaintext() bool { return k.token.private != nil }

// Retire makes the key Retiring, and drops its private part.
func (k *Key) Retire() { k.State, k.token.private, k.list.private, k.sealed = Retiring, nil, nil, nil }

// MarshalJSON writes the key as two JWKs (RFC 7517), together with its state. The JWKs have private members
// unless the key is sealed or Retiring.
func (k Key) MarshalJSON() ([]byte, error) {
	if k.State == Retiring {
		k.Retire()
	}
	encoded, err := json.Marshal(k.token.jwk(k.Algorithm))
	if err != nil {
		return nil, fmt.Errorf("encoding key %q: %w", k.ID, err)
	}
	var list json.RawMessage
	if k.list.public != nil {
		if list, err = json.Marshal(k.list.jwk(k.Algorithm)); err != nil {
			return nil, fmt.Errorf("encoding the list key of key %q: %w", k.ID, err)
		}
	}
	return json.Marshal(storedKey{
		JWK:             encoded,
		ListJWK:         list,
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
// thumbprint, has an unknown state, has private and public members of different keys, has the same keys for
// tokens and lists, or has a negative lifetime. No token has a longer lifetime than MaxLifetime, so a longer one
// becomes MaxLifetime.
func (k *Key) UnmarshalJSON(data []byte) error {
	var stored storedKey
	var header struct {
		Algorithm Algorithm `json:"alg"`
	}
	if json.Unmarshal(data, &stored) != nil || json.Unmarshal(stored.JWK, &header) != nil {
		// Don't wrap the decoder's error, because it may quote key material.
		return fmt.Errorf("%w: it is not a JWK with a state", ErrKey)
	}
	if stored.Sealed != nil && !stored.Sealed.complete() {
		return fmt.Errorf("%w: its sealed part is incomplete", ErrKey)
	}
	if stored.State == Retiring && stored.Sealed != nil {
		return fmt.Errorf("%w: a retiring key has a sealed part", ErrKey)
	}
	parsed := Key{Algorithm: header.Algorithm, sealed: stored.Sealed}
	isPublic := stored.Sealed != nil || stored.State == Retiring
	var err error
	if parsed.token, err = readPair(stored.JWK, parsed.Algorithm, isPublic); err != nil {
		return err
	}
	if stored.ListJWK != nil {
		if parsed.list, err = readPair(stored.ListJWK, parsed.Algorithm, isPublic); err != nil {
			return fmt.Errorf("the key for status lists: %w", err)
		}
	}
	id := parsed.token.id
	if id == parsed.list.id {
		return fmt.Errorf("%w: key %q signs both tokens and status lists", ErrKey, id)
	}
	switch stored.State {
	case Pending, Active, Retiring:
	default:
		return fmt.Errorf("%w: unknown state %q of key %q", ErrKey, stored.State, id)
	}
	if stored.LongestLifetime < 0 {
		return fmt.Errorf("%w: the longest lifetime of key %q is negative", ErrKey, id)
	}
	parsed.ID, parsed.State = id, stored.State
	parsed.CreatedAt, parsed.PublishedAt, parsed.ActiveAt, parsed.RetiredAt = stored.CreatedAt, stored.PublishedAt, stored.ActiveAt, stored.RetiredAt
	parsed.LongestLifetime = time.Duration(min(stored.LongestLifetime, int64(MaxLifetime/time.Second))) * time.Second
	*k = parsed
	return nil
}

// readPair reads a stored JWK, which has only a public part if the key is sealed or Retiring.
func readPair(stored json.RawMessage, algorithm Algorithm, isPublic bool) (pair, error) {
	var p pair
	var err error
	if isPublic {
		var jwk jose.JSONWebKey
		if jwk, err = parseJWK(stored, "sig"); err == nil {
			p.public = jwk.Key
		}
	} else if p.private, err = parsePrivate(stored); err == nil {
		p.public = p.private.Public()
	}
	if err != nil {
		return pair{}, err
	}
	var header struct {
		ID        string    `json:"kid"`
		Algorithm Algorithm `json:"alg"`
	}
	if json.Unmarshal(stored, &header) != nil || header.Algorithm != algorithm || !algorithm.matches(p.public) {
		return pair{}, fmt.Errorf("%w: %w %q for this key", ErrKey, ErrAlgorithm, header.Algorithm)
	}
	if p.id, err = thumbprint(p.public); err != nil {
		return pair{}, err
	}
	if p.id != header.ID {
		return pair{}, fmt.Errorf("%w: its ID %q is not its thumbprint", ErrKey, header.ID)
	}
	return p, nil
}
