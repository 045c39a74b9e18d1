// Package oauth parses OAuth 2.0 requests and defines parameter names, paths and error responses.
// It does not depend on HTTP servers, realms or clients: it turns untrusted bytes into values or
// errors.
package oauth

import "time"

// Values that RFC 6749 and related RFCs define.
const (
	// GrantTypeClientCredentials is the grant of RFC 6749 §4.4.2.
	GrantTypeClientCredentials = "client_credentials"
	// GrantTypeJWTBearer is the grant of RFC 7523 §2.1.
	GrantTypeJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// TokenTypeBearer is the token_type of tokens that anyone who holds them can use (RFC 6750
	// §6.1.1).
	TokenTypeBearer = "bearer"
	// TokenTypeDPoP is the token_type of tokens that are bound to a key (RFC 9449 §5).
	TokenTypeDPoP = "DPoP"
	// AssertionTypeJWT is the only supported client_assertion_type (RFC 7523 §2.2).
	AssertionTypeJWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// ContentTypeForm is the media type of the body of a token request (RFC 6749 appendix B).
	ContentTypeForm = "application/x-www-form-urlencoded"
)

// Endpoint paths. The realm's name is the first path segment of the URL. Only the RFC 8414
// well-known prefix precedes it.
const (
	// TokenPath is the path of the token endpoint, after the realm.
	TokenPath = "/oauth2/token"
	// IntrospectionPath is the path of the introspection endpoint (RFC 7662), after the realm.
	IntrospectionPath = "/oauth2/introspect"
	// VerificationPath is the path of the endpoint that gateways call to check whether to allow a
	// request. It follows the realm.
	VerificationPath = "/oauth2/verify"
	// AuthorizationPath is the path of the authorization endpoint, after the realm. It rejects every
	// request.
	AuthorizationPath = "/oauth2/authorize"
	// ResourceMetadataPath is the path before the name of a protected resource (RFC 9728), after the
	// realm.
	ResourceMetadataPath = "/oauth2/resource-metadata/"
	// JWKSPath is the path of the realm's public keys, after the realm.
	JWKSPath = "/oauth2/jwks"
	// ServerMetadataPath is the well-known prefix of RFC 8414 §3, before the realm.
	ServerMetadataPath = "/.well-known/oauth-authorization-server"
	// OpenIDConfigurationPath is the metadata path of OpenID Connect Discovery, after the realm.
	OpenIDConfigurationPath = "/.well-known/openid-configuration"
)

// MaxKeyCache is how long a verifier may cache a realm's public keys.
const MaxKeyCache = 5 * time.Minute

// Metadata is the authorization server metadata of RFC 8414 §2, limited to the members that apply
// to a realm.
type Metadata struct {
	Issuer                            string   `json:"issuer"`
	TokenEndpoint                     string   `json:"token_endpoint"`
	JWKSURI                           string   `json:"jwks_uri"`
	ScopesSupported                   []string `json:"scopes_supported,omitempty"`
	ResponseTypesSupported            []string `json:"response_types_supported"`
	GrantTypesSupported               []string `json:"grant_types_supported"`
	TokenEndpointAuthMethodsSupported []string `json:"token_endpoint_auth_methods_supported"`
	// TokenEndpointAuthSigningAlgValuesSupported lists the algorithms for private_key_jwt.
	TokenEndpointAuthSigningAlgValuesSupported []string `json:"token_endpoint_auth_signing_alg_values_supported"`

	IntrospectionEndpoint                     string   `json:"introspection_endpoint"`
	IntrospectionEndpointAuthMethodsSupported []string `json:"introspection_endpoint_auth_methods_supported"`
	// IntrospectionEndpointAuthSigningAlgValuesSupported lists the algorithms for private_key_jwt.
	IntrospectionEndpointAuthSigningAlgValuesSupported []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
}

// OpenIDConfiguration is Metadata with members of OpenID Connect Discovery 1.0 §3, for verifiers
// that use OpenID Connect Discovery. It has no authorization_endpoint, because a realm has none.
type OpenIDConfiguration struct {
	Metadata
	SubjectTypesSupported            []string `json:"subject_types_supported"`
	IDTokenSigningAlgValuesSupported []string `json:"id_token_signing_alg_values_supported"`
}

// NewMetadata returns the metadata of the realm with the given issuer. RFC 8414 requires
// response_types_supported. It is empty because a realm has no authorization endpoint.
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
