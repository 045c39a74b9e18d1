package portal

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
)

// New returns the portal's HTTP handler.
func New(o Options) http.Handler {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.StaleAfter = cmp.Or(o.StaleAfter, DefaultStaleAfter)
	p := &portal{Options: o, pages: parsePages(o.Now), failures: ratelimit.NewFailures(), metrics: newMetrics(o.Metrics), late: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/{name}", assetHandler())
	mux.HandleFunc("GET /sign-in", p.showSignIn)
	mux.HandleFunc("POST /sign-in", p.signInByToken)
	mux.HandleFunc("GET /sign-in/begin", p.beginSignIn)
	mux.HandleFunc("GET /sign-in/callback", p.completeSignIn)
	mux.HandleFunc("POST /sign-out", p.signOut)
	for pattern, handle := range map[string]handler{
		"GET /{$}":                                       p.showOverview,
		"GET /choices/{kind}":                            p.listChoices,
		"GET /realms":                                    p.listRealms,
		"GET /realms/{realm}":                            p.showRealm,
		"GET /clients":                                   p.listClients,
		"GET /clients/new":                               p.showCreate,
		"POST /clients":                                  p.create,
		"POST /clients/check":                            p.check,
		"GET /clients/{namespace}/{name}":                p.showClient,
		"POST /clients/{namespace}/{name}/suspend":       p.suspend,
		"POST /clients/{namespace}/{name}/resume":        p.resume,
		"POST /clients/{namespace}/{name}/rotate":        p.rotate,
		"POST /clients/{namespace}/{name}/revoke-secret": p.revokeSecret,
		"POST /clients/{namespace}/{name}/expiry":        p.setExpiry,
		"POST /clients/{namespace}/{name}/delete":        p.delete,
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
