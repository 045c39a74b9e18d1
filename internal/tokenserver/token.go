package tokenserver

import (
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/limiter"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// tokenEndpoint answers POST /{realm}/oauth2/token (RFC 6749 §3.2).
type tokenEndpoint struct {
	clientEndpoint
	pace *limiter.Pace
}

func (e *tokenEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.TokenPath, e)
}

// ServeHTTP answers one token request and counts it by its result.
func (e *tokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("realm")
	request, err := e.read(name, r)
	var answer tokenAnswer
	if err == nil {
		answer, err = e.answer(&request)
	}
	if err != nil {
		_ = e.refuse(w, r, &request, audit.ActionToken, err) // it is counted
		return
	}
	e.granted(r.Context(), &request, audit.ActionToken, answer.id)
	e.Metrics.issued(&request)
	writeToken(w, answer)
}

// answer takes a request that has authenticated through what is left of the order of
// checks: grant, scope and audience, token.
func (e *tokenEndpoint) answer(request *clientRequest) (tokenAnswer, error) {
	switch request.parameters.GrantType {
	case oauth.GrantTypeClientCredentials:
	case "":
		return tokenAnswer{}, oauth.ErrNoGrantType
	default:
		return tokenAnswer{}, oauth.ErrGrantType
	}
	return e.issue(request)
}

// issue narrows what is granted to what is asked for, and signs the token if the client may
// get one more.
func (e *tokenEndpoint) issue(request *clientRequest) (tokenAnswer, error) {
	realm, client, p := request.realm, request.client, &request.parameters
	scopes, err := oauth.NarrowScope(p.Scope, client.Scopes)
	if err != nil {
		return tokenAnswer{}, err
	}
	granted := client.Audiences
	if len(granted) == 0 {
		granted = realm.Audiences
	}
	audience, err := oauth.NarrowAudience(p.Audience, p.Resources, granted)
	if err != nil {
		return tokenAnswer{}, err
	}
	if !e.pace.Allow(client.UID, realm.TokensPerSecondOf(client), request.now) {
		return tokenAnswer{}, oauth.ErrTooManyTokens
	}
	lifetime := realm.TokenLifetime
	if client.TokenLifetime > 0 {
		lifetime = min(lifetime, client.TokenLifetime)
	}
	scope := strings.Join(scopes, " ")
	signed, id, err := realm.Signer.Sign(token.Claims{
		Issuer:   realm.Issuer,
		ClientID: client.ID,
		Audience: audience,
		Scope:    scope,
		IssuedAt: request.now,
		Lifetime: lifetime,
	}, e.Random)
	if err != nil {
		return tokenAnswer{}, err
	}
	return tokenAnswer{token: signed, id: id, lifetime: lifetime, scope: scope}, nil
}
