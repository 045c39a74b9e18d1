package portal

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// signInPage offers the ways to sign in.
type signInPage struct {
	Provider bool   // there is an identity provider
	Command  string // gives a token
	Problem  string
}

func (p *portal) showSignIn(w http.ResponseWriter, _ *http.Request) {
	p.renderSignIn(w, http.StatusOK, "")
}

func (p *portal) renderSignIn(w http.ResponseWriter, status int, problem string) {
	namespace, name, _ := strings.Cut(cmp.Or(p.InitialAdmin, "NAMESPACE/NAME"), "/")
	p.render(w, nil, status, "signin.html", "Sign in", signInPage{
		Provider: p.Provider != nil,
		Command:  "kubectl create token " + name + " --namespace " + namespace,
		Problem:  problem,
	})
}

// toSignIn sends a person who isn't signed in, or no longer, to the page where they can.
func (p *portal) toSignIn(w http.ResponseWriter, r *http.Request) {
	if isPart(r) {
		w.Header().Set("HX-Redirect", "/sign-in") // the whole page, and not the part
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

func (p *portal) signInByToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.renderSignIn(w, http.StatusBadRequest, "That is no form of this page.")
		return
	}
	p.signIn(w, r, strings.TrimSpace(r.PostForm.Get("token")))
}

// signIn begins a session with a token that the API server accepts.
func (p *portal) signIn(w http.ResponseWriter, r *http.Request, token string) {
	if err := access.CheckToken(token); err != nil {
		p.renderSignIn(w, http.StatusUnprocessableEntity, sentence(err))
		return
	}
	person, err := p.Cluster.Who(r.Context(), token)
	switch {
	case apierrors.IsUnauthorized(err):
		p.renderSignIn(w, http.StatusUnauthorized, "Kubernetes doesn't accept this token: it has ended, or is for another cluster.")
		return
	case err != nil:
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusBadGateway, "The API server of Kubernetes can't be reached. Please try again.")
		return
	}
	if err := p.Sessions.Write(w, p.Sessions.New(person, token)); err != nil {
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusInternalServerError, "The session can't be sealed.")
		return
	}
	http.Redirect(w, r, "/clients", http.StatusSeeOther)
}

func (p *portal) beginSignIn(w http.ResponseWriter, r *http.Request) {
	if p.Provider == nil {
		p.toSignIn(w, r)
		return
	}
	if err := p.Provider.Begin(w, r); err != nil {
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusBadGateway, "The identity provider can't be reached. Please try again.")
	}
}

func (p *portal) completeSignIn(w http.ResponseWriter, r *http.Request) {
	if p.Provider == nil {
		p.toSignIn(w, r)
		return
	}
	token, err := p.Provider.Complete(w, r)
	switch {
	case errors.Is(err, access.ErrSignIn):
		p.renderSignIn(w, http.StatusForbidden, sentence(err))
	case err != nil:
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusBadGateway, "The identity provider's answer can't be used. The portal's log says why.")
	default:
		p.signIn(w, r, token)
	}
}

func (p *portal) signOut(w http.ResponseWriter, r *http.Request) {
	p.Sessions.End(w)
	// Without HTTPS browsers pass over it.
	w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
