package tokenserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/registry"
)

// clientEndpoint is what the endpoints have in common at which a client of a realm
// authenticates: the one order of checks before their own, which none of them can skip.
type clientEndpoint struct {
	Options
	clients *clientAuthenticator
	held    chan struct{} // a place for each refusal that is held back
}

// clientRequest is a request of a client that has authenticated.
type clientRequest struct {
	realm      *registry.Realm
	client     *registry.Client
	parameters oauth.Parameters
	now        time.Time // the one instant that the whole request is judged at
}

// read takes a request through method, realm, size, parameters and credentials.
//
// Errors are *oauth.Error values.
func (e *clientEndpoint) read(realmName string, r *http.Request) (clientRequest, error) {
	if r.Method != http.MethodPost {
		return clientRequest{}, oauth.ErrMethod
	}
	if !e.Registry.Loaded() {
		return clientRequest{}, oauth.ErrNotLoaded
	}
	realm := e.Registry.Realm(realmName)
	if realm == nil {
		return clientRequest{}, oauth.ErrUnknownRealm
	}
	body, err := readForm(r)
	if err != nil {
		return clientRequest{}, err
	}
	parameters, err := oauth.ParseParameters(r.URL.RawQuery, body)
	if err != nil {
		return clientRequest{}, err
	}
	now := e.Now()
	client, err := e.clients.authenticate(r.Context(), realm, r.Header, &parameters, sourceOf(r, e.TrustedProxies), now)
	if err != nil {
		return clientRequest{}, err
	}
	return clientRequest{realm: realm, client: client, parameters: parameters, now: now}, nil
}

// refuse answers a request that failed with err, and returns what it was refused with.
func (e *clientEndpoint) refuse(w http.ResponseWriter, r *http.Request, realmName string, err error) *oauth.Error {
	var refusal *oauth.Error
	if !errors.As(err, &refusal) {
		// What is left is a failed signature or random source: our fault, and worth a look.
		e.Logger.Error("Request could not be answered", "realm", realmName, "error", err)
		refusal = oauth.ErrServer
	}
	// Looked at apart from why the request was refused: the secret is exposed all the same.
	if oauth.ExposesCredentials(r.URL.RawQuery) {
		e.Logger.Warn("Credentials were sent in the query and count as exposed", "realm", realmName, "source", r.RemoteAddr)
	}
	if refusal == oauth.ErrTooManyFailures {
		e.hold(r.Context())
	}
	if refusal.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+realmName+`", charset="UTF-8"`)
	}
	writeRefusal(w, refusal)
	return refusal
}

// What who fails again and again waits for an answer, and how many do so at once: each takes
// the memory of a request.
const (
	holdTime = time.Second
	maxHeld  = 1000
)

// hold holds an answer back, so that who fails as fast as answers come takes no time from
// others. Where too many are held it returns at once.
func (e *clientEndpoint) hold(ctx context.Context) {
	select {
	case e.held <- struct{}{}:
	default:
		return
	}
	defer func() { <-e.held }()
	select {
	case <-ctx.Done():
	case <-time.After(holdTime):
	}
}
