package keycloak

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// client has the members of a client that matter for the client credentials grant.
type client struct {
	ID              string            `json:"clientId"`
	Name            string            `json:"name"`
	Description     string            `json:"description"`
	Enabled         *bool             `json:"enabled"`
	Protocol        string            `json:"protocol"`
	Public          bool              `json:"publicClient"`
	BearerOnly      bool              `json:"bearerOnly"`
	ServiceAccounts bool              `json:"serviceAccountsEnabled"`
	Authenticator   string            `json:"clientAuthenticatorType"`
	Secret          string            `json:"secret"`
	Attributes      map[string]string `json:"attributes"`
	DefaultScopes   []string          `json:"defaultClientScopes"`
	OptionalScopes  []string          `json:"optionalClientScopes"`
	Mappers         []mapper          `json:"protocolMappers"`
}

// The authenticators of Keycloak that are supported.
const (
	authenticatorSecret = "client-secret"
	authenticatorKey    = "client-jwt"
)

// builtIn are the clients that Keycloak creates in each realm.
var builtIn = []string{"account", "account-console", "admin-cli", "broker", "realm-management", "security-admin-console"}

// add adds the client to an export, or the reason why it can't move.
//
// The error is that of reading random.
func (c *client) add(export *migration.Export, r *realm, random io.Reader) error {
	if problem := c.unsuitable(); problem != "" {
		if !slices.Contains(builtIn, c.ID) {
			export.Skip(c.ID, "%s", problem)
		}
		return nil
	}
	moved := migration.Client{
		ID: c.ID, Description: c.describe(), Disabled: c.disabled(r),
		BindTokens: c.Attributes["dpop.bound.access.tokens"] == "true",
	}
	if lifetime := c.Attributes["access.token.lifespan"]; lifetime != "" {
		n, err := strconv.ParseInt(lifetime, 10, 64)
		if err != nil {
			export.Skip(c.ID, "its attribute access.token.lifespan is not a number of seconds")
			return nil //nolint:nilerr // The client is not imported.
		}
		if n > 0 { // Keycloak uses the realm's lifetime for others.
			moved.TokenLifetime = seconds(n)
		}
	}
	var problem string
	switch c.Authenticator {
	case "", authenticatorSecret:
		hash, unusable, err := hashed(c.Secret, random)
		if err != nil {
			return fmt.Errorf("hashing the secret of the client %q: %w", c.ID, err)
		}
		moved.Hashes, problem = []string{hash}, unusable
	case authenticatorKey:
		moved.PublicKeys, problem = c.publicKeys()
	default:
		problem = "its authenticator is not supported; use client-secret, or client-jwt with keys in the client"
	}
	if problem != "" {
		export.Skip(c.ID, "%s", problem)
		return nil
	}
	moved.Scopes, moved.Audiences = c.scopes(r), c.audiences(r)
	c.warn(export, r)
	export.Add(moved)
	return nil
}

// disabled reports whether the client can't get tokens in Keycloak at present.
func (c *client) disabled(r *realm) bool {
	isFalse := func(enabled *bool) bool { return enabled != nil && !*enabled }
	return isFalse(c.Enabled) || isFalse(r.Enabled) ||
		slices.ContainsFunc(r.Users, func(u user) bool { return u.Client == c.ID && isFalse(u.Enabled) })
}

// unsuitable returns why a client can't get tokens with the client credentials grant.
func (c *client) unsuitable() string {
	switch {
	case c.Protocol != "" && c.Protocol != "openid-connect":
		return "it does not use OpenID Connect"
	case c.Public:
		return "it is a public client, which has no credentials"
	case c.BearerOnly:
		return "it is a bearer-only client, which verifies tokens but does not request them; add its name to the audiences of the Realm"
	case !c.ServiceAccounts:
		return "it has no service account, so it cannot use the client credentials grant, and only clients that can use it move"
	}
	return ""
}

// describe returns the description, or the name if there is none. Text in "${...}" is a key that only
// Keycloak translates.
func (c *client) describe() string {
	for _, text := range []string{c.Description, c.Name} {
		if text != "" && !strings.HasPrefix(text, "${") {
			return text
		}
	}
	return ""
}

// warn adds the settings that have no equivalent.
func (c *client) warn(export *migration.Export, r *realm) {
	if c.Attributes["client.secret.rotated"] != "" {
		export.Warn(c.ID, "its rotated secret does not move; only the current secret is valid")
	}
	if c.Attributes["client.secret.expiration.time"] != "" && c.Attributes["client.secret.expiration.time"] != "0" {
		export.Warn(c.ID, "its secret expires in Keycloak, but not here; set spec.expirationTime of the ApiClient, or replace the secret before that time")
	}
	if c.Attributes["tls.client.certificate.bound.access.tokens"] == "true" {
		export.Warn(c.ID, "its tokens are bound to a TLS certificate in Keycloak, but not here; use senderConstraint: DPoP if its software supports it")
	}
	var lost []string
	for _, m := range c.Mappers {
		if m.Type != audienceMapper && !slices.Contains(serviceAccountMappers, m.Name) {
			lost = append(lost, strconv.Quote(m.Name))
		}
	}
	if slices.Sort(lost); len(lost) > 0 {
		export.Warn(c.ID, "these protocol mappers have no equivalent and are dropped: %s; for fixed claims, use spec.claims", strings.Join(lost, ", "))
	}
	for _, u := range r.Users {
		if u.Client == c.ID && u.hasRoles() {
			export.Warn(c.ID, "its service account has roles, but tokens contain scopes instead of roles; let your APIs check scopes")
		}
	}
}

// serviceAccountMappers are the names of the mappers that Keycloak adds to each client with a
// service account.
var serviceAccountMappers = []string{"Client ID", "Client Host", "Client IP Address"}

func (u *user) hasRoles() bool {
	own := slices.ContainsFunc(u.RealmRoles, func(role string) bool { return !strings.HasPrefix(role, "default-roles-") })
	return own || len(u.ClientRoles) > 0
}
