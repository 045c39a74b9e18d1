package tokenserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/registry"
	"github.com/realmkeeper/realmkeeper/internal/token"
)

// tokenEndpoint answers POST /{realm}/oauth2/token (RFC 6749 §3.2).
type tokenEndpoint struct {
	Options
	slow *slowSecrets
}

func (e *tokenEndpoint) mount(mux *http.ServeMux) {
	mux.Handle("/{realm}"+oauth.TokenPath, e)
}

// ServeHTTP answers one token request and counts it by its result.
func (e *tokenEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("realm")
	answer, err := e.answer(name, r)
	if err == nil {
		e.Metrics.issued.Inc()
		writeToken(w, answer)
		return
	}
	var refusal *oauth.Error
	if !errors.As(err, &refusal) {
		// What is left is a failed signature or random source: our fault, and worth a look.
		e.Logger.Error("Token could not be issued", "realm", name, "error", err)
		refusal = oauth.ErrServer
	}
	// Looked at apart from why the request was refused: the secret is exposed all the same.
	if oauth.ExposesCredentials(r.URL.RawQuery) {
		e.Logger.Warn("Credentials were sent in the query and count as exposed", "realm", name, "source", r.RemoteAddr)
	}
	e.Metrics.refused(refusal)
	writeRefusal(w, refusal, name)
}

// answer takes a request through the one order of checks that every grant follows:
// method, realm, size, parameters, credentials, grant, scope and audience, token.
func (e *tokenEndpoint) answer(realmName string, r *http.Request) (tokenAnswer, error) {
	if r.Method != http.MethodPost {
		return tokenAnswer{}, oauth.ErrMethod
	}
	if !e.Registry.Loaded() {
		return tokenAnswer{}, oauth.ErrNotLoaded
	}
	realm := e.Registry.Realm(realmName)
	if realm == nil {
		return tokenAnswer{}, oauth.ErrUnknownRealm
	}
	body, err := readForm(r)
	if err != nil {
		return tokenAnswer{}, err
	}
	parameters, err := oauth.ParseParameters(r.URL.RawQuery, body)
	if err != nil {
		return tokenAnswer{}, err
	}
	credentials, err := findCredentials(r.Header, &parameters)
	if err != nil {
		return tokenAnswer{}, err
	}
	now := e.Now()
	client, err := e.authenticate(r.Context(), realm, credentials, now)
	if err != nil {
		return tokenAnswer{}, err
	}
	switch parameters.GrantType {
	case oauth.GrantTypeClientCredentials:
	case "":
		return tokenAnswer{}, oauth.ErrNoGrantType
	default:
		return tokenAnswer{}, oauth.ErrGrantType
	}
	return e.issue(realm, client, &parameters, now)
}

// findCredentials returns what the client authenticates with, from the one place
// where it stands: the Authorization header or the body (RFC 6749 §2.3).
func findCredentials(header http.Header, p *oauth.Parameters) (oauth.Credentials, error) {
	authorization := header["Authorization"]
	if len(authorization) > 1 {
		return oauth.Credentials{}, oauth.ErrTwoMethods
	}
	if len(authorization) == 1 && oauth.IsBasic(authorization[0]) {
		if p.ClientSecret != "" || p.ClientAssertion != "" {
			return oauth.Credentials{}, oauth.ErrTwoMethods
		}
		credentials, ok := oauth.ParseBasic(authorization[0])
		if !ok {
			return oauth.Credentials{}, oauth.ErrInvalidClient
		}
		if p.ClientID != "" && p.ClientID != credentials.ClientID {
			return oauth.Credentials{}, oauth.ErrClientIDMismatch
		}
		return credentials, nil
	}
	if p.ClientSecret != "" && p.ClientAssertion != "" {
		return oauth.Credentials{}, oauth.ErrTwoMethods
	}
	if len(authorization) == 1 || !oauth.ValidCredential(p.ClientID) || !oauth.ValidCredential(p.ClientSecret) {
		return oauth.Credentials{}, oauth.ErrInvalidClient
	}
	return oauth.Credentials{ClientID: p.ClientID, ClientSecret: p.ClientSecret}, nil
}

// authenticate returns the client whose secret is given and which may get a token
// now. A client that doesn't exist costs the same as one with a wrong secret, since
// another stands in for it, and the switches are looked at last, so that the time taken tells
// nothing about either.
//
// Where one client of the realm has a slow secret, all that fails is slow: otherwise the time
// would tell which ids are such clients'. What succeeds by a fast secret never waits.
//
// Errors: oauth.ErrInvalidClient; oauth.ErrBusy.
func (e *tokenEndpoint) authenticate(ctx context.Context, realm *registry.Realm, credentials oauth.Credentials, now time.Time) (*registry.Client, error) {
	client, found := realm.ClientOrStandIn(credentials.ClientID)
	var secrets []clientsecret.Credential
	if client != nil {
		secrets = client.Secrets
	}
	verified := clientsecret.VerifyFast(secrets, credentials.ClientSecret, now)
	if !found {
		client, verified = nil, false
	}
	if !verified && realm.HasSlowSecrets() {
		var err error
		if verified, err = e.slow.verify(ctx, client, credentials.ClientSecret, now); err != nil {
			return nil, err
		}
	}
	if !verified || realm.Disabled || !client.Usable(now) {
		return nil, oauth.ErrInvalidClient
	}
	return client, nil
}

// issue narrows what is granted to what is asked for, and signs the token.
func (e *tokenEndpoint) issue(realm *registry.Realm, client *registry.Client, p *oauth.Parameters, now time.Time) (tokenAnswer, error) {
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
	lifetime := realm.TokenLifetime
	if client.TokenLifetime > 0 {
		lifetime = min(lifetime, client.TokenLifetime)
	}
	scope := strings.Join(scopes, " ")
	signed, err := realm.Signer.Sign(token.Claims{
		Issuer:   realm.Issuer,
		ClientID: client.ID,
		Audience: audience,
		Scope:    scope,
		IssuedAt: now,
		Lifetime: lifetime,
	}, e.Random)
	if err != nil {
		return tokenAnswer{}, err
	}
	return tokenAnswer{token: signed, lifetime: lifetime, scope: scope}, nil
}
