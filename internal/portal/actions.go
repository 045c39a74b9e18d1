package portal

import (
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	apply "github.com/realmkeeper/realmkeeper/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
)

func (p *portal) suspend(w http.ResponseWriter, v *visit) error {
	return p.setSuspended(w, v, audit.ActionSuspend, true)
}

func (p *portal) resume(w http.ResponseWriter, v *visit) error {
	return p.setSuspended(w, v, audit.ActionResume, false)
}

func (p *portal) setSuspended(w http.ResponseWriter, v *visit, action audit.Action, suspended bool) error {
	err := p.change(v, edit{action: action, path: suspendPath, decide: func(_ *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		spec.WithSuspend(suspended)
		return "", nil
	}})
	return p.backToClient(w, v, err)
}

// expiryLayout is how a browser writes a local time; here it is UTC.
const expiryLayout = "2006-01-02T15:04"

// setExpiry sets the end of a client, or removes it where none is typed.
func (p *portal) setExpiry(w http.ResponseWriter, v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	ends, err := parseExpiry(v.r.PostForm.Get("expires"))
	if err != nil {
		return err
	}
	err = p.change(v, edit{action: audit.ActionSetExpiration, path: expiresAtPath, decide: func(live *v1alpha1.ApiClient, spec *apply.ApiClientSpecApplyConfiguration) (string, error) {
		if ends != nil {
			spec.WithExpiresAt(*ends)
			return "", nil
		}
		spec.ExpiresAt = nil
		// What others have set stays when we leave it out.
		if ownedBy(live, expiresAtPath, isForeign) {
			return "", fmt.Errorf("%w: somebody has set this end with another tool, which alone can remove it; here you can set a later one", errInput)
		}
		return "", nil
	}})
	return p.backToClient(w, v, err)
}

func parseExpiry(typed string) (*metav1.Time, error) {
	if typed == "" {
		return nil, nil //nolint:nilnil // No time is a good answer.
	}
	for _, layout := range []string{expiryLayout, "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, typed); err == nil && at.Year() >= 1000 && at.Year() < 3000 {
			return &metav1.Time{Time: at}, nil
		}
	}
	return nil, fmt.Errorf("%w: an end is a date and a time in UTC, such as 2031-12-31T23:59", errInput)
}

// delete deletes a client whose name the person has typed.
func (p *portal) delete(w http.ResponseWriter, v *visit) error {
	seen, err := v.seen()
	if err != nil {
		return err
	}
	if v.r.PostForm.Get("confirm") != v.r.PathValue("name") {
		return fmt.Errorf("%w: to delete a client, type its name as it stands there", errInput)
	}
	done := change{action: audit.ActionDelete, client: &v1alpha1.ApiClient{}}
	done.client.Namespace, done.client.Name = v.r.PathValue("namespace"), v.r.PathValue("name")
	for range attempts {
		if err = v.get(done.client); err != nil {
			break
		}
		if err = v.tryDelete(done.client, seen); !apierrors.IsConflict(err) {
			break
		}
	}
	p.audit(v, done, err)
	if err != nil {
		return err
	}
	http.Redirect(w, v.r, "/clients", http.StatusSeeOther)
	return nil
}

func (v *visit) tryDelete(live *v1alpha1.ApiClient, seen version) error {
	if seen != versionOf(live) {
		return errChanged
	}
	if reason := reverts(live, nil); reason != "" {
		return fmt.Errorf("%w: %s", errManaged, reason)
	}
	return v.as.Delete(v.ctx(), live, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
}

// backToClient shows the client after a change.
func (p *portal) backToClient(w http.ResponseWriter, v *visit, err error) error {
	if err != nil {
		return err
	}
	http.Redirect(w, v.r, clientPath(v.r.PathValue("namespace"), v.r.PathValue("name")), http.StatusSeeOther)
	return nil
}
