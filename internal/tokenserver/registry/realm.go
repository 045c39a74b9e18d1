package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// RealmSettings contains the inputs for NewRealm.
type RealmSettings struct {
	Record string // name of the realm's record
	UID    string
	Name   string // the first path segment
	Issuer string // "iss", and the base URL of the realm's endpoints
	// CreatedAt determines which realm is served if several have the same name. The newest one
	// wins.
	CreatedAt time.Time
	// Disabled realms issue no tokens, and their existing tokens are not valid.
	Disabled bool
	// Unenforced means that the record has a restriction that this version doesn't know. Disabled is then
	// set, too.
	Unenforced bool
	// TokensValidAfter revokes all tokens issued before this time. If zero, no tokens are revoked.
	TokensValidAfter time.Time
	TokenLifetime    time.Duration
	Scopes           []string      // for the metadata
	KeyCache         time.Duration // how long verifiers may cache the published documents
	// TokensPerSecond is the maximum number of tokens per second for each client. If 0, there is no
	// limit.
	TokensPerSecond int32
	Keys            []signingkey.Key
	// ClusterIssuerURL is the base URL of the realm's endpoints inside the cluster.
	ClusterIssuerURL string
	Audiences        []string // that clients may request
	Issuers          []Issuer // whose tokens can authenticate clients or be exchanged; they differ in issuer or audience
	Exchanges        []record.Exchange
	StatusLists      *record.StatusLists // nil if there are none
}

// Realm is a realm, prepared for handling requests. Everything that does not depend on the request
// is precomputed. A Realm is immutable once it has been added to a registry, except that its active key
// can be opened.
type Realm struct {
	// RealmSettings are those of NewRealm, but Keys are only the Active and Pending signing keys.
	RealmSettings

	// PlaintextKeys is the number of keys whose private part is in plaintext in the record.
	PlaintextKeys int
	// active is nil while the active key is sealed or there is none.
	active atomic.Pointer[activeKey]
	// verifier checks the signature, issuer and times of tokens signed with any published key.
	// Verify also checks that the realm and the client are enabled.
	verifier     *token.Verifier
	statusPrefix string // see statusPrefix
	// JWKS, ListJWKS, Metadata and OpenIDConfiguration are the realm's published documents, as JSON. ListJWKS
	// has the keys that sign status lists. It is nil if the realm has no status lists.
	JWKS                []byte
	ListJWKS            []byte
	Metadata            []byte
	OpenIDConfiguration []byte
	// resources are the metadata of the realm's audiences that are URLs.
	resources resources
	// Caching is the Cache-Control header of these documents (RFC 9111 §5.2).
	Caching []string

	issuers map[string][]*Issuer // trusted issuers by "iss"
	rules   []delegation.Rule
	tables  tables // set when the realm is added to a registry
}

// signingAlgorithms are the algorithms that a realm can sign with at any time. Some verifiers read the metadata
// once, and later reject tokens of a new key with an algorithm that it didn't list. The key determines which
// algorithm its tokens have.
var signingAlgorithms = func() (names []string) {
	for _, algorithm := range signingkey.Algorithms {
		names = append(names, string(algorithm))
	}
	return names
}()

// NewRealm returns a realm with the given settings.
//
// Errors: from encoding the documents.
func NewRealm(s RealmSettings) (*Realm, error) {
	realm := &Realm{
		RealmSettings: s,
		Caching:       []string{"public, max-age=" + strconv.FormatInt(int64(s.KeyCache/time.Second), 10)},
		statusPrefix:  statusPrefix(s.Issuer, s.StatusLists),
		issuers:       make(map[string][]*Issuer, len(s.Issuers)),
		tables:        newTables(),
	}
	realm.Keys = nil
	for i := range s.Issuers {
		issuer := &s.Issuers[i]
		realm.issuers[issuer.Issuer] = append(realm.issuers[issuer.Issuer], issuer)
	}
	for _, rule := range s.Exchanges {
		realm.rules = append(realm.rules, NewRule(rule, s.Issuers))
	}
	public := make([]signingkey.PublicKey, 0, len(s.Keys))
	var lists []signingkey.PublicKey
	for i := range s.Keys {
		key := &s.Keys[i]
		public = append(public, key.Public())
		if list, ok := key.ListPublic(); ok {
			lists = append(lists, list)
		}
		if key.State != signingkey.Retiring {
			realm.Keys = append(realm.Keys, *key)
		}
		if key.InPlaintext() {
			realm.PlaintextKeys++
		}
		realm.SignWith(key)
	}
	if err := realm.publish(public, lists); err != nil {
		return nil, fmt.Errorf("preparing realm %q: %w", s.Name, err)
	}
	return realm, nil
}

