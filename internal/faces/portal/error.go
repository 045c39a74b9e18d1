package portal

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	errPageNotFound = errors.New("page not found")
	// errChanged means that the client has changed since the user loaded the page.
	errChanged = errors.New("client was changed after the page was opened")
	// errManaged means that another tool would revert the change.
	errManaged = errors.New("managed by another tool")
	// errInput means that a form contains invalid input.
	errInput = errors.New("invalid input")
)

// errorPage explains why a request failed.
type errorPage struct {
	Status  int
	Title   string
	Message string
	// Grant is nil unless the user lacks the role.
	Grant *grant
	// Back is the path of the page to return to.
	Back string
}

// grant describes how an administrator can grant the role to the user.
type grant struct {
	Namespace string // empty for all namespaces
	Command   string
}

func (req *request) grant(namespace string) *grant {
	return &grant{Namespace: namespace, Command: req.session.User.GrantCommand(namespace)}
}

// showError shows an error page, or ends the session if the API server rejected the user's token.
func (p *portal) showError(w http.ResponseWriter, req *request, err error) {
	if apierrors.IsUnauthorized(err) {
		p.Sessions.End(w)
		redirect(w, req.r, signInPath)
		return
	}
	page := newErrorPage(req, err)
	if page.Status == http.StatusBadGateway {
		p.Logger.Error("Request failed", "method", req.r.Method, "path", req.r.URL.Path, "error", err)
	}
	p.render(w, req, page.Status, "error.html", page.Title, page)
}

func newErrorPage(req *request, err error) errorPage {
	back := "/clients"
	if namespace, name := req.r.PathValue("namespace"), req.r.PathValue("name"); name != "" {
		back = clientPath(namespace, name)
	}
	tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errPageNotFound):
		return errorPage{Status: http.StatusNotFound, Title: "Page not found", Message: "Check the URL.", Back: "/clients"}
	case isTooLarge:
		return errorPage{
			Status: http.StatusRequestEntityTooLarge, Title: "Request too large",
			Message: fmt.Sprintf("The form must not exceed %d bytes.", tooLarge.Limit), Back: back,
		}
	case errors.Is(err, errInput):
		return errorPage{Status: http.StatusUnprocessableEntity, Title: "Invalid input", Message: sentence(err), Back: back}
	case errors.Is(err, errChanged), apierrors.IsConflict(err):
		return errorPage{
			Status: http.StatusConflict, Title: "This client has changed",
			Message: "The client was changed after you opened the page, so your change wasn't saved. Review the client and try again.",
			Back:    back,
		}
	case errors.Is(err, errManaged):
		return errorPage{Status: http.StatusConflict, Title: "Managed by another tool", Message: sentence(err), Back: back}
	case apierrors.IsForbidden(err):
		namespace := cmp.Or(req.r.PathValue("namespace"), req.r.PostForm.Get("namespace"))
		return errorPage{
			Status: http.StatusForbidden, Title: "Permission denied",
			Message: "Kubernetes denied this request. Nothing was changed.",
			Grant:   req.grant(namespace), Back: back,
		}
	case apierrors.IsNotFound(err):
		return errorPage{Status: http.StatusNotFound, Title: "Not found", Message: "This object doesn't exist or was deleted.", Back: "/clients"}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsAlreadyExists(err):
		return errorPage{Status: http.StatusUnprocessableEntity, Title: "Kubernetes rejected this request", Message: apiMessage(err), Back: back}
	case apierrors.IsTooManyRequests(err):
		return errorPage{Status: http.StatusServiceUnavailable, Title: "Try again later", Message: "The Kubernetes API server is busy.", Back: back}
	}
	return errorPage{
		Status: http.StatusBadGateway, Title: "Something went wrong",
		Message: "The Kubernetes API server is unavailable or returned an unexpected response. If you made a change, check whether it was saved. See the portal log for details.",
		Back:    back,
	}
}

// sentence formats an error as a sentence. It removes prefixes that the page title already
// contains.
func sentence(err error) string {
	s := err.Error()
	for _, shown := range []error{errInput, errManaged} {
		s = strings.TrimPrefix(s, shown.Error()+": ")
	}
	s = strings.TrimSuffix(s, ".")
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}

// apiMessage returns the message of an API server error.
func apiMessage(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.Status().Message
	}
	return err.Error()
}

// formFields maps fields of an ApiClient to fields of the form that creates it.
var formFields = map[string]string{
	"metadata.name": "name", "spec.clientID": "clientID", "spec.description": "description",
	"spec.scopes": "scope", "spec.tokenLifetime": "lifetime", "spec.expirationTime": "expires",
}

// invalidFields returns the messages of an API server error by form field, and a message for
// everything else.
func invalidFields(err error) (byField map[string]string, other string) {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return nil, apiMessage(err)
	}
	byField = map[string]string{}
	for _, cause := range status.ErrStatus.Details.Causes {
		path, _, _ := strings.Cut(cause.Field, "[")
		field, ok := formFields[path]
		switch {
		case !ok && cause.Field != "<nil>": // "<nil>" only says that some rules were not checked
			return nil, apiMessage(err)
		case ok:
			byField[field] = strings.TrimSpace(byField[field] + " " + cause.Message)
		}
	}
	if len(byField) == 0 {
		return nil, apiMessage(err)
	}
	return byField, "The client wasn't created. Correct the marked fields."
}
