// Package migration writes the objects for clients that move here from another system. Each package
// below it reads the exports of one system.
//
// Everything in an export is untrusted. An imported client must not be able to request more than the
// client in the export, and secrets must not appear in findings and errors.
package migration

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// Client is a client of another system.
type Client struct {
	// ID is the client ID, which callers keep.
	ID          string
	Description string
	Scopes      []string
	// Audiences is empty if the client's tokens are not for a particular API.
	Audiences []string
	// TokenLifetime is zero if the client has the default of its system.
	TokenLifetime time.Duration
	// Hashes are hashes of the client's secrets that clientsecret.ParseVerifier accepts.
	Hashes     []string
	PublicKeys []PublicKey
	// Disabled means that the client can't get tokens now.
	Disabled bool
	// BindTokens means that the client's tokens are bound to a key with DPoP.
	BindTokens bool
}

// PublicKey is a key that verifies the client's assertions. The algorithm is empty if the JWK states
// it.
type PublicKey struct {
	ID        string
	Algorithm signingkey.Algorithm
	JWK, PEM  string
}

// Export is what was read from another system.
type Export struct {
	// Clients are those that can move.
	Clients []Client
	// NotImported lists clients that can't move, and hashes without a client.
	NotImported []Finding
	// Warnings lists settings of clients that move without them.
	Warnings []Finding
	// TokenLifetime is the token lifetime of clients that don't set one.
	TokenLifetime time.Duration
}

// Finding is a client or a setting that doesn't move. It contains no secret.
type Finding struct {
	// ClientID is empty if the finding isn't about one client.
	ClientID string `json:"clientID,omitempty"`
	Message  string `json:"message"`
}

// Add adds a client if it can move, and a finding otherwise.
func (e *Export) Add(client Client) {
	if problem := client.problem(); problem != "" {
		e.Skip(client.ID, "%s", problem)
		return
	}
	for _, of := range []*[]string{&client.Scopes, &client.Audiences} {
		slices.Sort(*of)
		*of = slices.Compact(*of)
	}
	if client.TokenLifetime%time.Second != 0 {
		e.Warn(client.ID, "token lifetime %s is rounded down to whole seconds", client.TokenLifetime)
		client.TokenLifetime = client.TokenLifetime.Truncate(time.Second)
	}
	if utf8.RuneCountInString(client.Description) > maxDescription {
		e.Warn(client.ID, "the name is shortened to %d characters", maxDescription)
		client.Description = string([]rune(client.Description)[:maxDescription])
	}
	e.Clients = append(e.Clients, client)
}

// Skip adds a finding about a client that can't move, so it is not imported.
func (e *Export) Skip(clientID, format string, args ...any) {
	e.NotImported = append(e.NotImported, Finding{clientID, fmt.Sprintf(format, args...)})
}

// Warn adds a finding about a setting without which a client moves.
func (e *Export) Warn(clientID, format string, args ...any) {
	e.Warnings = append(e.Warnings, Finding{clientID, fmt.Sprintf(format, args...)})
}

// Sort sorts clients and findings, so that the same export gives the same output.
func (e *Export) Sort() {
	slices.SortFunc(e.Clients, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	for _, findings := range [][]Finding{e.NotImported, e.Warnings} {
		slices.SortFunc(findings, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.Message, b.Message))
		})
	}
}

// These limits of ApiClients and Realms are the same as in the API, which test/integration/api tests.
const (
	maxClientID    = 255
	maxDescription = 256
	maxScopes      = 256
	maxScope       = 128
	maxAudiences   = 16
	maxAudience    = 256
	maxHashes      = 2
	maxKeys        = 4
	minLifetime    = 10 * time.Second
	maxLifetime    = 24 * time.Hour
)

// reservedClientIDs is the prefix that the API reserves.
const reservedClientIDs = "wl/"

// problem returns why a client can't move, or an empty string.
func (c *Client) problem() string {
	switch {
	case c.ID == "":
		return "it has no client ID"
	case len(c.ID) > maxClientID:
		return fmt.Sprintf("the client ID has more than %d characters", maxClientID)
	case !clientIDPattern.MatchString(c.ID):
		return "the client ID must have printable ASCII characters except space, colon, percent sign, plus sign, and asterisk; register the client again with another ID"
	case strings.HasPrefix(c.ID, reservedClientIDs):
		return "the client ID begins with " + reservedClientIDs + ", which is reserved; register the client again with another ID"
	case len(c.Hashes) == 0 && len(c.PublicKeys) == 0:
		return "it has no secret and no public key"
	case len(c.Hashes) > maxHashes:
		return fmt.Sprintf("it has %d valid secrets, but an ApiClient can have %d; delete the rotated secrets that are no longer used", len(c.Hashes), maxHashes)
	case len(c.PublicKeys) > maxKeys:
		return fmt.Sprintf("it has %d public keys, but an ApiClient can have %d; delete those that are no longer used", len(c.PublicKeys), maxKeys)
	case c.TokenLifetime != 0 && (c.TokenLifetime < minLifetime || c.TokenLifetime > maxLifetime):
		return fmt.Sprintf("the token lifetime is %s, but it must be between 10s and 24h; change it", c.TokenLifetime)
	}
	return c.requestProblem()
}

// requestProblem returns what the client must not be able to request, or an empty string.
func (c *Client) requestProblem() string {
	switch {
	case len(c.Scopes) > maxScopes:
		return fmt.Sprintf("it has more than %d scopes", maxScopes)
	case len(c.Audiences) > maxAudiences:
		return fmt.Sprintf("it has more than %d audiences", maxAudiences)
	}
	for _, scope := range c.Scopes {
		if scope == "*" {
			return `the scope "*" would mean every scope of the realm in a grant; give the client the scopes that it requests`
		}
		if !validScope(scope) {
			return fmt.Sprintf("the scope %q must have at most %d printable ASCII characters except space, double quote, and backslash", scope, maxScope)
		}
	}
	for _, audience := range c.Audiences {
		if !validAudience(audience) {
			return fmt.Sprintf("the audience %q must be an absolute URI without a fragment, or a name without a colon, of at most %d characters", audience, maxAudience)
		}
	}
	return ""
}
