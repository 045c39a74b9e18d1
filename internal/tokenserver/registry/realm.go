package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// ErrNoActiveKey says that a realm can't sign.
var ErrNoActiveKey = errors.New("realm has no active signing key")

// RealmSettings are the facts that a Realm is prepared from.
type RealmSettings struct {
	UID       string
	Name      string    // first path segment
	Issuer    string    // "iss", and the base of the realm's addresses
	CreatedAt time.Time // of two realms of one name the newer is served
	Disabled  bool      // no token is issued, and none verifies
	// TokensValidAfter is when the oldest token that verifies may have been issued; zero: at any time.
	TokensValidAfter time.Time
	TokenLifetime    time.Duration
	Audiences        []string      // what tokens carry when none is asked for; empty: the issuer
	Scopes           []string      // for the metadata
	KeyCache         time.Duration // how long verifiers may cache what is published
	// TokensPerSecond is how many tokens each client may get in a second; 0: any number.
	TokensPerSecond int32
	Keys            []signingkey.Key
}

// Realm is a realm as requests need it: everything that doesn't depend on the
// request is computed. It never changes.
type Realm struct {
	UID           string
	Name          string
	Issuer        string
	CreatedAt     time.Time
	Disabled      bool
	TokenLifetime time.Duration
	Audiences     []string // at least one
	// TokensPerSecond is how many tokens each client may get in a second; 0: any number.
	TokensPerSecond int32

	// Signer issues tokens with the active key.
	Signer *token.Signer
	// verifier knows the tokens of all published keys; Verify adds the switches.
	verifier         *token.Verifier
	tokensValidAfter time.Time
	// JWKS, Metadata and OpenIDConfiguration are the documents that the realm publishes, as JSON.
	JWKS                []byte
	Metadata            []byte
	OpenIDConfiguration []byte
	// Caching is the Cache-Control header of these documents (RFC 9111 §5.2).
	Caching []string

	clients *table // set by the registry that holds the realm
}

