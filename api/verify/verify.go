// Package verify verifies the access tokens of a Realmkeeper realm in an API, without asking the
// token service for each token.
//
//	verifier, err := verify.New(ctx, "https://api.example.com/acme", verify.Options{
//		Audience: "https://orders.acme.example",
//	})
//	...
//	defer verifier.Close()
//	http.Handle("GET /orders", verifier.Require("orders.read")(orders))
//
// It checks the profile for access tokens (RFC 9068), proofs of possession (DPoP, RFC 9449), and
// status lists (OAuth Token Status List), with which a realm revokes tokens before they expire.
//
// # Keys
//
// Keys are loaded again in the background after 5 minutes, and at most every 5 seconds for a token with
// an unknown key ID. If the issuer is unavailable, the last ones remain for 24 hours after they were loaded.
// Then every token is rejected with ErrKeysUnavailable, because the realm may have removed a stolen key.
//
// At most 64 tokens with unknown key IDs, which anyone can send, wait for a load. Any more are rejected with
// ErrKeysUnavailable. Tokens with known keys are verified meanwhile.
//
// Valid tokens also wait, until there are keys (see Options.Lazy), and after 10 minutes without tokens. At most
// 1,024 tokens do so at a time. Any more are rejected with ErrKeysUnavailable, even if they are valid, because
// it isn't known without current keys which tokens are.
//
// # Remembered tokens
//
// A Verifier remembers in 1 MiB which tokens the issuer signed, and their claims. It verifies the signature of a
// token and decodes its claims once, because that takes nearly all of the time. Only tokens for this API that
// haven't expired take space. Those in use remain. Everything else is checked each time: that the issuer still has
// the key, and the issuer, the audience, the times, the status, the proof, and the scopes of the token.
//
// # Status lists
//
// The first token that refers to a list waits until it is loaded. Only a token that the issuer signed for this
// API, and that hasn't expired, can wait for a list or cause a load. From then on, it is loaded again in the
// background after each of its TTLs (at least 5 seconds, at most an hour) until no token has referred to it
// for 5 minutes. A revoked token is rejected at most a TTL later, plus the time that the realm needs to
// change the list. If the list can't be loaded, the last one remains until it expires, at most 24 hours after
// it was issued. A list never replaces a newer one. The 17 lists that were last used are kept.
package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options configure a Verifier. Only Audience is required.
type Options struct {
	// Audience is the name of this API in the claim aud.
	Audience string

	// RealmURL is where this API reaches the realm if it can't reach it at its issuer, such as
	// https://realmkeeper-token-server.realmkeeper-system.svc/acme. Keys and status lists are then
	// loaded below this URL, and metadata isn't loaded. It is an https URL, as the issuer is.
	RealmURL string
	// Client loads keys and status lists. Defaults to http.DefaultClient. A load takes at most 5
	// seconds and doesn't follow redirects, whatever the Client does.
	Client *http.Client
	// Lazy loads the keys when the first token is verified instead of in New, so that an API can
	// start while the token service is unavailable. Until they are loaded, invalid tokens can take
	// the places of valid ones that wait for them.
	Lazy bool

	// Status says how status lists are used. Defaults to StatusIfPresent.
	Status StatusPolicy
	// Delegated accepts tokens with which a client acts for another subject (RFC 8693). Set it only
	// if the API reads Subject of the Claims, and not only ClientID.
	Delegated bool
	// DPoP is for tokens that are bound to a key. Without DPoP.URL, they are rejected.
	DPoP DPoP

	// Skew is how far the clock of this API can be behind the clock of the token service. Tokens,
	// lists, and proofs can be issued up to Skew in the future. Defaults to 30 seconds. Tokens
	// always expire on time.
	Skew time.Duration
	// Now returns the current time. Defaults to time.Now.
	Now func() time.Time
	// Metrics are called with what happens.
	Metrics Metrics
}

// StatusPolicy says how a Verifier uses status lists.
type StatusPolicy int

const (
	// StatusIfPresent checks tokens that refer to a status list, and accepts those that don't. If
	// the list can't be loaded and the last one has expired, tokens are rejected with
	// ErrStatusUnavailable.
	StatusIfPresent StatusPolicy = iota
	// StatusRequired is StatusIfPresent, but rejects tokens that refer to no list with ErrStatus.
	StatusRequired
	// StatusBestEffort is StatusIfPresent, but accepts tokens while their list can't be loaded, unless
	// they were revoked in the last list. That list decides even after it has expired, and is forgotten
	// when the process ends. An attacker who can interrupt the connection to the token service can use
	// other revoked tokens until they expire. Metrics.Unchecked counts the tokens that are accepted.
	StatusBestEffort
	// StatusIgnored loads no lists. A revoked token is accepted until it expires.
	StatusIgnored
)