// publish encodes the documents with the public keys for tokens and for lists, and sets the verifier.
func (r *Realm) publish(public, lists []signingkey.PublicKey) (err error) {
	if r.verifier, err = token.NewVerifier(r.Issuer, public); err != nil {
		return err
	}
	if r.JWKS, err = signingkey.JWKS(public); err != nil {
		return err
	}
	if r.StatusLists != nil {
		if r.ListJWKS, err = signingkey.JWKS(lists); err != nil {
			return err
		}
	}
	metadata := oauth.NewMetadata(r.Issuer, r.Scopes, optional(&r.RealmSettings))
	metadata.TokenEndpointAuthSigningAlgValuesSupported = jws.Algorithms
	metadata.IntrospectionEndpointAuthSigningAlgValuesSupported = jws.Algorithms
	metadata.DPoPSigningAlgValuesSupported = jws.Algorithms
	if r.Metadata, err = json.Marshal(metadata); err != nil {
		return err
	}
	r.OpenIDConfiguration, err = json.Marshal(oauth.OpenIDConfiguration{
		Metadata:                         metadata,
		SubjectTypesSupported:            []string{"public"},
		IDTokenSigningAlgValuesSupported: signingAlgorithms,
	})
	if err != nil {
		return err
	}
	r.resources, err = newResources(r.Issuer, r.Audiences)
	return err
}

// optional returns which optional parts of the protocol the realm is configured for.
func optional(s *RealmSettings) oauth.Optional {
	has := oauth.Optional{TokenExchange: len(s.Exchanges) > 0, StatusLists: s.StatusLists != nil}
	for i := range s.Issuers {
		has.IDJAG = has.IDJAG || s.Issuers[i].IDJAG
		has.SPIFFE = has.SPIFFE || s.Issuers[i].Authenticates && strings.HasPrefix(s.Issuers[i].Issuer, "spiffe://")
	}
	return has
}

// SignWith makes the realm sign with key if it is the active one and isn't sealed.
func (r *Realm) SignWith(key *signingkey.Key) {
	for i := range r.Keys {
		if r.Keys[i].ID == key.ID && r.Keys[i].State == signingkey.Active && key.Sealed() == nil {
			r.active.Store(&activeKey{tokens: token.NewSigner(key.Signer()), lists: key.ListSigner()})
		}
	}
}

// activeKey signs with the active key.
type activeKey struct {
	tokens *token.Signer
	lists  *signingkey.Signer
}

// Signer issues tokens with the active key. It is nil while the key is sealed, and before the realm's first
// key is active.
func (r *Realm) Signer() *token.Signer {
	if active := r.active.Load(); active != nil {
		return active.tokens
	}
	return nil
}

// ListSigner signs status lists with the active key. It is nil if Signer returns nil.
func (r *Realm) ListSigner() *signingkey.Signer {
	if active := r.active.Load(); active != nil {
		return active.lists
	}
	return nil
}

// Client returns the client with the given client ID, or nil. The caller must not modify it.
func (r *Realm) Client(id string) *Client {
	client, _ := r.tables.clients.Load(id)
	return client
}

// Verify returns the claims and the client of a token if it is valid at the given time. The realm
// and the client must be usable. The client that has the token's client ID now must own the token. The
// token must not be older than spec.tokensValidAfter of the realm or client. If the client requires
// DPoP now, the token must be bound to a key. If it acts for another subject, the same is true for every
// client in it, as of the token that this client got, and the rules that allowed it must not have changed.
// The memory saves only the signature and the decoding. All of this is checked each time.
//
// The error is token.ErrInvalid.
func (r *Realm) Verify(memory *token.Memory, compact string, now time.Time) (token.Verified, *Client, error) {
	verified, err := r.verifier.Verify(memory, compact, now)
	if err != nil {
		return token.Verified{}, nil, err
	}
	client := r.Client(verified.ClientID)
	if r.Disabled || client == nil || !r.accepts(client, verified.Identity, &verified, verified.IssuedAt, now) {
		return token.Verified{}, nil, token.ErrInvalid
	}
	if err := r.checkDelegation(&verified, client, now); err != nil {
		return token.Verified{}, nil, err
	}
	return verified, client, nil
}

// TokensPerSecondOf returns the maximum number of tokens per second for a client of the realm, or 0
// if there is no limit.
func (r *Realm) TokensPerSecondOf(client *Client) int32 {
	if r.TokensPerSecond == 0 || client.TokensPerSecond == 0 {
		return max(r.TokensPerSecond, client.TokensPerSecond)
	}
	return min(r.TokensPerSecond, client.TokensPerSecond)
}

// supersedes reports whether r is served instead of other, which has the same name. The superseded
// realm has been deleted, but its record still exists. The UID breaks ties, so that all token
// servers serve the same realm.
func (r *Realm) supersedes(other *Realm) bool {
	return cmp.Or(r.CreatedAt.Compare(other.CreatedAt), strings.Compare(r.UID, other.UID)) > 0
}
