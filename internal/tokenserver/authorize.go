package tokenserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/rules/delegation"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/exchange"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// authorization is what a grant authorizes the client to get.
type authorization struct {
	scopes   []string
	audience []string
	// lifetime is the maximum lifetime of the token in addition to those of the realm and the client; zero if
	// there is none.
	lifetime time.Duration
	// bound means that the token must be bound to a key, and jkt is the thumbprint that the key must have; empty
	// for any key.
	bound bool
	jkt   string
	// delegation is set if the client acts for another subject.
	delegation *token.Delegation
	// issuedType is the "issued_token_type" of the response (RFC 8693 §2.2.1), if the grant has one.
	issuedType string
}

// authorize returns what the request's grant authorizes its authenticated client to get. There is one function for
// each way to be authorized, whose result goes through the same steps.
//
// Errors are *oauth.Error values, or wrap one.
func (e *tokenEndpoint) authorize(r *http.Request, request *clientRequest) (authorization, error) {
	for i, resource := range request.parameters.Resources {
		request.parameters.Resources[i] = oauth.ResourceAmong(request.client.Audiences, resource)
	}
	switch request.parameters.GrantType {
	case oauth.GrantTypeClientCredentials:
		return authorizeClient(request)
	case oauth.GrantTypeJWTBearer:
		if request.idJAG != nil {
			return e.authorizeIDJAG(request)
		}
		return authorizeClient(request)
	case oauth.GrantTypeTokenExchange:
		return e.authorizeExchange(r.Context(), request)
	case "":
		return authorization{}, oauth.ErrNoGrantType
	}
	return authorization{}, oauth.ErrGrantType
}

// authorizeClient authorizes the client to act for itself.
//
// Errors: oauth.ErrInvalidScope; oauth.ErrInvalidTarget.
func authorizeClient(request *clientRequest) (authorization, error) {
	client, p := request.client, &request.parameters
	scopes, err := oauth.NarrowScope(p.Scope, client.Scopes)
	if err != nil {
		return authorization{}, err
	}
	audience, err := oauth.NarrowAudience(p.Audiences, p.Resources, client.Audiences)
	if err != nil {
		return authorization{}, err
	}
	return authorization{scopes: scopes, audience: audience, bound: client.DPoP}, nil
}

// authorizeExchange authorizes the client to act for the subject of a token (RFC 8693).
//
// Errors: those of checkExchange; oauth.ErrInvalidSubject or oauth.ErrOwnToken, with the reason;
// oauth.ErrInvalidTarget; oauth.ErrInvalidScope; oauth.ErrTooManyFailures; oauth.ErrNoClusterKeys.
func (e *tokenEndpoint) authorizeExchange(ctx context.Context, request *clientRequest) (authorization, error) {
	audience, err := checkExchange(&request.parameters)
	if err != nil {
		return authorization{}, err
	}
	subject, err := e.subject(ctx, request)
	if err == nil {
		var a authorization
		if a, err = authorizeSubject(request, subject, audience, oauth.ErrInvalidSubject); err == nil {
			a.issuedType = oauth.TypeAccessToken
			return a, nil
		}
	}
	return authorization{}, e.rejectSubject(request, err)
}

// checkExchange checks the parameters of a token exchange and returns the audience of the new token.
//
// Errors: oauth.ErrNoSubjectToken; oauth.ErrActorToken; oauth.ErrRequestedTokenType; oauth.ErrSubjectTokenType;
// oauth.ErrNotOneTarget; oauth.ErrInvalidTarget.
func checkExchange(p *oauth.Parameters) (audience string, err error) {
	switch {
	case p.SubjectToken == "", p.SubjectTokenType == "":
		return "", oauth.ErrNoSubjectToken
	case p.ActorToken != "", p.ActorTokenType != "":
		return "", oauth.ErrActorToken
	case p.RequestedTokenType != "" && p.RequestedTokenType != oauth.TypeAccessToken:
		return "", oauth.ErrRequestedTokenType
	}
	switch p.SubjectTokenType {
	case oauth.TypeAccessToken, oauth.TypeJWT, oauth.TypeIDToken:
	default:
		return "", oauth.ErrSubjectTokenType
	}
	if audience, err = oauth.SingleAudience(p.Audiences, p.Resources); err == nil && audience == "" {
		err = oauth.ErrNotOneTarget
	}
	return audience, err
}

