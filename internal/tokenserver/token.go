package tokenserver

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/dpop"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// tokenEndpoint serves POST /{realm}/oauth2/token (RFC 6749 §3.2).
type tokenEndpoint struct {
	clientEndpoint
	tokenRates *ratelimit.RateLimiter
	proofs     *proofs
	reuse      *token.Reuse
}

func (e *tokenEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.TokenPath, e)
}

// ServeHTTP responds to a token request and counts the result.
func (e *tokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := e.receive(r.PathValue("realm"), r)
	var response tokenResponse
	if err == nil {
		response, err = e.respond(r, &request)
	}
	if err != nil {
		_ = e.respondError(w, r, &request, audit.ActionToken, err) // respondError counts it
		return
	}
	e.auditGranted(r.Context(), &request, audit.ActionToken, response.issued)
	e.Metrics.issued(&request)
	writeToken(w, response)
}

// respond authenticates the client of a received request, checks the grant type and the DPoP proof, and
// issues the token.
func (e *tokenEndpoint) respond(r *http.Request, request *clientRequest) (tokenResponse, error) {
	// Check this before the credentials, because an assertion can't be used again after an error.
	if request.realm.Signer() == nil {
		return tokenResponse{}, oauth.ErrNoSigningKey
	}
	// Who isn't a client learns nothing about the grant type.
	if err := e.authenticate(r, request); err != nil {
		return tokenResponse{}, err
	}
	authorized, err := e.authorize(r, request)
	if err != nil {
		return tokenResponse{}, err
	}
	proof, err := e.proof(r, request, &authorized)
	if err != nil {
		return tokenResponse{}, err
	}
	return e.issue(request, &authorized, proof)
}

// authenticate authenticates the client by the assertion of the JWT bearer grant (RFC 7523 §2.1), and with every
// other grant type by its credentials. An ID-JAG doesn't authenticate a client.
//
// Errors are *oauth.Error values, or wrap one.
func (e *tokenEndpoint) authenticate(r *http.Request, request *clientRequest) error {
	if request.parameters.GrantType != oauth.GrantTypeJWTBearer {
		return e.clientEndpoint.authenticate(r, request)
	}
	if request.idJAG = parseIDJAG(&request.parameters); request.idJAG != nil {
		return e.clientEndpoint.authenticate(r, request)
	}
	caller, err := e.authenticator.AuthenticateGrant(r.Context(), request.realm, r.Header, &request.parameters, request.source, request.now)
	return request.authenticated(caller, err)
}

// proof returns the request's DPoP proof (RFC 9449 §5), or nil if the token need not be bound and the
// client sent none. Its URL must be one of the realm's configured URLs. The Host header doesn't count.
func (e *tokenEndpoint) proof(r *http.Request, request *clientRequest, authorized *authorization) (*dpop.Proof, error) {
	if !authorized.bound && len(r.Header["Dpop"]) == 0 {
		return nil, nil
	}
	realm := request.realm
	proof, err := e.proofs.check(endpointToken, r.Header, dpop.Want{
		Method: r.Method, URLs: []string{realm.Issuer + oauth.TokenPath, realm.ClusterIssuerURL + oauth.TokenPath},
	}, request.now)
	switch {
	case errors.Is(err, errNoProof) && authorized.jkt == "":
		return nil, oauth.ErrDPoPRequired
	case errors.Is(err, errNoProof), err == nil && authorized.jkt != "" && proof.JKT != authorized.jkt:
		// The ID-JAG is bound to another key (draft-ietf-oauth-identity-assertion-authz-grant, section 7).
		return nil, oauth.ErrInvalidGrant
	case err != nil:
		return nil, oauth.ErrInvalidProof
	}
	return proof, nil
}

// issue checks that the client's tokens aren't revoked up to a time in the future, then the token rate, then that
// the proof wasn't used before. It signs the token, or issues the last one again. If there is a proof, the token is
// bound to its key. No token is larger than the endpoints accept.
func (e *tokenEndpoint) issue(request *clientRequest, authorized *authorization, proof *dpop.Proof) (tokenResponse, error) {
	realm, client := request.realm, request.client
	if request.now.Truncate(time.Second).Before(realm.StatusFrom(client)) {
		// The list would show the token as VALID later, although it is older than tokensValidAfterTime.
		return tokenResponse{}, oauth.ErrRevoked
	}
	if !e.tokenRates.Allow(client.UID, realm.TokensPerSecondOf(client), request.now) {
		return tokenResponse{}, oauth.ErrTooManyTokens
	}
	lifetime := realm.TokenLifetime
	if client.TokenLifetime > 0 {
		lifetime = min(lifetime, client.TokenLifetime)
	}
	if authorized.lifetime > 0 {
		lifetime = min(lifetime, authorized.lifetime)
	}
	tokenType, jkt := oauth.TokenTypeBearer, ""
	if proof != nil {
		if err := e.proofs.use(endpointToken, client, proof, request.now); errors.Is(err, replay.ErrUsed) {
			return tokenResponse{}, oauth.ErrInvalidProof
		} else if err != nil {
			return tokenResponse{}, err
		}
		tokenType, jkt = oauth.TokenTypeDPoP, proof.JKT
	}
	scope := strings.Join(authorized.scopes, " ")
	issued, err := e.reuse.Issue(realm.Signer(), token.Claims{
		Issuer:   realm.Issuer,
		ClientID: client.ID,
		Identity: client.Identity,
		Audience: authorized.audience,
		Scope:    scope,
		IssuedAt: request.now,
		Lifetime: lifetime,
		Extra:    client.Claims,
		JKT:      jkt,

		Delegation: authorized.delegation,
		Status:     realm.StatusClaim(client),
	}, client.LastToken(), request.caller.Credential(), e.Random)
	switch {
	case err != nil:
		return tokenResponse{}, err
	case len(issued.JWT) > oauth.MaxTokenBytes:
		return tokenResponse{}, oauth.ErrTokenTooLarge
	}
	return tokenResponse{issued: issued, tokenType: tokenType, issuedType: authorized.issuedType, lifetime: lifetime, scope: scope}, nil
}
