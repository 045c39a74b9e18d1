package tokenserver

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/serve/source"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/exchange"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// clientEndpoint is the part shared by all endpoints with client authentication. Its methods are the
// steps of a request. Each endpoint calls them in this order: receive, authenticate, and auditGranted, auditRefused,
// or respondError.
type clientEndpoint struct {
	Options
	authenticator *clientauth.Authenticator
	delayed       chan struct{} // limits concurrent delays, because each is a request in progress
	// exposureWarnings limits the log lines about credentials in the query, because anyone can cause them.
	exposureWarnings *ratelimit.RateLimiter
}

// clientRequest is a request from a client. The client is authenticated unless there was an error.
type clientRequest struct {
	realmName string // from the path
	source    netip.Addr
	now       time.Time // used for all checks of the request
	started   time.Time // from the system clock, for measuring the duration

	realm      *registry.Realm
	parameters oauth.Parameters
	caller     clientauth.Caller
	client     *registry.Client // nil unless authenticated
	mustAudit  bool             // credentials were checked
	// idJAG is the assertion of the JWT bearer grant if it is an ID-JAG.
	idJAG *clientassertion.Assertion
	// subject is for whom the client asks to act, if the token that says so is valid, and rule is the name of the
	// rule that allows it.
	subject *exchange.Subject
	rule    string
}

// exchanges reports whether an authenticated client asks for a token that acts for another subject.
func (r *clientRequest) exchanges() bool {
	return r.client != nil && (r.idJAG != nil || r.parameters.GrantType == oauth.GrantTypeTokenExchange)
}

// receive checks the method, realm, size and parameters of a request, in this order. On error, it returns
// what it has read so far.
//
// Errors are *oauth.Error values.
func (e *clientEndpoint) receive(realmName string, r *http.Request) (clientRequest, error) {
	request := clientRequest{realmName: realmName, source: source.Of(r, e.TrustedProxies), now: e.Now(), started: time.Now()}
	if r.Method != http.MethodPost {
		return request, oauth.ErrMethod
	}
	realm, rejection := realmOf(e.Registry, realmName)
	if rejection != nil {
		return request, rejection
	}
	request.realm = realm
	body, err := readForm(r)
	if err != nil {
		return request, err
	}
	request.parameters, err = oauth.ParseParameters(r.URL.RawQuery, body)
	return request, err
}

// authenticate authenticates the client of a received request.
//
// Errors are *oauth.Error values, or wrap one.
func (e *clientEndpoint) authenticate(r *http.Request, request *clientRequest) error {
	caller, err := e.authenticator.Authenticate(r.Context(), request.realm, r.Header, &request.parameters, request.source, request.now)
	return request.authenticated(caller, err)
}

// authenticated stores the result of the authentication, and returns err. The request is audited from here on.
func (r *clientRequest) authenticated(caller clientauth.Caller, err error) error {
	r.mustAudit, r.caller = true, caller
	if err == nil {
		r.client = caller.Client
	}
	return err
}

// auditGranted audits a successful request. issued is zero if the request issued no token.
func (e *clientEndpoint) auditGranted(ctx context.Context, request *clientRequest, action audit.Action, issued token.Issued) {
	e.describe(ctx, request, string(audit.Granted))
	if e.Audit == nil {
		return
	}
	event := request.event(action, audit.Granted)
	if issued.JWT != "" {
		event.TokenID, event.Reused = issued.ID.String(), issued.Reused
	}
	e.Audit.Write(event)
}

// auditRefused audits a request of an authenticated client that gets a successful response, but not what
// it asked for. The token ID is that of the token in the request.
func (e *clientEndpoint) auditRefused(ctx context.Context, request *clientRequest, action audit.Action, reason audit.Reason, tokenID string) {
	e.describe(ctx, request, string(reason))
	event := request.event(action, audit.Refused)
	event.Reason, event.TokenID = reason, tokenID
	e.Audit.Write(event)
}

// respondError responds to a request that failed with err, and returns the OAuth error that it sent.
func (e *clientEndpoint) respondError(w http.ResponseWriter, r *http.Request, request *clientRequest, action audit.Action, err error) *oauth.Error {
	var response *oauth.Error
	if !errors.As(err, &response) {
		// Only a failure to sign or to read random bytes gets here. Both are server errors.
		e.Logger.Error("Failed to process request", "realm", request.realmName, "error", err)
		response = oauth.ErrServer
	}
	event := request.event(action, outcomeOf(response))
	event.Reason = reasonOf(err, response)
	// The secret is exposed regardless of why the request failed.
	if oauth.ExposesCredentials(r.URL.RawQuery) {
		if e.exposureWarnings.Allow("", 1, request.now) {
			e.Logger.Warn("Received credentials in the query string; treat them as compromised", "realm", request.realmName, "source", request.source)
		}
		event.Reason, request.mustAudit = audit.ReasonCredentialsExposed, true
	}
	if request.mustAudit {
		e.Audit.Write(event)
	}
	e.describe(r.Context(), request, string(event.Reason))
	if action == audit.ActionToken {
		e.Metrics.rejected(request, response, event.Reason)
	}
	if errors.Is(response, oauth.ErrTooManyFailures) {
		e.delay(r.Context())
	}
	if response.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+request.realmName+`", charset="UTF-8"`)
	}
	writeError(w, response)
	return response
}

// failureDelay is the delay before a 429 for repeated failures.
const failureDelay = time.Second

// delay waits for failureDelay, so that a client that fails in a loop does not slow down other
// clients. It returns immediately if a quarter of the requests that may be in progress wait already.
func (e *clientEndpoint) delay(ctx context.Context) {
	select {
	case e.delayed <- struct{}{}:
	default:
		return
	}
	defer func() { <-e.delayed }()
	select {
	case <-ctx.Done():
	case <-time.After(failureDelay):
	}
}
