// Package oauth parses OAuth 2.0 requests and defines parameter names, paths and error responses.
// It does not depend on HTTP servers, realms or clients: it turns untrusted bytes into values or
// errors.
package oauth

import (
	"strconv"
	"time"
)

// Values that RFC 6749 and related RFCs define.
const (
	// GrantTypeClientCredentials is the grant of RFC 6749 §4.4.2.
	GrantTypeClientCredentials = "client_credentials"
	// GrantTypeJWTBearer is the grant of RFC 7523 §2.1.
	GrantTypeJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// GrantTypeTokenExchange is the grant of RFC 8693 §2.1.
	GrantTypeTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	// GrantProfileIDJAG is the profile of the JWT bearer grant of
	// draft-ietf-oauth-identity-assertion-authz-grant.
	GrantProfileIDJAG = "urn:ietf:params:oauth:grant-profile:id-jag"
	// TokenTypeBearer is the token_type of tokens that anyone who holds them can use (RFC 6750
	// §6.1.1).
	TokenTypeBearer = "bearer"
	// TokenTypeDPoP is the token_type of tokens that are bound to a key (RFC 9449 §5).
	TokenTypeDPoP = "DPoP"
	// AssertionTypeJWT is the client_assertion_type of RFC 7523 §2.2.
	AssertionTypeJWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// AssertionTypeSPIFFE is the client_assertion_type of JWT-SVIDs (draft-ietf-oauth-spiffe-client-auth).
	AssertionTypeSPIFFE = "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"
	// ContentTypeForm is the media type of the body of a token request (RFC 6749 appendix B).
	ContentTypeForm = "application/x-www-form-urlencoded"
)

// Types of tokens in a token exchange (RFC 8693 §3).
const (
	TypeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	TypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	TypeJWT         = "urn:ietf:params:oauth:token-type:jwt"
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
	// StatusListPath is the path before the number of a status list (draft-ietf-oauth-status-list), after
	// the realm.
	StatusListPath = "/oauth2/status/"
	// JWKSPath is the path of the realm's public keys, after the realm.
	JWKSPath = "/oauth2/jwks"
	// WellKnownJWKSPath is another path of the realm's public keys, after the realm. No specification defines
	// it, but some verifiers look there if they know only the issuer. Metadata doesn't contain it.
	WellKnownJWKSPath = "/.well-known/jwks.json"
	// ListJWKSPath is the path of the public keys that sign the realm's status lists, after the realm. They
	// are none of those at JWKSPath, so that no list passes as a token (RFC 8725 §3.12).
	ListJWKSPath = StatusListPath + "jwks"
	// ServerMetadataPath is the well-known prefix of RFC 8414 §3, before the realm.
	ServerMetadataPath = "/.well-known/oauth-authorization-server"
	// OpenIDConfigurationPath is the metadata path of OpenID Connect Discovery, after the realm.
	OpenIDConfigurationPath = "/.well-known/openid-configuration"
)

// StatusListURI returns the URL of the status list with the given number of the realm with the given issuer.
func StatusListURI(issuer string, number int64) string {
	return issuer + StatusListPath + strconv.FormatInt(number, 10)
}

// MaxKeyCache is how long a verifier may cache a realm's public keys.
const MaxKeyCache = 5 * time.Minute

// Metadata is the authorization server metadata of RFC 8414 §2, limited to the members that apply
// to a realm.
type Metadata struct {
	Issuer string `json:"issuer"`
	// AuthorizationEndpoint rejects every request; see NewMetadata.
	AuthorizationEndpoint             string   `json:"authorization_endpoint"`
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

	// AuthorizationGrantProfilesSupported lists the profiles of the JWT bearer grant
	// (draft-ietf-oauth-identity-assertion-authz-grant).
	AuthorizationGrantProfilesSupported []string `json:"authorization_grant_profiles_supported,omitempty"`

	// StatusListJWKSURI is where the keys are that sign status lists. No specification defines a member for it
	// (RFC 8414 §2 allows others).
	StatusListJWKSURI string `json:"status_list_jwks_uri,omitempty"`

	CodeChallengeMethodsSupported []string `json:"code_challenge_methods_supported"`
	// DPoPSigningAlgValuesSupported lists the algorithms for proofs (RFC 9449 §5.1).
	DPoPSigningAlgValuesSupported []string `json:"dpop_signing_alg_values_supported"`
}

// OpenIDConfiguration is Metadata with members of OpenID Connect Discovery 1.0 §3, for verifiers
// that use OpenID Connect Discovery.
type OpenIDConfiguration struct {
	Metadata
	SubjectTypesSupported            []string `json:"subject_types_supported"`
	IDTokenSigningAlgValuesSupported []string `json:"id_token_signing_alg_values_supported"`
}

// Optional says which optional parts of the protocol a realm is configured for.
type Optional struct {
	TokenExchange bool // it has rules for token exchange
	IDJAG         bool // it accepts ID-JAGs
	SPIFFE        bool // it trusts a SPIFFE trust domain
	StatusLists   bool // it has status lists
}

// NewMetadata returns the metadata of the realm with the given issuer. RFC 8414 requires
// response_types_supported. It is empty because no response type is supported at the authorization
// endpoint, which exists only for client libraries: the SDKs of the Model Context Protocol reject
// metadata without authorization_endpoint or without the PKCE method S256, also if they never use
// them.
func NewMetadata(issuer string, scopes []string, has Optional) Metadata {
	authMethods := []string{"client_secret_basic", "client_secret_post", "private_key_jwt"}
	if has.SPIFFE {
		authMethods = append(authMethods, "spiffe_jwt")
	}
	grantTypes := []string{GrantTypeClientCredentials, GrantTypeJWTBearer}
	if has.TokenExchange {
		grantTypes = append(grantTypes, GrantTypeTokenExchange)
	}
	var profiles []string
	if has.IDJAG {
		profiles = []string{GrantProfileIDJAG}
	}
	var listJWKSURI string
	if has.StatusLists {
		listJWKSURI = issuer + ListJWKSPath
	}
	return Metadata{
		Issuer:                            issuer,
		AuthorizationEndpoint:             issuer + AuthorizationPath,
		TokenEndpoint:                     issuer + TokenPath,
		JWKSURI:                           issuer + JWKSPath,
		ScopesSupported:                   scopes,
		ResponseTypesSupported:            []string{},
		GrantTypesSupported:               grantTypes,
		TokenEndpointAuthMethodsSupported: authMethods,

		IntrospectionEndpoint:                     issuer + IntrospectionPath,
		IntrospectionEndpointAuthMethodsSupported: authMethods,

		AuthorizationGrantProfilesSupported: profiles,

		StatusListJWKSURI: listJWKSURI,

		CodeChallengeMethodsSupported: []string{"S256"},
	}
}

// ResourceMetadata is the protected resource metadata of RFC 9728 §2. It has no scopes_supported,
// because a client would request all of them, and few clients have all scopes of a realm. It doesn't
// mention DPoP, because the gateway of the API decides whether to support it.
type ResourceMetadata struct {
	Resource               string   `json:"resource"`
	AuthorizationServers   []string `json:"authorization_servers"`
	BearerMethodsSupported []string `json:"bearer_methods_supported"`
}

// NewResourceMetadata returns the metadata of an API that accepts the tokens of the realm with the
// given issuer if they have the given audience.
func NewResourceMetadata(audience, issuer string) ResourceMetadata {
	return ResourceMetadata{Resource: audience, AuthorizationServers: []string{issuer}, BearerMethodsSupported: []string{"header"}}
}
