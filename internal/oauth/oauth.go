// Package oauth holds the words of the OAuth 2.0 wire: parameter names, error
// values, and the parsing of what a token request says. It knows no HTTP server,
// no realm and no client; it turns bytes from outside into values or errors.
package oauth

import "time"

// Values and names that RFC 6749 and its relatives fix.
const (
	// GrantTypeClientCredentials is the one grant that is served (RFC 6749 §4.4.2).
	GrantTypeClientCredentials = "client_credentials"
	// TokenTypeBearer is the token_type of every answer (RFC 6750 §6.1.1).
	TokenTypeBearer = "bearer"
	// AssertionTypeJWT is the one client_assertion_type that is served (RFC 7523 §2.2).
	AssertionTypeJWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// ContentTypeForm is the media type of a token request's body (RFC 6749 appendix B).
	ContentTypeForm = "application/x-www-form-urlencoded"
)

// Paths below the service's address; {realm} is the first path segment.
const (
	// TokenPath is the token endpoint, after the realm.
	TokenPath = "/oauth2/token"
	// IntrospectionPath is where a realm's clients ask about tokens (RFC 7662), after the realm.
	IntrospectionPath = "/oauth2/introspect"
	// VerificationPath is where gateways ask whether a request may pass, after the realm.
	VerificationPath = "/oauth2/verify"
	// JWKSPath is where a realm's public keys are, after the realm.
	JWKSPath = "/oauth2/jwks"
	// ServerMetadataPath is the well-known prefix of RFC 8414 §3.
	ServerMetadataPath = "/.well-known/oauth-authorization-server"
	// OpenIDConfigurationPath is where verifiers that follow OpenID Connect Discovery look, after the realm.
	OpenIDConfigurationPath = "/.well-known/openid-configuration"
)

// MaxKeyCache is the longest that a verifier may cache a realm's public keys.
const MaxKeyCache = 5 * time.Minute

// Metadata is the authorization server metadata of RFC 8414 §2, as far as it is
// true of a realm.
type Metadata struct {
	Issuer                            string   `json:"issuer"`
	TokenEndpoint                     string   `json:"token_endpoint"`
	JWKSURI                           string   `json:"jwks_uri"`
	ScopesSupported                   []string `json:"scopes_supported,omitempty"`
	ResponseTypesSupported            []string `json:"response_types_supported"`
	GrantTypesSupported               []string `json:"grant_types_supported"`
	TokenEndpointAuthMethodsSupported []string `json:"token_endpoint_auth_methods_supported"`
	// TokenEndpointAuthSigningAlgValuesSupported are for private_key_jwt.
	TokenEndpointAuthSigningAlgValuesSupported []string `json:"token_endpoint_auth_signing_alg_values_supported"`

	IntrospectionEndpoint                     string   `json:"introspection_endpoint"`
	IntrospectionEndpointAuthMethodsSupported []string `json:"introspection_endpoint_auth_methods_supported"`
	// IntrospectionEndpointAuthSigningAlgValuesSupported are for private_key_jwt.
	IntrospectionEndpointAuthSigningAlgValuesSupported []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
}

// OpenIDConfiguration is Metadata with members of OpenID Connect Discovery 1.0 §3, for
// verifiers that discover that way. There is no authorization endpoint to name.
type OpenIDConfiguration struct {
	Metadata
	SubjectTypesSupported            []string `json:"subject_types_supported"`
	IDTokenSigningAlgValuesSupported []string `json:"id_token_signing_alg_values_supported"`
}

// NewMetadata returns the metadata of the realm whose issuer is given. A realm has no
// authorization endpoint, so response_types_supported is present and empty, as RFC 8414 requires the member.
func NewMetadata(issuer string, scopes []string) Metadata {
	authMethods := []string{"client_secret_basic", "client_secret_post", "private_key_jwt"}
	return Metadata{
		Issuer:                            issuer,
		TokenEndpoint:                     issuer + TokenPath,
		JWKSURI:                           issuer + JWKSPath,
		ScopesSupported:                   scopes,
		ResponseTypesSupported:            []string{},
		GrantTypesSupported:               []string{GrantTypeClientCredentials},
		TokenEndpointAuthMethodsSupported: authMethods,

		IntrospectionEndpoint:                     issuer + IntrospectionPath,
		IntrospectionEndpointAuthMethodsSupported: authMethods,
	}
}