// DPoP configures how tokens that are bound to a key are accepted (RFC 9449).
type DPoP struct {
	// URL is the base URL of this API for its callers, such as https://orders.acme.example. The
	// target of the request, such as /orders, is appended to it. Headers of the request don't change
	// it.
	URL string
	// Required rejects tokens that aren't bound to a key.
	Required bool
	// MaxProofs is how many used proofs are remembered, each for 90 to 120 seconds. If there is no space, a
	// request is rejected with ErrTooManyProofs. A client gets no more than a quarter of the free space, so it
	// can use at most a fifth of MaxProofs. The default is 262,144. It allows 400 requests per second by one
	// client, and takes up to 50 MiB.
	MaxProofs int
}

const (
	defaultSkew      = 30 * time.Second
	defaultMaxProofs = 1 << 18
	// maxToken is the maximum size of a token in bytes. Those of realms have at most 6,144.
	maxToken = 16 << 10
	// accessTokenType is the typ of access tokens (RFC 9068 §2.1).
	accessTokenType = "at+jwt"
)

var errOptions = errors.New("invalid options")

// Verifier verifies the access tokens of one realm for one API. It is safe for concurrent use.
type Verifier struct {
	issuer     string
	options    Options
	life       *lifetime
	keys       *keySet
	signatures *validSignatures
	lists      *statusLists
	proofs     *usedProofs
}

