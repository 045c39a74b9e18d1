package portal

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

// signInPage is the data of the sign-in page.
type signInPage struct {
	Provider bool   // whether an identity provider is configured
	Command  string // creates a token
	Problem  string
}

const (
	signInPath = "/sign-in"
	// idleSignInPath is the sign-in page for users whose session was idle for too long.
	idleSignInPath = signInPath + "?" + idleParameter
	idleParameter  = "idle"
)

func (p *portal) showSignIn(w http.ResponseWriter, r *http.Request) {
	problem := ""
	if r.URL.Query().Has(idleParameter) {
		problem = "You were signed out because you were inactive. Sign in again to continue."
	}
	p.renderSignIn(w, http.StatusOK, problem)
}

func (p *portal) renderSignIn(w http.ResponseWriter, status int, problem string) {
	namespace, name, _ := strings.Cut(cmp.Or(p.InitialAdmin, "NAMESPACE/NAME"), "/")
	p.render(w, nil, status, "signin.html", "Sign in", signInPage{
		Provider: p.Provider != nil,
		Command:  "kubectl create token " + name + " --namespace " + namespace,
		Problem:  problem,
	})
}

// redirect redirects to another page.
func redirect(w http.ResponseWriter, r *http.Request, path string) {
	if isPart(r) {
		w.Header().Set("HX-Redirect", path) // makes htmx load the whole page
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
}

func (p *portal) signInByToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.renderSignIn(w, http.StatusBadRequest, "The form data is not valid. Try again.")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	p.signIn(w, r, func(context.Context) (string, error) { return token, nil })
}

func (p *portal) beginSignIn(w http.ResponseWriter, r *http.Request) {
	if p.Provider == nil {
		redirect(w, r, signInPath)
		return
	}
	var location string
	err := p.attempt(r, func(ctx context.Context) (err error) {
		location, err = p.Provider.Begin(ctx, w)
		return err
	})
	if err != nil {
		p.endSignIn(w, r, access.User{}, err)
		return
	}
	http.Redirect(w, r, location, http.StatusSeeOther)
}

func (p *portal) completeSignIn(w http.ResponseWriter, r *http.Request) {
	if p.Provider == nil {
		redirect(w, r, signInPath)
		return
	}
	p.signIn(w, r, func(ctx context.Context) (string, error) { return p.Provider.Complete(ctx, w, r) })
}

// signIn starts a session if the API server accepts the token that get returns.
func (p *portal) signIn(w http.ResponseWriter, r *http.Request, get func(context.Context) (string, error)) {
	var user access.User
	err := p.attempt(r, func(ctx context.Context) error {
		token, err := get(ctx)
		if err == nil {
			err = access.CheckToken(token)
		}
		if err != nil {
			return err
		}
		if user, err = p.Cluster.Identify(ctx, token); err != nil {
			return fmt.Errorf("%w: %w", errIdentify, err)
		}
		if err := p.Sessions.Write(w, p.Sessions.New(user, token)); err != nil {
			return err
		}
		return p.Sessions.RememberBrowser(w, r)
	})
	p.endSignIn(w, r, user, err)
}

func (p *portal) signOut(w http.ResponseWriter, r *http.Request) {
	if session, err := p.Sessions.Read(r); err == nil {
		p.auditSignOut(r, session.User)
	}
	p.Sessions.End(w)
	// Browsers ignore this header without HTTPS.
	w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	http.Redirect(w, r, signInPath, http.StatusSeeOther)
}
