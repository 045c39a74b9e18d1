package tokenserver

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// clientEndpoint is what the endpoints have in common at which a client of a realm
// authenticates: the one order of checks before their own, which none of them can skip.
type clientEndpoint struct {
	Options
	clients *clientauth.Authenticator
	held    chan struct{} // a place for each refusal that is held back
}

// clientRequest is a request of a client: one that has authenticated, but beside an error.
type clientRequest struct {
	realmName string // as it was given
	source    netip.Addr
	now       time.Time // the one instant that the whole request is judged at
	started   time.Time // by the machine's clock, to tell how long it takes

	realm      *registry.Realm
	parameters oauth.Parameters
	clientauth.Identity
	client  *registry.Client // that has authenticated
	audited bool             // credentials were looked at
}

// read takes a request through method, realm, size, parameters and credentials. Beside an
// error it returns what is known by then.
//
// Errors are *oauth.Error values, or wrap one.
func (e *clientEndpoint) read(realmName string, r *http.Request) (clientRequest, error) {
	request := clientRequest{realmName: realmName, source: sourceOf(r, e.TrustedProxies), now: e.Now(), started: time.Now()}
	if r.Method != http.MethodPost {
		return request, oauth.ErrMethod
	}
	if !e.Registry.Loaded() {
		return request, oauth.ErrNotLoaded
	}
	request.realm = e.Registry.Realm(realmName)
	if request.realm == nil {
		return request, oauth.ErrUnknownRealm
	}
	body, err := readForm(r)
	if err != nil {
		return request, err
	}
	if request.parameters, err = oauth.ParseParameters(r.URL.RawQuery, body); err != nil {
		return request, err
	}
	request.audited = true
	request.Identity, err = e.clients.Authenticate(r.Context(), request.realm, r.Header, &request.parameters, request.source, request.now)
	if err != nil {
		return request, err
	}
	request.client = request.Client
	return request, nil
}

// granted has the audit say that a client got what it asked for: a token of that id, where it is one.
func (e *clientEndpoint) granted(ctx context.Context, request *clientRequest, action audit.Action, tokenID token.ID) {
	e.describe(ctx, request, string(audit.Granted))
	if e.Audit == nil {
		return
	}
	event := request.event(action, audit.Granted)
	if tokenID != (token.ID{}) {
		event.TokenID = tokenID.String()
	}
	e.Audit.Write(event)
}

// refuse answers a request that failed with err, and returns what it was refused with.
func (e *clientEndpoint) refuse(w http.ResponseWriter, r *http.Request, request *clientRequest, action audit.Action, err error) *oauth.Error {
	var answer *oauth.Error
	if !errors.As(err, &answer) {
		// What is left is a failed signature or random source: our fault, and worth a look.
		e.Logger.Error("Request could not be answered", "realm", request.realmName, "error", err)
		answer = oauth.ErrServer
	}
	event := request.event(action, outcomeOf(answer))
	event.Reason = reasonOf(err, answer)
	// Looked at apart from why the request was refused: the secret is exposed all the same.
	if oauth.ExposesCredentials(r.URL.RawQuery) {
		e.Logger.Warn("Credentials were sent in the query and count as exposed", "realm", request.realmName, "source", request.source)
		event.Reason, request.audited = audit.ReasonCredentialsExposed, true
	}
	if request.audited {
		e.Audit.Write(event)
	}
	e.describe(r.Context(), request, string(event.Reason))
	if action == audit.ActionToken {
		e.Metrics.refused(request, answer, event.Reason)
	}
	if errors.Is(answer, oauth.ErrTooManyFailures) {
		e.hold(r.Context())
	}
	if answer.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+request.realmName+`", charset="UTF-8"`)
	}
	writeRefusal(w, answer)
	return answer
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
