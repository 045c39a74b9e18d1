package portal

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// signInPage is the data of the sign-in page.
type signInPage struct {
	Provider bool   // whether an identity provider is configured
	Command  string // creates a token
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

// redirectToSignIn redirects to the sign-in page.
func (p *portal) redirectToSignIn(w http.ResponseWriter, r *http.Request) {
	if isPart(r) {
		w.Header().Set("HX-Redirect", "/sign-in") // makes htmx load the whole page
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

func (p *portal) signInByToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.renderSignIn(w, http.StatusBadRequest, "The form data is not valid. Try again.")
		return
	}
	p.signIn(w, r, strings.TrimSpace(r.PostForm.Get("token")))
}

// signIn starts a session if the API server accepts the token.
func (p *portal) signIn(w http.ResponseWriter, r *http.Request, token string) {
	if err := access.CheckToken(token); err != nil {
		p.renderSignIn(w, http.StatusUnprocessableEntity, sentence(err))
		return
	}
	user, err := p.Cluster.Identify(r.Context(), token)
	switch {
	case apierrors.IsUnauthorized(err):
		p.renderSignIn(w, http.StatusUnauthorized, "Kubernetes rejected this token. It may have expired or belong to another cluster.")
		return
	case err != nil:
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusBadGateway, "The Kubernetes API server is unavailable. Try again later.")
		return
	}
	if err := p.Sessions.Write(w, p.Sessions.New(user, token)); err != nil {
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusInternalServerError, "The session could not be created. See the portal log.")
		return
	}
	http.Redirect(w, r, "/clients", http.StatusSeeOther)
}

func (p *portal) beginSignIn(w http.ResponseWriter, r *http.Request) {
	if p.Provider == nil {
		p.redirectToSignIn(w, r)
		return
	}
	if err := p.Provider.Begin(w, r); err != nil {
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusBadGateway, "The identity provider is unavailable. Try again later.")
	}
}

func (p *portal) completeSignIn(w http.ResponseWriter, r *http.Request) {
	if p.Provider == nil {
		p.redirectToSignIn(w, r)
		return
	}
	token, err := p.Provider.Complete(w, r)
	switch {
	case errors.Is(err, access.ErrSignIn):
		p.renderSignIn(w, http.StatusForbidden, sentence(err))
	case err != nil:
		p.Logger.Error("Sign-in failed", "error", err)
		p.renderSignIn(w, http.StatusBadGateway, "The identity provider returned an invalid response. See the portal log.")
	default:
		p.signIn(w, r, token)
	}
}

func (p *portal) signOut(w http.ResponseWriter, r *http.Request) {
	p.Sessions.End(w)
	// Browsers ignore this header without HTTPS.
	w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
