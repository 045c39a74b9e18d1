package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

var (
	// ErrSignIn means that a sign-in failed because it was started in a different browser, expired,
	// or was rejected by the identity provider.
	ErrSignIn = errors.New("sign-in failed")
	// ErrIssuer means that the identity provider is unavailable or returned an invalid response.
	ErrIssuer = errors.New("identity provider failed")
)

// ProviderOptions configures an OpenID Connect provider.
type ProviderOptions struct {
	// Issuer is the URL of an OpenID Connect issuer that the API server trusts.
	Issuer string
	// ClientID must be accepted by the API server as the token audience. ClientSecret is empty for
	// a public client.
	ClientID, ClientSecret string
	// Scopes are requested in addition to openid.
	Scopes []string
	// RedirectURL is the callback URL of the portal.
	RedirectURL string
	// Roots are the trusted authorities of the issuer's certificate. If it is nil, the system's root
	// certificates are used.
	Roots *x509.CertPool
	// Timeout limits each request to the issuer, until its response is read. The default is 5 s.
	Timeout time.Duration
}

// Provider signs users in at an OpenID Connect issuer with the authorization code flow and PKCE
// (RFC 7636). The resulting ID token is accepted by the API server.
//
// At most 16 sign-ins use the issuer at a time, and 16 more wait for them.
type Provider struct {
	options   ProviderOptions
	sessions  *Sessions
	client    *http.Client
	discovery discovery
	places    *places
}

// signingAlgorithms are accepted for ID tokens. All are asymmetric. The issuer's metadata isn't used, because it may
// have changed since it was read.
var signingAlgorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// NewProvider returns a provider. It sends no request to the issuer until a user signs in.
func NewProvider(options ProviderOptions, sessions *Sessions) *Provider {
	places := newPlaces()
	client := newIssuerClient(options.Roots, cmp.Or(options.Timeout, defaultIssuerTimeout))
	return &Provider{
		options: options, sessions: sessions, client: client,
		discovery: discovery{issuer: options.Issuer, client: client, places: places}, places: places,
	}
}

// signIn is the state of a pending sign-in. It is stored in an encrypted cookie.
type signIn struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin returns the URL of the issuer to which the browser must be redirected, and sets a cookie for
// Complete. It returns ErrBusy if too many sign-ins are in progress.
func (p *Provider) Begin(ctx context.Context, w http.ResponseWriter) (location string, err error) {
	discovered, err := p.discovery.get(ctx)
	if err != nil {
		return "", err
	}
	pending := signIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	encrypted, err := p.sessions.signIn.Encode(signInCookie, pending)
	if err != nil {
		return "", fmt.Errorf("encrypting the sign-in cookie: %w", err)
	}
	http.SetCookie(w, cookie(signInCookie, encrypted, int(signInTimeout.Seconds())))
	return p.flow(discovered).AuthCodeURL(pending.State, oidc.Nonce(pending.Nonce), oauth2.S256ChallengeOption(pending.Verifier)), nil
}

// Complete handles the redirect from the issuer and returns the ID token. It returns ErrSignIn
// unless Begin started the sign-in in the same browser and the issuer accepts it, and ErrBusy if
// too many sign-ins are in progress.
func (p *Provider) Complete(ctx context.Context, w http.ResponseWriter, r *http.Request) (string, error) {
	var pending signIn
	c, err := r.Cookie(signInCookie)
	if err != nil || p.sessions.signIn.Decode(signInCookie, c.Value, &pending) != nil {
		return "", fmt.Errorf("%w: it has expired or was started in a different browser; sign in again", ErrSignIn)
	}
	expire(w, signInCookie)
	query := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(pending.State)) != 1 {
		return "", fmt.Errorf("%w: the state does not match; sign in again", ErrSignIn)
	}
	if code := query.Get("error"); code != "" {
		return "", fmt.Errorf("%w: the identity provider returned the error %q", ErrSignIn, code)
	}
	discovered, err := p.discovery.get(ctx)
	if err != nil {
		return "", err
	}
	if err := p.places.take(ctx); err != nil {
		return "", err
	}
	defer p.places.leave()
	return p.exchange(oidc.ClientContext(ctx, p.client), discovered, query.Get("code"), pending)
}

// exchange exchanges the code from the issuer for an ID token.
func (p *Provider) exchange(ctx context.Context, discovered *oidc.Provider, code string, pending signIn) (string, error) {
	response, err := p.flow(discovered).Exchange(ctx, code, oauth2.VerifierOption(pending.Verifier))
	if rejected, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		switch rejected.ErrorCode {
		case "invalid_grant":
			return "", fmt.Errorf("%w: the identity provider rejected the code; sign in again", ErrSignIn)
		case "": // The text of the error would be the response, which can contain anything.
			return "", fmt.Errorf("%w: exchanging the code for a token: the response is %s", ErrIssuer, rejected.Response.Status)
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w: exchanging the code for a token: %w", ErrIssuer, err)
	}
	raw, ok := response.Extra("id_token").(string)
	if !ok {
		return "", fmt.Errorf("%w: the identity provider did not return an ID token", ErrSignIn)
	}
	config := &oidc.Config{ClientID: p.options.ClientID, SupportedSigningAlgs: signingAlgorithms}
	token, err := discovered.Verifier(config).Verify(ctx, raw)
	if err != nil {
		return "", fmt.Errorf("%w: verifying the ID token: %w", ErrIssuer, err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(pending.Nonce)) != 1 {
		return "", fmt.Errorf("%w: the nonce of the ID token does not match; sign in again", ErrSignIn)
	}
	return raw, nil
}

// flow returns the OAuth configuration for the issuer.
func (p *Provider) flow(discovered *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: p.options.ClientSecret, RedirectURL: p.options.RedirectURL,
		Endpoint: discovered.Endpoint(), Scopes: append([]string{oidc.ScopeOpenID}, p.options.Scopes...),
	}
}
