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

// providerTimeout bounds a request to the identity provider.
const providerTimeout = 10 * time.Second

// ErrSignIn says that a sign-in at the identity provider can't be completed: it was begun elsewhere, too long
// ago, or refused there.
var ErrSignIn = errors.New("the sign-in can't be completed")

// ProviderOptions say where people sign in.
type ProviderOptions struct {
	// Issuer is the URL of an OpenID Connect issuer that the API server trusts.
	Issuer string
	// ClientID is the client that the API server takes for its audience; ClientSecret is
	// empty for a public client.
	ClientID, ClientSecret string
	// Scopes are asked for besides openid.
	Scopes []string
	// RedirectURL is where the issuer sends people back to.
	RedirectURL string
	// HTTPClient reaches the issuer.
	HTTPClient *http.Client
}

// Provider signs people in at an OpenID Connect issuer, with the authorization code flow and PKCE
// (RFC 7636). What it is after is an ID token that the API server accepts.
type Provider struct {
	options  ProviderOptions
	sessions *Sessions

	mu         sync.Mutex
	discovered *oidc.Provider // nil until the issuer was first reached
}

// NewProvider returns a provider, which asks the issuer nothing until somebody signs in.
func NewProvider(options ProviderOptions, sessions *Sessions) *Provider {
	if options.HTTPClient == nil {
		options.HTTPClient = &http.Client{}
	}
	options.HTTPClient.Timeout = providerTimeout
	return &Provider{options: options, sessions: sessions}
}

// signIn is what a sign-in under way remembers in the browser, sealed.
type signIn struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin sends the browser to the issuer.
func (p *Provider) Begin(w http.ResponseWriter, r *http.Request) error {
	flow, _, err := p.flow(r.Context())
	if err != nil {
		return err
	}
	begun := signIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	sealed, err := p.sessions.signIn.Encode(signInCookie, begun)
	if err != nil {
		return fmt.Errorf("sealing a sign-in: %w", err)
	}
	http.SetCookie(w, cookie(signInCookie, sealed, int(signInTime.Seconds())))
	url := flow.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier))
	http.Redirect(w, r, url, http.StatusSeeOther)
	return nil
}

// Complete returns the ID token of a browser that comes back from the issuer. The error is
// ErrSignIn where the request isn't the answer to what Begin asked in the same browser.
func (p *Provider) Complete(w http.ResponseWriter, r *http.Request) (string, error) {
	var begun signIn
	c, err := r.Cookie(signInCookie)
	if err != nil || p.sessions.signIn.Decode(signInCookie, c.Value, &begun) != nil {
		return "", fmt.Errorf("%w: this browser hasn't begun it, or long ago", ErrSignIn)
	}
	expire(w, signInCookie)
	query := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(begun.State)) != 1 {
		return "", fmt.Errorf("%w: it is the answer to another one", ErrSignIn)
	}
	if refused := query.Get("error"); refused != "" {
		return "", fmt.Errorf("%w: the identity provider answers %q", ErrSignIn, refused)
	}
	flow, verifier, err := p.flow(r.Context())
	if err != nil {
		return "", err
	}
	ctx := oidc.ClientContext(r.Context(), p.options.HTTPClient)
	answer, err := flow.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(begun.Verifier))
	if err != nil {
		return "", fmt.Errorf("exchanging the code for a token: %w", err)
	}
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return "", fmt.Errorf("%w: the identity provider gives no ID token", ErrSignIn)
	}
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return "", fmt.Errorf("verifying the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(begun.Nonce)) != 1 {
		return "", fmt.Errorf("%w: the ID token is for another one", ErrSignIn)
	}
	return raw, nil
}

// flow returns how to ask the issuer. Where it couldn't be reached before, it is tried again.
func (p *Provider) flow(ctx context.Context) (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered == nil {
		// The keys are fetched later with this context, so it must not end with the request.
		lasting := oidc.ClientContext(context.WithoutCancel(ctx), p.options.HTTPClient)
		discovered, err := oidc.NewProvider(lasting, p.options.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("asking the issuer %s for its endpoints: %w", p.options.Issuer, err)
		}
		p.discovered = discovered
	}
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: p.options.ClientSecret, RedirectURL: p.options.RedirectURL,
		Endpoint: p.discovered.Endpoint(), Scopes: append([]string{oidc.ScopeOpenID}, p.options.Scopes...),
	}, p.discovered.Verifier(&oidc.Config{ClientID: p.options.ClientID}), nil
}