// NewRealm prepares a realm.
//
// Errors: ErrNoActiveKey; those of encoding the documents.
func NewRealm(s RealmSettings) (*Realm, error) {
	realm := &Realm{
		UID: s.UID, Name: s.Name, Issuer: s.Issuer, CreatedAt: s.CreatedAt, Disabled: s.Disabled,
		TokenLifetime: s.TokenLifetime, Audiences: s.Audiences, TokensPerSecond: s.TokensPerSecond,
		tokensValidAfter: s.TokensValidAfter,
		Caching:          []string{"public, max-age=" + strconv.FormatInt(int64(s.KeyCache/time.Second), 10)},
		clients:          newTable(),
	}
	if len(realm.Audiences) == 0 {
		realm.Audiences = []string{s.Issuer}
	}
	public := make([]signingkey.PublicKey, 0, len(s.Keys))
	var algorithms []string
	for i := range s.Keys {
		key := &s.Keys[i]
		public = append(public, key.Public())
		algorithms = append(algorithms, string(key.Algorithm))
		if key.State == signingkey.Active {
			realm.Signer = token.NewSigner(key.Signer())
		}
	}
	// Those of all published keys: a verifier that discovers now meets tokens of the key
	// before, and of the key to come.
	slices.Sort(algorithms)
	algorithms = slices.Compact(algorithms)
	if realm.Signer == nil {
		return nil, fmt.Errorf("preparing realm %q: %w", s.Name, ErrNoActiveKey)
	}

	realm.verifier = token.NewVerifier(s.Issuer, public)
	var err error
	if realm.JWKS, err = signingkey.JWKS(public); err != nil {
		return nil, fmt.Errorf("preparing realm %q: %w", s.Name, err)
	}
	metadata := oauth.NewMetadata(s.Issuer, s.Scopes)
	metadata.TokenEndpointAuthSigningAlgValuesSupported = assertionAlgorithms
	metadata.IntrospectionEndpointAuthSigningAlgValuesSupported = assertionAlgorithms
	if realm.Metadata, err = json.Marshal(metadata); err != nil {
		return nil, fmt.Errorf("preparing the metadata of realm %q: %w", s.Name, err)
	}
	realm.OpenIDConfiguration, err = json.Marshal(oauth.OpenIDConfiguration{
		Metadata:                         metadata,
		SubjectTypesSupported:            []string{"public"},
		IDTokenSigningAlgValuesSupported: algorithms,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the metadata of realm %q: %w", s.Name, err)
	}
	return realm, nil
}

// assertionAlgorithms are those of the keys that clients may have.
var assertionAlgorithms = func() []string {
	var names []string
	for _, algorithm := range signingkey.Algorithms {
		names = append(names, string(algorithm))
	}
	slices.Sort(names)
	return names
}()

// Client returns the client of that id, or nil. The caller must not change it.
func (r *Realm) Client(id string) *Client {
	return r.clients.load(id)
}

// Verify returns what a token of the realm says and whose it is, if it is valid at that
// time: by its signature and times, and by the switches of the realm and of the client, of
// which it may be neither from before it was created nor from before spec.tokensValidAfter.
//
// The error is token.ErrInvalid.
func (r *Realm) Verify(compact string, now time.Time) (token.Verified, *Client, error) {
	verified, err := r.verifier.Verify(compact, now)
	if err != nil {
		return token.Verified{}, nil, err
	}
	client := r.Client(verified.ClientID)
	if r.Disabled || client == nil || !client.Usable(now) ||
		verified.IssuedAt.Before(client.CreatedAt) ||
		verified.IssuedAt.Before(client.TokensValidAfter) ||
		verified.IssuedAt.Before(r.tokensValidAfter) {
		return token.Verified{}, nil, token.ErrInvalid
	}
	return verified, client, nil
}

// supersedes reports whether r is served rather than another realm of its name, which was
// deleted before r was created and whose record is yet to go. The UID breaks a tie, so that all
// token servers answer alike.
func (r *Realm) supersedes(other *Realm) bool {
	return cmp.Or(r.CreatedAt.Compare(other.CreatedAt), strings.Compare(r.UID, other.UID)) > 0
}

// Client is a client as requests need it. It never changes once a registry holds it.
type Client struct {
	UID       string
	RealmUID  string
	ID        string // client_id, unique in the realm
	CreatedAt time.Time
	Disabled  bool      // no token is issued, and none verifies
	ExpiresAt time.Time // as Disabled from then on; zero: never
	// TokensValidAfter is when the oldest token that verifies may have been issued; zero: at any time.
	TokensValidAfter time.Time
	// TokenLifetime shortens the realm's; zero: the realm's.
	TokenLifetime time.Duration
	// TokensPerSecond is a limit beside the realm's; 0: none.
	TokensPerSecond int32
	Scopes          []string // granted, sorted
	Audiences       []string // granted; empty: the realm's
	Secrets         []clientsecret.Credential
	// PublicKeys verify the assertions that the client signs.
	PublicKeys []signingkey.PublicKey
	// ServiceAccounts may act as the client by their tokens.
	ServiceAccounts []clientassertion.ServiceAccount
}

// Usable reports whether the client may get a token at that time, and use those that it has.
func (c *Client) Usable(now time.Time) bool {
	return !c.Disabled && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}

// TokensPerSecondOf returns how many tokens a client of the realm may get in a second; 0: any number.
func (r *Realm) TokensPerSecondOf(client *Client) int32 {
	if r.TokensPerSecond == 0 || client.TokensPerSecond == 0 {
		return max(r.TokensPerSecond, client.TokensPerSecond)
	}
	return min(r.TokensPerSecond, client.TokensPerSecond)
}

// comparePrecedence orders rivals for one client id. The operator enables at most one of
// them, which comes first; then the older does, and the UID breaks a tie, so that all
// token servers answer alike.
func comparePrecedence(a, b *Client) int {
	return cmp.Or(compareBool(a.Disabled, b.Disabled), a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.UID, b.UID))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