// New returns a Verifier for tokens of the issuer, and loads the issuer's keys unless Options.Lazy is
// set. Afterwards, ctx is not used. Close the Verifier when it isn't needed any more.
//
// It returns an error that matches ErrKeysUnavailable if the keys can't be loaded. Other errors mean
// that the issuer or the options are invalid.
func New(ctx context.Context, issuer string, options Options) (*Verifier, error) {
	if err := checkOptions(issuer, options); err != nil {
		return nil, err
	}
	if options.Client == nil {
		options.Client = http.DefaultClient
	}
	if options.Skew == 0 {
		options.Skew = defaultSkew
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.DPoP.MaxProofs == 0 {
		options.DPoP.MaxProofs = defaultMaxProofs
	}
	v := &Verifier{
		issuer: issuer, options: options, life: newLifetime(),
		signatures: newValidSignatures(), proofs: newUsedProofs(options.DPoP.MaxProofs),
	}
	web := newSource(options)
	keysURL := ""
	if options.RealmURL != "" {
		keysURL = options.RealmURL + "/oauth2/jwks"
	}
	v.keys = newKeySet(issuer, keysURL, options, v.life, web)
	v.lists = newStatusLists(issuer, options, v.life, web)
	if options.Lazy {
		return v, nil
	}
	if err := v.keys.load(ctx); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

func checkOptions(issuer string, options Options) error {
	if options.Audience == "" {
		return fmt.Errorf("%w: Audience is required", errOptions)
	}
	if !isBaseURL(issuer) {
		return fmt.Errorf("%w: issuer %q must be an https URL without query, fragment, or final slash", errOptions, issuer)
	}
	if options.RealmURL != "" && !isBaseURL(options.RealmURL) {
		return fmt.Errorf("%w: RealmURL %q must be an https URL without query, fragment, or final slash", errOptions, options.RealmURL)
	}
	if _, ok := normalize(options.DPoP.URL); options.DPoP.URL != "" && (!ok || strings.ContainsAny(options.DPoP.URL, "?#") || strings.HasSuffix(options.DPoP.URL, "/")) {
		return fmt.Errorf("%w: DPoP.URL %q must be an absolute URL without query, fragment, or final slash", errOptions, options.DPoP.URL)
	}
	if options.DPoP.Required && options.DPoP.URL == "" {
		return fmt.Errorf("%w: DPoP.Required needs DPoP.URL", errOptions)
	}
	if options.Skew < 0 || options.DPoP.MaxProofs < 0 || options.Status < StatusIfPresent || options.Status > StatusIgnored {
		return fmt.Errorf("%w: Skew and DPoP.MaxProofs must not be negative, and Status must be a known policy", errOptions)
	}
	return nil
}

func isBaseURL(raw string) bool {
	parsed, err := url.Parse(raw)
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.User == nil &&
		!strings.ContainsAny(raw, "?#") && !strings.HasSuffix(raw, "/")
}

// Close stops all background work and waits for its end. Afterwards, tokens are verified with the keys
// and lists that are loaded.
func (v *Verifier) Close() { v.life.end() }

// Verify verifies an access token that is not bound to a key. Use VerifyRequest or Require for tokens
// of HTTP requests. ctx limits how long Verify waits if it must load keys or a status list.
//
// The error matches one of the errors of this package.
func (v *Verifier) Verify(ctx context.Context, token string) (*Claims, error) {
	claims, err := v.verify(ctx, token, presented{})
	v.options.Metrics.verified(err)
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// verify runs all checks. The last one records the proof, so that a rejected request doesn't use it up.
func (v *Verifier) verify(ctx context.Context, token string, p presented) (*Claims, error) {
	hash, signed, err := v.authenticate(ctx, token)
	if err != nil {
		return nil, err
	}
	claims, now := signed.claims, v.options.Now() // claims are read-only
	if err := v.checkClaims(claims, now); err != nil {
		return nil, err
	}
	v.signatures.put(hash, signed) // Tokens that the API rejects take no space.
	proof, err := v.checkBinding(claims, token, p, now)
	if err != nil {
		return nil, err
	}
	if err := v.checkStatus(ctx, claims); err != nil {
		return nil, err
	}
	if !v.options.Now().Before(claims.ExpiresAt) {
		return nil, ErrExpired // It was valid before the list was loaded.
	}
	for _, scope := range p.scopes {
		if !claims.HasScope(scope) {
			return nil, fmt.Errorf("%w %q", ErrScope, scope)
		}
	}
	if proof != nil {
		if err := v.proofs.use(claims.ClientID, claims.JKT, proof.id, proof.expires, now); err != nil {
			return nil, err
		}
	}
	return claims.own(token), nil
}

// authenticate checks that the issuer signed the token as an access token, and decodes it. It does neither again if
// that is remembered, and the key is still one of the issuer.
func (v *Verifier) authenticate(ctx context.Context, token string) (tokenHash, signedClaims, error) {
	if len(token) > maxToken {
		return tokenHash{}, signedClaims{}, fmt.Errorf("%w: it is larger than %d bytes", ErrMalformed, maxToken)
	}
	hash, signed := v.signatures.get(token)
	if signed.key != nil {
		key, err := v.keys.find(ctx, signed.key.id)
		if err != nil || key == signed.key {
			return hash, signed, err
		}
	}
	parsed, err := parseJWS(token)
	if err != nil {
		return hash, signedClaims{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if parsed.kind != accessTokenType {
		return hash, signedClaims{}, ErrType
	}
	key, err := v.keys.find(ctx, parsed.keyID)
	if err != nil {
		return hash, signedClaims{}, err
	}
	if !key.verifies(parsed) {
		return hash, signedClaims{}, ErrSignature
	}
	claims, err := decodeClaims(parsed.payload)
	return hash, signedClaims{key, claims}, err
}

// checkClaims checks what the issuer says of the token (RFC 9068 §4).
func (v *Verifier) checkClaims(c *Claims, now time.Time) error {
	switch latest := now.Add(v.options.Skew); {
	case c.issuer != v.issuer:
		return ErrIssuer
	case !c.HasAudience(v.options.Audience):
		return ErrAudience
	case !now.Before(c.ExpiresAt):
		return ErrExpired
	case c.IssuedAt.After(latest) || c.notBefore.After(latest):
		return ErrNotYetValid
	case c.Delegated() && !v.options.Delegated:
		return ErrDelegated
	}
	return nil
}

// checkStatus checks the token's entry in its status list.
func (v *Verifier) checkStatus(ctx context.Context, c *Claims) error {
	policy := v.options.Status
	switch {
	case policy == StatusIgnored, c.status == nil && policy != StatusRequired:
		return nil
	case c.status == nil:
		return fmt.Errorf("%w: it refers to no status list", ErrStatus)
	}
	err := v.lists.check(ctx, c.status.uri, c.status.index)
	if policy != StatusBestEffort || !errors.Is(err, ErrStatusUnavailable) || ctx.Err() != nil {
		return err
	}
	if v.lists.wasRevoked(c.status.uri, c.status.index) {
		return ErrRevoked // The list has expired, but time alone makes no revoked token valid.
	}
	v.options.Metrics.unchecked(err)
	return nil
}
