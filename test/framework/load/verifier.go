package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// algorithms are the signing algorithms that a realm can use.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}

// ErrNotVerified means that a token was rejected.
var ErrNotVerified = errors.New("token not verified")

// Verifier verifies access tokens offline, as strictly as the standards allow. It caches the keys
// for as long as Cache-Control allows (RFC 9111 §5.2.2.1). Until then it doesn't fetch them again,
// and rejects tokens with unknown keys. It is safe for concurrent use.
type Verifier struct {
	client *http.Client
	url    string
	issuer string

	mu      sync.Mutex
	keys    map[string]jose.JSONWebKey
	expires time.Time
}

// NewVerifier returns a verifier for tokens of the given issuer. It fetches the JWK Set from url
// when it first needs the keys.
func NewVerifier(client *http.Client, issuer, url string) *Verifier {
	return &Verifier{client: client, issuer: issuer, url: url}
}

// Verify checks a token's signature, issuer and times. It returns ErrNotVerified if the token is
// rejected. If it can't fetch the keys, it returns that error.
func (v *Verifier) Verify(ctx context.Context, token string) (*Verified, error) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, fmt.Errorf("%w: not a JWS: %w", ErrNotVerified, err)
	}
	id := parsed.Headers[0].KeyID
	key, err := v.key(ctx, id)
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	if err := parsed.Claims(key.Key, &claims); err != nil {
		return nil, fmt.Errorf("%w: key %s: %w", ErrNotVerified, id, err)
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Issuer: v.issuer, Time: time.Now()}, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotVerified, err)
	}
	return &Verified{KeyID: id, Expires: claims.Expiry.Time()}, nil
}

// Verified describes a valid token.
type Verified struct {
	KeyID   string
	Expires time.Time
}

func (v *Verifier) key(ctx context.Context, id string) (jose.JSONWebKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !time.Now().Before(v.expires) {
		if err := v.fetch(ctx); err != nil {
			return jose.JSONWebKey{}, err
		}
	}
	key, known := v.keys[id]
	if !known {
		return jose.JSONWebKey{}, fmt.Errorf("%w: key %s is unknown, and the cached keys are fresh for another %s", ErrNotVerified, id, time.Until(v.expires))
	}
	return key, nil
}

func (v *Verifier) fetch(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := v.client.Do(request)
	if err != nil {
		return fmt.Errorf("fetching the keys: %w", err)
	}
	defer response.Body.Close()
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching the keys: status %d: %w", response.StatusCode, err)
	}
	maxAge, err := maxAgeOf(response.Header)
	if err != nil {
		return fmt.Errorf("fetching the keys: %w", err)
	}
	v.expires = time.Now().Add(maxAge)
	v.keys = make(map[string]jose.JSONWebKey, len(set.Keys))
	for _, key := range set.Keys {
		v.keys[key.KeyID] = key
	}
	return nil
}

var errNoMaxAge = errors.New("no max-age in Cache-Control")

func maxAgeOf(header http.Header) (time.Duration, error) {
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		if seconds, found := strings.CutPrefix(strings.TrimSpace(directive), "max-age="); found {
			n, err := strconv.Atoi(seconds)
			return time.Duration(n) * time.Second, err
		}
	}
	return 0, errNoMaxAge
}
