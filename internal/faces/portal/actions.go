package portal

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

func (p *portal) suspend(w http.ResponseWriter, req *request) error {
	return p.setSuspended(w, req, audit.ActionSuspend, true)
}

func (p *portal) resume(w http.ResponseWriter, req *request) error {
	return p.setSuspended(w, req, audit.ActionResume, false)
}

func (p *portal) setSuspended(w http.ResponseWriter, req *request, action audit.Action, suspended bool) error {
	err := p.change(req, edit{action: action, path: suspendPath, mutate: func(c *v1beta1.ApiClient) (string, error) {
		c.Spec.Suspend = suspended
		return "", nil
	}})
	return p.backToClient(w, req, err)
}

// expiryLayout is the format of a datetime-local input. The portal interprets its value as UTC.
const expiryLayout = "2006-01-02T15:04"

// setExpiry sets or removes the client's expiration.
func (p *portal) setExpiry(w http.ResponseWriter, req *request) error {
	if err := req.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	expiry, err := parseExpiry(req.r.PostForm.Get("expires"))
	if err != nil {
		return err
	}
	err = p.change(req, edit{action: audit.ActionSetExpiration, path: expiresAtPath, mutate: func(c *v1beta1.ApiClient) (string, error) {
		c.Spec.ExpirationTime = expiry
		return "", nil
	}})
	return p.backToClient(w, req, err)
}

func parseExpiry(value string) (*metav1.Time, error) {
	if value == "" {
		return nil, nil //nolint:nilnil // nil means no expiration.
	}
	for _, layout := range []string{expiryLayout, "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, value); err == nil && at.Year() >= 1000 && at.Year() < 3000 {
			return &metav1.Time{Time: at}, nil
		}
	}
	return nil, fmt.Errorf("%w: the expiration must be a date and time in UTC, such as 2031-12-31T23:59", errInput)
}

// delete deletes the client after the user confirms by entering its name.
func (p *portal) delete(w http.ResponseWriter, req *request) error {
	seen, err := req.seenVersion()
	if err != nil {
		return err
	}
	if req.r.PostForm.Get("confirm") != req.r.PathValue("name") {
		return fmt.Errorf("%w: enter the exact client name to confirm", errInput)
	}
	done := change{action: audit.ActionDelete, client: &v1beta1.ApiClient{}}
	done.client.Namespace, done.client.Name = req.r.PathValue("namespace"), req.r.PathValue("name")
	for range maxAttempts {
		if err = req.get(done.client); err != nil {
			break
		}
		if err = req.tryDelete(done.client, seen); !apierrors.IsConflict(err) {
			break
		}
	}
	p.audit(req, done, err)
	if err != nil {
		return err
	}
	http.Redirect(w, req.r, "/clients", http.StatusSeeOther)
	return nil
}

func (req *request) tryDelete(live *v1beta1.ApiClient, seen version) error {
	if seen != versionOf(live) {
		return errChanged
	}
	if reason := revertReason(live, nil); reason != "" {
		return fmt.Errorf("%w: %s", errManaged, reason)
	}
	return req.api.Delete(req.ctx(), live, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
}

// backToClient redirects to the client page after a change.
func (p *portal) backToClient(w http.ResponseWriter, req *request, err error) error {
	if err != nil {
		return err
	}
	http.Redirect(w, req.r, clientPath(req.r.PathValue("namespace"), req.r.PathValue("name")), http.StatusSeeOther)
	return nil
}
