package verify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	// keysRefreshAge is how long keys are used before they are loaded again in the background.
	keysRefreshAge = 5 * time.Minute
	// keysIdleAge is when a token waits until they are loaded again, because no token needed them.
	keysIdleAge = 2 * keysRefreshAge
	// keysMaxAge is how long keys are used if they can't be loaded again. The realm may have removed one because
	// it was stolen. It is the same time as for lists.
	keysMaxAge = maxListAge
	// keysInterval is the minimum time between two loads. Tokens with unknown key IDs, which anyone can
	// send, cause at most one load in this time.
	keysInterval = 5 * time.Second

	// maxUnknown is how many tokens with unknown key IDs wait for a load. Anyone can send them, and each one
	// holds a request of the API for up to loadTimeout.
	maxUnknown = 64
	// maxWaiting is how many other tokens wait for a load, because there are no keys yet, or because they
	// weren't used for keysIdleAge. Valid tokens also wait then, so it is enough for 10,000 requests per second
	// and a load of 0.1 seconds.
	maxWaiting = 1024

	maxKeys = 64
)

var (
	errMetadata = errors.New("metadata is of another issuer, or has no https jwks_uri")
	errNoKeys   = errors.New("no usable keys")
	errWaiting  = errors.New("too many tokens wait for keys")
)

// keySet has keys of the issuer, those for tokens or those for status lists. They remain in use for keysMaxAge if
// the issuer is unavailable.
type keySet struct {
	issuer string
	now    func() time.Time
	web    *source
	flight flight
	fixed  bool // url doesn't come from metadata

	waiting, unknown places

	mu     sync.Mutex
	url    string // of the keys; empty if it isn't known
	keys   map[string]*publicKey
	loaded time.Time // start of the load of keys
	err    error     // of the last load
}

// newKeySet returns the keys at url. If it is empty, it is looked up in the issuer's metadata.
func newKeySet(issuer, url string, options Options, life *lifetime, web *source) *keySet {
	k := &keySet{
		issuer: issuer, now: options.Now, web: web, url: url, fixed: url != "",
		waiting: make(places, maxWaiting), unknown: make(places, maxUnknown),
	}
	k.flight = flight{life: life, load: k.refresh}
	return k
}

// find returns the key with the ID. It loads the keys again if there is none, and if they are old. If too many
// callers wait for that already, it fails immediately. While the issuer has the key, the pointer is the same.
//
// Errors: ErrSignature, ErrKeysUnavailable.
func (k *keySet) find(ctx context.Context, id string) (*publicKey, error) {
	now := k.now()
	keys, err := k.current()
	key, known := keys[id]
	age := k.flight.age(now)
	if known && age >= 0 && age < keysIdleAge {
		if age >= keysRefreshAge || err != nil {
			k.flight.start(now, keysInterval)
		}
		return key, nil
	}
	limit := k.waiting
	if len(keys) > 0 && !known {
		limit = k.unknown
	}
	if err := limit.wait(ctx, k.flight.start(now, keysInterval)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, err)
	}
	keys, err = k.current()
	switch key, known = keys[id]; {
	case known:
		return key, nil // If the load failed, the keys remain.
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, err)
	}
	return nil, fmt.Errorf("%w: unknown kid", ErrSignature)
}

// places limit how many callers wait.
type places chan struct{}

// wait waits until the channel is closed. It returns errWaiting if there is no place, or the error of ctx.
func (p places) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case p <- struct{}{}:
	default:
		return errWaiting
	}
	defer func() { <-p }()
	return wait(ctx, done)
}

// load loads the keys and waits for them.
//
// Errors: ErrKeysUnavailable.
func (k *keySet) load(ctx context.Context) error {
	err := wait(ctx, k.flight.start(k.now(), keysInterval))
	if err == nil {
		_, err = k.current()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeysUnavailable, err)
	}
	return nil
}

// current returns the keys, which must not be changed, and the error of the last load. There are no keys if they
// are too old.
func (k *keySet) current() (map[string]*publicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys != nil && elapsed(k.loaded, k.now()) < keysMaxAge {
		return k.keys, k.err
	}
	if k.err == nil {
		return nil, errClosed // nothing was loaded, and nothing will be
	}
	return nil, k.err
}

// elapsed returns the time from start to end. It is the longer one of two clocks: the monotonic clock stops while a
// machine sleeps, and the wall clock can be set back.
func elapsed(start, end time.Time) time.Duration {
	return max(end.Sub(start), end.Round(0).Sub(start.Round(0)))
}

// refresh loads the keys.
func (k *keySet) refresh(ctx context.Context) {
	start := k.now()
	url, err := k.discover(ctx)
	var keys map[string]*publicKey
	if err == nil {
		err = k.web.load(ctx, url, keysDocument, func(body []byte) (err error) {
			keys, err = parseKeys(body)
			return err
		})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	switch {
	case err == nil:
		for id, key := range keys {
			if known, ok := k.keys[id]; ok && known.equal(key) {
				keys[id] = known
			}
		}
		k.url, k.keys, k.loaded = url, keys, start
	case !k.fixed:
		k.url = "" // look it up again
	}
}

// discover returns the URL of the keys from the issuer's metadata (RFC 8414 §3).
func (k *keySet) discover(ctx context.Context) (string, error) {
	k.mu.Lock()
	found := k.url
	k.mu.Unlock()
	if found != "" {
		return found, nil
	}
	parse := func(body []byte) error {
		var metadata struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(body, &metadata); err != nil {
			return err
		}
		if metadata.Issuer != k.issuer || !strings.HasPrefix(metadata.KeysURL, "https://") {
			return errMetadata
		}
		found = metadata.KeysURL
		return nil
	}
	for _, url := range metadataURLs(k.issuer) {
		err := k.web.load(ctx, url, metadataDocument, parse)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, errStatusCode) || url == k.issuer+openIDConfiguration {
			return "", err
		}
	}
	return "", errMetadata
}

const openIDConfiguration = "/.well-known/openid-configuration"

// metadataURLs are the URL of RFC 8414 §3.1, with the path of the issuer at its end, and the one of
// OpenID Connect, for proxies that forward only what is below the issuer.
func metadataURLs(issuer string) []string {
	parsed, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin := parsed.Scheme + "://" + parsed.Host
	return []string{origin + "/.well-known/oauth-authorization-server" + strings.TrimPrefix(issuer, origin), issuer + openIDConfiguration}
}

// parseKeys returns the usable keys of a JWK Set by their IDs.
func parseKeys(body []byte) (map[string]*publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	keys := map[string]*publicKey{}
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var jwk jose.JSONWebKey
		if jwk.UnmarshalJSON(raw) != nil || jwk.KeyID == "" {
			continue // a key of another kind is no reason to reject the others
		}
		if key, ok := newPublicKey(jwk, algorithm(jwk.Algorithm)); ok {
			keys[jwk.KeyID] = key
		}
	}
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	return keys, nil
}
