package tokenserver

import (
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/limiter"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// tokenEndpoint serves POST /{realm}/oauth2/token (RFC 6749 §3.2).
type tokenEndpoint struct {
	clientEndpoint
	tokens *limiter.RateLimiter
}

func (e *tokenEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.TokenPath, e)
}

// ServeHTTP responds to a token request and counts the result.
func (e *tokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := e.read(r.PathValue("realm"), r)
	var response tokenResponse
	if err == nil {
		response, err = e.respond(&request)
	}
	if err != nil {
		_ = e.reject(w, r, &request, audit.ActionToken, err) // reject counts it
		return
	}
	e.granted(r.Context(), &request, audit.ActionToken, response.id)
	e.Metrics.issued(&request)
	writeToken(w, response)
}

// respond checks the grant type of an authenticated request and issues the token.
func (e *tokenEndpoint) respond(request *clientRequest) (tokenResponse, error) {
	switch request.parameters.GrantType {
	case oauth.GrantTypeClientCredentials:
	case "":
		return tokenResponse{}, oauth.ErrNoGrantType
	default:
		return tokenResponse{}, oauth.ErrGrantType
	}
	return e.issue(request)
}

// issue checks the requested scopes, the audience and the token rate, in this order, and signs the
// token.
func (e *tokenEndpoint) issue(request *clientRequest) (tokenResponse, error) {
	realm, client, p := request.realm, request.client, &request.parameters
	scopes, err := oauth.NarrowScope(p.Scope, client.Scopes)
	if err != nil {
		return tokenResponse{}, err
	}
	audience, err := oauth.NarrowAudience(p.Audience, p.Resources, client.Audiences)
	if err != nil {
		return tokenResponse{}, err
	}
	if !e.tokens.Allow(client.UID, realm.TokensPerSecondOf(client), request.now) {
		return tokenResponse{}, oauth.ErrTooManyTokens
	}
	lifetime := realm.TokenLifetime
	if client.TokenLifetime > 0 {
		lifetime = min(lifetime, client.TokenLifetime)
	}
	scope := strings.Join(scopes, " ")
	signed, id, err := realm.Signer.Sign(token.Claims{
		Issuer:   realm.Issuer,
		ClientID: client.ID,
		Identity: client.Identity,
		Audience: audience,
		Scope:    scope,
		IssuedAt: request.now,
		Lifetime: lifetime,
	}, e.Random)
	if err != nil {
		return tokenResponse{}, err
	}
	return tokenResponse{token: signed, id: id, lifetime: lifetime, scope: scope}, nil
}
