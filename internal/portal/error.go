package portal

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	errNoSuchPage = errors.New("there is no such page")
	// errChanged says that a client isn't any more as the person saw it.
	errChanged = errors.New("somebody has changed this client in the meantime")
	// errManaged says that another tool would undo a change.
	errManaged = errors.New("another tool manages this")
	// errInput says that what a person typed can't be.
	errInput = errors.New("this can't be")
)

// refusal is the page that says why something wasn't done.
type refusal struct {
	Status  int
	Title   string
	Message string
	// Grant is the command that gives the person the role; empty where that isn't what is missing.
	Grant string
	// Back leads to where the person can go on.
	Back string
}

// refuse shows why something wasn't done.
func (p *portal) refuse(w http.ResponseWriter, v *visit, err error) {
	if apierrors.IsUnauthorized(err) {
		// The token has ended, or was withdrawn: so does the session.
		p.Sessions.End(w)
		p.toSignIn(w, v.r)
		return
	}
	page := p.explain(v, err)
	if page.Status == http.StatusBadGateway {
		p.Logger.Error("Request failed", "method", v.r.Method, "path", v.r.URL.Path, "error", err)
	}
	p.render(w, v, page.Status, "error.html", page.Title, page)
}

func (p *portal) explain(v *visit, err error) refusal {
	back := "/clients"
	if namespace, name := v.r.PathValue("namespace"), v.r.PathValue("name"); name != "" {
		back = clientPath(namespace, name)
	}
	tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errNoSuchPage):
		return refusal{Status: http.StatusNotFound, Title: "There is no such page", Message: "The address has a slip, or the page has moved.", Back: "/clients"}
	case isTooLarge:
		return refusal{Status: http.StatusRequestEntityTooLarge, Title: "That is too much", Message: fmt.Sprintf("A form may have %d bytes.", tooLarge.Limit), Back: back}
	case errors.Is(err, errInput):
		return refusal{Status: http.StatusUnprocessableEntity, Title: "That can't be", Message: sentence(err), Back: back}
	case errors.Is(err, errChanged), apierrors.IsConflict(err):
		return refusal{
			Status: http.StatusConflict, Title: "Somebody was faster",
			Message: "This client was changed after you had opened the page. Your change wasn't made, and theirs is as they made it. Look at the client as it is now, and decide again.",
			Back:    back,
		}
	case errors.Is(err, errManaged):
		return refusal{Status: http.StatusConflict, Title: "Another tool manages this", Message: sentence(err), Back: back}
	case apierrors.IsForbidden(err):
		namespace := cmp.Or(v.r.PathValue("namespace"), v.r.PostForm.Get("namespace"))
		return refusal{
			Status: http.StatusForbidden, Title: "You may not do this",
			Message: "Kubernetes has refused it, and nothing was changed.",
			Grant:   v.session.Person.GrantCommand(namespace), Back: back,
		}
	case apierrors.IsNotFound(err):
		return refusal{Status: http.StatusNotFound, Title: "It isn't there", Message: "Nothing of this name exists, or somebody has deleted it.", Back: "/clients"}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsAlreadyExists(err):
		return refusal{Status: http.StatusUnprocessableEntity, Title: "Kubernetes doesn't take it", Message: apiMessage(err), Back: back}
	case apierrors.IsTooManyRequests(err):
		return refusal{Status: http.StatusServiceUnavailable, Title: "Please try again", Message: "The API server of Kubernetes is busy.", Back: back}
	}
	return refusal{
		Status: http.StatusBadGateway, Title: "That didn't work",
		Message: "The API server of Kubernetes can't be reached, or its answer can't be used. The portal's log says more. Whether the change was made you see at the client.",
		Back:    back,
	}
}

// apiMessage is what the API server says to people.
func apiMessage(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.Status().Message
	}
	return err.Error()
}
