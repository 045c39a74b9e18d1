// Package portal implements the web portal for managing API credentials. It uses the
// signed-in user's token, so the API server authorizes every request. It stores no sessions,
// objects or secrets.
package portal

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/gitops"
	"github.com/realmkeeper/realmkeeper/internal/limiter"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// FieldOwner is the portal's field manager name, regardless of the user.
const FieldOwner = gitops.FieldOwnerPortal

// DefaultTimeout is shorter than the write timeout, so that users get a response.
const DefaultTimeout = 20 * time.Second

// DefaultStaleAfter is the default of usage.staleAfter in the instance configuration.
const DefaultStaleAfter = 90 * day

// Options configures the portal.
type Options struct {
	Cluster  *access.Cluster
	Sessions *access.Sessions
	// Provider is the identity provider. If it is nil, users sign in with a Kubernetes token only.
	Provider *access.Provider
	// InitialAdmin is the service account, as namespace/name, in the command on the sign-in page.
	// If it is empty, the command contains placeholders.
	InitialAdmin string
	// TrustedProxies are the proxies whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	Logger         *slog.Logger
	// Audit receives an event for each sign-in and each change.
	Audit *audit.Log
	// Metrics registers the portal's metrics.
	Metrics prometheus.Registerer
	// Timeout limits how long a request waits for the API server and the issuer. The default is
	// DefaultTimeout.
	Timeout time.Duration
	// StaleAfter is how long a credential must have been unused to need attention. The default is
	// DefaultStaleAfter.
	StaleAfter time.Duration
	// Now returns the current time. Random is the random source for secrets and salts.
	Now    func() time.Time
	Random io.Reader
}

type portal struct {
	Options

	pages    pages
	failures *limiter.Failures
	metrics  metrics
	late     chan struct{} // contains a value while a late page of a sorted list is read
}

// request is a signed-in user's request.
type request struct {
	session access.Session
	api     *access.Client // acts as the user
	r       *http.Request
}

func (req *request) ctx() context.Context { return req.r.Context() }

// New returns the portal's HTTP handler.
func New(o Options) http.Handler {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.StaleAfter = cmp.Or(o.StaleAfter, DefaultStaleAfter)
	p := &portal{Options: o, pages: parsePages(o.Now), failures: limiter.NewFailures(), metrics: newMetrics(o.Metrics), late: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/{name}", assetHandler())
	mux.HandleFunc("GET /sign-in", p.showSignIn)
	mux.HandleFunc("POST /sign-in", p.signInByToken)
	mux.HandleFunc("GET /sign-in/begin", p.beginSignIn)
	mux.HandleFunc("GET /sign-in/callback", p.completeSignIn)
	mux.HandleFunc("POST /sign-out", p.signOut)
	for pattern, handle := range map[string]handler{
		"GET /{$}":                                    p.showOverview,
		"GET /choices/{kind}":                         p.listChoices,
		"GET /realms":                                 p.listRealms,
		"GET /realms/{realm}":                         p.showRealm,
		"GET /clients":                                p.listClients,
		"GET /clients/new":                            p.showCreate,
		"POST /clients":                               p.create,
		"POST /clients/check":                         p.check,
		"GET /clients/{namespace}/{name}":             p.showClient,
		"POST /clients/{namespace}/{name}/suspend":    p.suspend,
		"POST /clients/{namespace}/{name}/resume":     p.resume,
		"POST /clients/{namespace}/{name}/rotate":     p.rotate,
		"POST /clients/{namespace}/{name}/end-secret": p.revokeSecret,
		"POST /clients/{namespace}/{name}/expiry":     p.setExpiry,
		"POST /clients/{namespace}/{name}/delete":     p.delete,
	} {
		mux.Handle(pattern, p.signedIn(p.used(handle)))
	}
	mux.Handle("GET /clients/{namespace}/{name}/state", p.signedIn(p.showState)) // polled
	mux.Handle("/", p.signedIn(func(http.ResponseWriter, *request) error { return errPageNotFound }))
	return guard(mux)
}

// handler handles a signed-in user's request. Its errors are rendered as pages.
type handler func(http.ResponseWriter, *request) error

// signedIn redirects users without a session to the sign-in page.
func (p *portal) signedIn(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := p.Sessions.Read(r)
		switch {
		case errors.Is(err, access.ErrIdle):
			p.Sessions.End(w)
			redirect(w, r, idleSignInPath)
			return
		case err != nil:
			redirect(w, r, signInPath)
			return
		}
		api, err := p.Cluster.ClientFor(session.Token)
		if err != nil {
			redirect(w, r, signInPath)
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), p.Timeout)
		defer stop()
		req := &request{session: session, api: api, r: r.WithContext(ctx)}
		if err := handle(w, req); err != nil {
			p.showError(w, req, err)
		}
	})
}

// used records that the user used the session. It must not wrap requests that pages send by
// themselves, because sessions without a user must end.
func (p *portal) used(handle handler) handler {
	return func(w http.ResponseWriter, req *request) error {
		if err := p.Sessions.Renew(w, req.session); err != nil {
			return err
		}
		return handle(w, req)
	}
}
