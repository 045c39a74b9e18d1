package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// providerTimeout limits each request to the identity provider.
const providerTimeout = 10 * time.Second

// ErrSignIn means that a sign-in failed because it was started in a different browser, expired, or
// was rejected by the identity provider.
var ErrSignIn = errors.New("sign-in failed")

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
	// HTTPClient is used for requests to the issuer. If it is nil, a default client is used.
	HTTPClient *http.Client
}

// Provider signs users in at an OpenID Connect issuer with the authorization code flow and PKCE
// (RFC 7636). The resulting ID token is accepted by the API server.
type Provider struct {
	options  ProviderOptions
	sessions *Sessions

	mu         sync.Mutex
	discovered *oidc.Provider // nil until the first successful discovery
}

// NewProvider returns a provider. It sends no request to the issuer until a user signs in.
func NewProvider(options ProviderOptions, sessions *Sessions) *Provider {
	if options.HTTPClient == nil {
		options.HTTPClient = &http.Client{}
	}
	options.HTTPClient.Timeout = providerTimeout
	return &Provider{options: options, sessions: sessions}
}

// signIn is the state of a pending sign-in. It is stored in an encrypted cookie.
type signIn struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin redirects the browser to the issuer.
func (p *Provider) Begin(w http.ResponseWriter, r *http.Request) error {
	flow, _, err := p.flow(r.Context())
	if err != nil {
		return err
	}
	pending := signIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	encrypted, err := p.sessions.signIn.Encode(signInCookie, pending)
	if err != nil {
		return fmt.Errorf("encrypting the sign-in cookie: %w", err)
	}
	http.SetCookie(w, cookie(signInCookie, encrypted, int(signInTimeout.Seconds())))
	url := flow.AuthCodeURL(pending.State, oidc.Nonce(pending.Nonce), oauth2.S256ChallengeOption(pending.Verifier))
	http.Redirect(w, r, url, http.StatusSeeOther)
	return nil
}

// Complete handles the redirect from the issuer and returns the ID token. It returns ErrSignIn
// unless Begin started the sign-in in the same browser.
func (p *Provider) Complete(w http.ResponseWriter, r *http.Request) (string, error) {
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
	flow, verifier, err := p.flow(r.Context())
	if err != nil {
		return "", err
	}
	ctx := oidc.ClientContext(r.Context(), p.options.HTTPClient)
	response, err := flow.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(pending.Verifier))
	if err != nil {
		return "", fmt.Errorf("exchanging the code for a token: %w", err)
	}
	raw, ok := response.Extra("id_token").(string)
	if !ok {
		return "", fmt.Errorf("%w: the identity provider did not return an ID token", ErrSignIn)
	}
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return "", fmt.Errorf("verifying the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(pending.Nonce)) != 1 {
		return "", fmt.Errorf("%w: the nonce of the ID token does not match; sign in again", ErrSignIn)
	}
	return raw, nil
}

// flow returns the OAuth configuration and ID token verifier for the issuer. If discovery failed
// before, it tries again.
func (p *Provider) flow(ctx context.Context) (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered == nil {
		// The verifier fetches keys with this context later, so it must outlive the request.
		discoveryCtx := oidc.ClientContext(context.WithoutCancel(ctx), p.options.HTTPClient)
		discovered, err := oidc.NewProvider(discoveryCtx, p.options.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("discovering the endpoints of issuer %s: %w", p.options.Issuer, err)
		}
		p.discovered = discovered
	}
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: p.options.ClientSecret, RedirectURL: p.options.RedirectURL,
		Endpoint: p.discovered.Endpoint(), Scopes: append([]string{oidc.ScopeOpenID}, p.options.Scopes...),
	}, p.discovered.Verifier(&oidc.Config{ClientID: p.options.ClientID}), nil
}
