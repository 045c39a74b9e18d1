package registry

import (
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

// Client is a client in the form that requests need. It is immutable after it was added to a
// registry.
type Client struct {
	UID       string
	RealmUID  string
	ID        string // client_id, unique in the realm
	CreatedAt time.Time
	// Disabled clients get no tokens, and their tokens are not valid.
	Disabled bool
	// ExpiresAt is the time from which the client is disabled. If it is zero, the client does not
	// expire.
	ExpiresAt time.Time
	// TokensValidAfter revokes the tokens that were issued before it. If it is zero, it revokes
	// none.
	TokensValidAfter time.Time
	// TokenLifetime shortens the token lifetime of the realm. If it is zero, the realm's applies.
	TokenLifetime time.Duration
	// TokensPerSecond is a limit in addition to the realm's. If it is 0, only the realm's applies.
	TokensPerSecond int32
	Scopes          []string // granted, sorted
	Audiences       []string // granted; if empty, those of the realm
	Secrets         []clientsecret.Credential
	// PublicKeys verify the assertions that the client signs.
	PublicKeys []signingkey.PublicKey
	// ServiceAccounts may act as the client with their tokens.
	ServiceAccounts []clientassertion.ServiceAccount
}

// Usable reports whether the client may get tokens and use its existing tokens at that time.
func (c *Client) Usable(now time.Time) bool {
	return !c.Disabled && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}
