// Package portal implements the web portal for managing API credentials. It uses the
// signed-in user's token, so the API server authorizes every request. It stores no sessions,
// objects or secrets.
package portal

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// FieldOwner is the portal's field manager name, regardless of the user.
const FieldOwner = "realmkeeper-portal"

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
	// Audit receives an event for each change.
	Audit *audit.Log
	// Now returns the current time. Random is the random source for secrets and salts.
	Now    func() time.Time
	Random io.Reader
}

type portal struct {
	Options
	pages pages
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
	p := &portal{Options: o, pages: parsePages()}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/{name}", assetHandler())
	mux.HandleFunc("GET /sign-in", p.showSignIn)
	mux.HandleFunc("POST /sign-in", p.signInByToken)
	mux.HandleFunc("GET /sign-in/begin", p.beginSignIn)
	mux.HandleFunc("GET /sign-in/callback", p.completeSignIn)
	mux.HandleFunc("POST /sign-out", p.signOut)
	mux.Handle("GET /{$}", http.RedirectHandler("/clients", http.StatusSeeOther))
	for pattern, handler := range map[string]func(http.ResponseWriter, *request) error{
		"GET /realms":                                 p.listRealms,
		"GET /realms/{realm}":                         p.showRealm,
		"GET /clients":                                p.listClients,
		"GET /clients/new":                            p.showCreate,
		"POST /clients":                               p.create,
		"GET /clients/{namespace}/{name}":             p.showClient,
		"GET /clients/{namespace}/{name}/state":       p.showState,
		"POST /clients/{namespace}/{name}/suspend":    p.suspend,
		"POST /clients/{namespace}/{name}/resume":     p.resume,
		"POST /clients/{namespace}/{name}/rotate":     p.rotate,
		"POST /clients/{namespace}/{name}/end-secret": p.revokeSecret,
		"POST /clients/{namespace}/{name}/expiry":     p.setExpiry,
		"POST /clients/{namespace}/{name}/delete":     p.delete,
	} {
		mux.Handle(pattern, p.signedIn(handler))
	}
	mux.Handle("/", p.signedIn(func(http.ResponseWriter, *request) error { return errPageNotFound }))
	return guard(mux)
}

// signedIn redirects users without a session to the sign-in page and renders errors as pages.
func (p *portal) signedIn(handle func(http.ResponseWriter, *request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := p.Sessions.Read(r)
		if err != nil {
			p.redirectToSignIn(w, r)
			return
		}
		api, err := p.Cluster.ClientFor(session.Token)
		if err != nil {
			p.redirectToSignIn(w, r)
			return
		}
		req := &request{session: session, api: api, r: r}
		if err := handle(w, req); err != nil {
			p.showError(w, req, err)
		}
	})
}