// subject verifies the subject token: an access token of the realm, or a token of a trusted issuer.
//
// Errors: oauth.ErrInvalidSubject with the reason; oauth.ErrNoClusterKeys.
func (e *tokenEndpoint) subject(ctx context.Context, request *clientRequest) (*exchange.Subject, error) {
	realm, p := request.realm, &request.parameters
	if p.SubjectTokenType == oauth.TypeAccessToken {
		if verified, client, err := realm.Verify(e.memory, p.SubjectToken, request.now); err == nil {
			subject, err := exchange.OfRealm(realm, &verified, client, request.now)
			if err != nil {
				return nil, clientauth.WrongSubject(err) // it was revoked since
			}
			return subject, nil
		}
	}
	issuer, assertion, err := e.authenticator.VerifySubject(ctx, realm, p.SubjectToken, p.SubjectTokenType, request.now)
	if err != nil {
		return nil, err
	}
	subject, err := exchange.OfIssuer(realm, issuer, assertion)
	if err != nil {
		return nil, clientauth.WrongSubject(err)
	}
	return subject, nil
}

// authorizeIDJAG authorizes the client to act for the subject of an ID-JAG
// (draft-ietf-oauth-identity-assertion-authz-grant, section 4.4).
//
// Errors: oauth.ErrInvalidGrant with the reason; oauth.ErrInvalidTarget; oauth.ErrInvalidScope;
// oauth.ErrTooManyFailures.
func (e *tokenEndpoint) authorizeIDJAG(request *clientRequest) (authorization, error) {
	subject, audience, err := e.idJAGSubject(request)
	if err == nil {
		var a authorization
		if a, err = authorizeSubject(request, subject, audience, oauth.ErrInvalidGrant); err == nil {
			a.jkt = subject.JKT
			return a, nil
		}
	}
	return authorization{}, e.rejectSubject(request, err)
}

// idJAGSubject verifies the request's ID-JAG and returns its subject, and its resource, which is the audience of
// the new token. The request can name the resource too.
//
// Errors: oauth.ErrInvalidGrant with the reason; oauth.ErrInvalidTarget.
func (e *tokenEndpoint) idJAGSubject(request *clientRequest) (*exchange.Subject, string, error) {
	realm, p := request.realm, &request.parameters
	issuer, err := e.authenticator.VerifyIDJAG(realm, request.idJAG)
	if err != nil {
		return nil, "", err
	}
	claims, resource, err := request.idJAG.CheckIDJAG(request.client.ID, realm.Issuer, issuer.RequiredClaims, request.now)
	if err != nil {
		return nil, "", clientauth.WrongGrant(err)
	}
	resource = oauth.ResourceAmong(request.client.Audiences, resource)
	if requested, err := oauth.SingleAudience(p.Audiences, p.Resources); err != nil || requested != "" && requested != resource {
		return nil, "", oauth.ErrInvalidTarget.Refusing(requested)
	}
	subject, err := exchange.OfIDJAG(realm, issuer, request.idJAG, &claims)
	if err != nil {
		return nil, "", clientauth.WrongGrant(err)
	}
	return subject, resource, nil
}

// authorizeSubject applies the realm's rules. It records the subject for the audit log, even if no rule allows the
// request.
//
// Errors: invalid or oauth.ErrOwnToken, with the reason; oauth.ErrInvalidTarget; oauth.ErrInvalidScope.
func authorizeSubject(request *clientRequest, subject *exchange.Subject, audience string, invalid *oauth.Error) (authorization, error) {
	request.subject = subject
	result, err := exchange.Decide(request.realm, request.client, subject, exchange.Request{Audience: audience, Scope: request.parameters.Scope}, request.now)
	switch {
	case errors.Is(err, delegation.ErrOwnToken):
		return authorization{}, clientauth.NotAllowed(oauth.ErrOwnToken, err)
	case errors.Is(err, delegation.ErrNotAllowed):
		return authorization{}, clientauth.NotAllowed(invalid, err)
	case err != nil:
		return authorization{}, err
	}
	request.rule = result.Rule
	return authorization{
		scopes: result.Scopes, audience: []string{audience}, lifetime: result.Lifetime, bound: result.Bound, delegation: result.Delegation,
	}, nil
}

// rejectSubject logs why a subject token or an ID-JAG was rejected, and limits failures.
//
// The error is err or oauth.ErrTooManyFailures.
func (e *tokenEndpoint) rejectSubject(request *clientRequest, err error) error {
	e.Logger.Debug("Rejected token exchange", "realm", request.realmName, "client", request.client.ID, "reason", err)
	return e.authenticator.LimitFailures(request.realm, request.client, request.source, err, request.now)
}

// parseIDJAG returns the assertion of the JWT bearer grant if it is an ID-JAG, and otherwise nil. Only the type in
// its header decides, so that no token can be used as both.
func parseIDJAG(p *oauth.Parameters) *clientassertion.Assertion {
	assertion, err := clientassertion.ParseIDJAG(p.Assertion)
	if err != nil {
		return nil
	}
	return assertion
}
