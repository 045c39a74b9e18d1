package hydra

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tools/migration"
)

// client has the members of a client that matter for the client credentials grant.
type client struct {
	ID            string          `json:"client_id"`
	Name          string          `json:"client_name"`
	GrantTypes    []string        `json:"grant_types"`
	Scope         string          `json:"scope"`
	Audience      []string        `json:"audience"`
	Method        string          `json:"token_endpoint_auth_method"`
	Algorithm     string          `json:"token_endpoint_auth_signing_alg"`
	Keys          json.RawMessage `json:"jwks"`
	KeysURI       string          `json:"jwks_uri"`
	TokenLifetime string          `json:"client_credentials_grant_access_token_lifespan"`

	// These have no equivalent.
	CORSOrigins []string        `json:"allowed_cors_origins"`
	Contacts    []string        `json:"contacts"`
	Metadata    json.RawMessage `json:"metadata"`
	Owner       string          `json:"owner"`
	ClientURI   string          `json:"client_uri"`
	LogoURI     string          `json:"logo_uri"`
	PolicyURI   string          `json:"policy_uri"`
	TermsURI    string          `json:"tos_uri"`
}

const grantClientCredentials = "client_credentials"

// The authentication methods of Hydra.
const (
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
	methodNone  = "none"
)

// add adds the client to an export, or the reason why it can't move.
func (c *client) add(export *migration.Export, hashes []string) {
	if !slices.Contains(c.GrantTypes, grantClientCredentials) {
		export.Skip(c.ID, "it does not have the grant type client_credentials, and only clients with it can move")
		return
	}
	moved := migration.Client{ID: c.ID, Description: c.Name, Audiences: c.Audience}
	if c.TokenLifetime != "" {
		lifetime, err := time.ParseDuration(c.TokenLifetime)
		if err != nil {
			export.Skip(c.ID, "its token lifetime is not a duration")
			return
		}
		moved.TokenLifetime = lifetime
	}
	var problem string
	switch cmp.Or(c.Method, methodBasic) {
	case methodBasic, methodPost:
		moved.Hashes, problem = verified(hashes)
	case methodKey:
		moved.PublicKeys, problem = c.publicKeys()
	case methodNone:
		problem = "it is a public client, which has no credentials"
	default:
		problem = "its authentication method is not supported; use client_secret_basic, client_secret_post, or private_key_jwt"
	}
	if problem != "" {
		export.Skip(c.ID, "%s", problem)
		return
	}
	moved.Scopes = c.scopes(export)
	c.warn(export)
	export.Add(moved)
}

// verified returns the hashes if token servers can use all of them, and otherwise the reason why not.
func verified(hashes []string) ([]string, string) {
	if len(hashes) == 0 {
		return nil, "its secret is not in the file with the hashes; export the hashes again"
	}
	for _, hash := range hashes {
		verifier, err := clientsecret.ParseVerifier(hash)
		if err != nil {
			return nil, err.Error() + "; give the client a new secret"
		}
		if !verifier.IsSlow() {
			return nil, clientsecret.ErrHashScheme.Error()
		}
	}
	return hashes, ""
}

func (c *client) publicKeys() ([]migration.PublicKey, string) {
	if c.KeysURI != "" {
		return nil, "its public keys are at jwks_uri, and the operator does not fetch them; list them in spec.publicKeys of an ApiClient"
	}
	keys, err := migration.Keys(c.Keys, signingkey.Algorithm(cmp.Or(c.Algorithm, string(signingkey.RS256))))
	if err != nil {
		return nil, err.Error()
	}
	return keys, ""
}

// scopes returns the scopes of the client without "*", which would mean all scopes of the realm in a
// grant.
func (c *client) scopes(export *migration.Export) []string {
	scopes := strings.Fields(c.Scope)
	for _, scope := range scopes {
		if strings.Contains(scope, "*") {
			export.Warn(c.ID, "its scope %q matches other scopes in Hydra, but not here; add the scopes that it requests to the ApiClient and the Realm", scope)
		}
	}
	return slices.DeleteFunc(scopes, func(s string) bool { return s == "*" })
}

// warn adds the settings that have no equivalent.
func (c *client) warn(export *migration.Export) {
	var lost []string
	for name, isSet := range map[string]bool{
		"allowed_cors_origins": len(c.CORSOrigins) > 0, "contacts": len(c.Contacts) > 0, "owner": c.Owner != "",
		"metadata":   !slices.Contains([]string{"", "null", "{}"}, string(c.Metadata)),
		"client_uri": c.ClientURI != "", "logo_uri": c.LogoURI != "", "policy_uri": c.PolicyURI != "", "tos_uri": c.TermsURI != "",
	} {
		if isSet {
			lost = append(lost, name)
		}
	}
	if slices.Sort(lost); len(lost) > 0 {
		export.Warn(c.ID, "these settings have no equivalent and are dropped: %s", strings.Join(lost, ", "))
	}
	others := slices.DeleteFunc(slices.Clone(c.GrantTypes), func(s string) bool { return s == grantClientCredentials })
	if slices.Sort(others); len(others) > 0 {
		export.Warn(c.ID, "these grant types have no equivalent and are dropped: %s", strings.Join(others, ", "))
	}
}

// ignored are members that have no meaning for the client credentials grant, or that are handled
// elsewhere.
var ignored = []string{
	"access_token_strategy", "backchannel_logout_session_required", "backchannel_logout_uri", "client_secret",
	"client_secret_expires_at", "created_at", "frontchannel_logout_session_required", "frontchannel_logout_uri",
	"post_logout_redirect_uris", "redirect_uris", "registration_access_token", "registration_client_uri",
	"request_object_signing_alg", "request_uris", "response_modes", "response_types", "sector_identifier_uri",
	"skip_consent", "skip_logout_consent", "subject_type", "updated_at", "userinfo_signed_response_alg",
}

var used = []string{
	"allowed_cors_origins", "audience", "client_credentials_grant_access_token_lifespan", "client_id", "client_name",
	"client_uri", "contacts", "grant_types", "jwks", "jwks_uri", "logo_uri", "metadata", "owner", "policy_uri",
	"scope", "token_endpoint_auth_method", "token_endpoint_auth_signing_alg", "tos_uri",
}

// members counts the members of a client that this package doesn't know.
func members(raw json.RawMessage, unknown map[string]int) error {
	var all map[string]json.RawMessage
	if err := migration.Decode(raw, &all); err != nil {
		return err
	}
	for name := range all {
		if !slices.Contains(used, name) && !slices.Contains(ignored, name) && !strings.HasSuffix(name, "_lifespan") {
			unknown[name]++
		}
	}
	return nil
}
