package registry

import (
	"slices"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Client is a client, prepared for handling requests. Except for its last uses and its last token, it is
// immutable once it has been added to a registry.
type Client struct {
	// Record is the name of the client's record. It is derived from RealmUID and ID, so that at most
	// one client has a client ID.
	Record string
	// Version is the resource version of the record.
	Version  string
	UID      string
	RealmUID string
	ID       string // client_id, unique within the realm
	// Namespace is the namespace of the client's ApiClient.
	Namespace string
	// Identity is the client's identity in its tokens. Tokens with another identity are not valid,
	// except the UID: a client that was restored from a backup may have got tokens before that.
	Identity string
	// Disabled clients can't get tokens, and their existing tokens are not valid.
	Disabled bool
	// Unenforced means that the record has a restriction that this version doesn't know. Disabled is then
	// set, too.
	Unenforced bool
	// ExpiresAt is when the client expires. An expired client is treated as disabled. If zero, the
	// client does not expire.
	ExpiresAt time.Time
	// TokensValidAfter revokes all tokens issued before this time. If zero, no tokens are revoked.
	TokensValidAfter time.Time
	// TokenLifetime shortens the realm's token lifetime. If zero, the realm's token lifetime
	// applies.
	TokenLifetime time.Duration
	// TokensPerSecond limits the client in addition to the realm's limit. If 0, only the realm's
	// limit applies.
	TokensPerSecond int32
	Scopes          []string // granted, sorted
	// DelegatedScopes are further scopes that are granted only in tokens that act for another subject.
	DelegatedScopes []string
	// NamespaceSelectors are digests; see record.Client.
	NamespaceSelectors []string
	Audiences          []string // granted, at least one
	Introspects        []string // audiences whose tokens the client can introspect
	Secrets            []clientsecret.Stored
	// PublicKeys verify assertions signed by the client.
	PublicKeys []signingkey.PublicKey
	// Identities lists the service accounts, and the tokens of the realm's trusted issuers, that
	// authenticate the client.
	Identities []Identity
	// Claims are the fixed claims in the client's tokens, as encoded members of a JSON object, each
	// preceded by a comma.
	Claims []byte
	// StatusIndex is the index in the realm's status lists; nil if the client's tokens refer to none.
	StatusIndex *record.StatusIndex
	// DPoP means that the client gets only tokens that are bound to a key (RFC 9449).
	DPoP bool

	// These are set when the client is added to a registry.
	lastUses  lastUses
	lastToken *token.Last
}

// LastToken is for the last token of the client.
func (c *Client) LastToken() *token.Last { return c.lastToken }

// MayIntrospect reports whether the client may learn about a valid token of its realm: its own
// tokens, and those for an audience that it may introspect (RFC 7662 §4).
func (c *Client) MayIntrospect(verified *token.Verified) bool {
	return c.hasIdentity(verified.Identity) || slices.ContainsFunc(c.Introspects, verified.HasAudience)
}

// hasIdentity reports whether a valid token with the identity is one of this client, and not of another one
// that had the same client ID.
func (c *Client) hasIdentity(identity string) bool {
	return identity == c.Identity || c.UID != "" && identity == c.UID
}

// Usable reports whether, at the given time, the client can get tokens and its existing tokens are
// valid.
func (c *Client) Usable(now time.Time) bool {
	return !c.Disabled && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}
