// Package portal is the web portal in which people manage API credentials. It acts with the
// signed-in person's own token, so that the API server decides what they see and do, and it
// keeps nothing: no session, no object, no secret.
package portal

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// FieldOwner is the field manager under which the portal writes, whoever the person is.
const FieldOwner = "realmkeeper-portal"

// Options are what a portal stands on.
type Options struct {
	Cluster  *access.Cluster
	Sessions *access.Sessions
	// Provider signs people in at an identity provider; nil: by a token of Kubernetes alone.
	Provider *access.Provider
	// InitialAdmin is the service account, as namespace/name, for which the sign-in page says how to
	// get a token; empty: it names none.
	InitialAdmin string
	Logger       *slog.Logger
	// Audit takes a line for each change.
	Audit *audit.Log
	// Now is the clock; Random gives secrets and salts.
	Now    func() time.Time
	Random io.Reader
}

type portal struct {
	Options
	pages pages
}

// visit is a request of a signed-in person.
type visit struct {
	session access.Session
	as      *access.Client
	r       *http.Request
}

func (v *visit) ctx() context.Context { return v.r.Context() }

// New returns the handler of the portal.
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
	for pattern, handler := range map[string]func(http.ResponseWriter, *visit) error{
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
		"POST /clients/{namespace}/{name}/end-secret": p.endSecret,
		"POST /clients/{namespace}/{name}/expiry":     p.setExpiry,
		"POST /clients/{namespace}/{name}/delete":     p.delete,
	} {
		mux.Handle(pattern, p.signedIn(handler))
	}
	mux.Handle("/", p.signedIn(func(http.ResponseWriter, *visit) error { return errNoSuchPage }))
	return guard(mux)
}

// signedIn lets only people with a session through, and turns errors into pages.
func (p *portal) signedIn(handle func(http.ResponseWriter, *visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := p.Sessions.Read(r)
		if err != nil {
			p.toSignIn(w, r)
			return
		}
		as, err := p.Cluster.As(session.Token)
		if err != nil {
			p.toSignIn(w, r)
			return
		}
		v := &visit{session: session, as: as, r: r}
		if err := handle(w, v); err != nil {
			p.refuse(w, v, err)
		}
	})
}
