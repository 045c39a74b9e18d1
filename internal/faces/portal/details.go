package portal

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// clientPage is the data of the page for a client and its actions.
type clientPage struct {
	*v1beta1.ApiClient

	State      State
	Conditions []conditionView
	ClientID   string
	Lifetime   string
	// Source is the source of the client secret: generated, provided, hashed or none.
	Source  string
	Secrets []secretView
	// Others are the credentials that aren't secrets.
	Others []credentialView
	// Rotation describes the rotation of a generated secret. It is empty for other secrets.
	Rotation string
	// Timeline is nil if there are no secrets to show.
	Timeline *timeline
	// ManagedBy is the tool that manages the client, if any.
	ManagedBy *gitops.Manager
	// Exchanges are empty if the user isn't allowed to read the realm.
	Exchanges describe.Exchanges
	Events    []corev1.Event
	Overlaps  []overlap
	Expires   string // in the format of the form field
	// The No fields explain why each action is disabled. A field is empty if its action is enabled.
	NoSuspend, NoRotate, NoExpiry, NoDelete, NoRevoke string
	// Grant is nil if the user has the role.
	Grant *grant
}

func (p *portal) showClient(w http.ResponseWriter, req *request) error {
	page, err := p.viewClient(req)
	if err != nil {
		return err
	}
	if page.Exchanges, err = req.exchanges(page.ApiClient); err != nil {
		return err
	}
	p.render(w, req, http.StatusOK, "client.html", page.Name, page)
	return nil
}

// showState renders the section of the client page that htmx polls.
func (p *portal) showState(w http.ResponseWriter, req *request) error {
	page, err := p.viewClient(req)
	if err != nil {
		return err
	}
	if !isPart(req.r) {
		http.Redirect(w, req.r, clientPath(page.Namespace, page.Name), http.StatusSeeOther)
		return nil
	}
	if req.r.URL.Query().Get("seen") == page.ResourceVersion {
		w.WriteHeader(http.StatusNoContent) // htmx keeps the section, and the focus in it
		return nil
	}
	p.renderPart(w, "client.html", "state", page)
	return nil
}

func (p *portal) viewClient(req *request) (*clientPage, error) {
	c := &v1beta1.ApiClient{}
	if err := req.get(c); err != nil {
		return nil, err
	}
	page := &clientPage{
		ApiClient: c, State: stateOf(c.Status.Conditions, c.Generation), Conditions: conditionsOf(c.Status.Conditions, clientRemedies(c, func() *v1beta1.Realm { return req.realmOf(c) })),
		ClientID: c.EffectiveClientID(), Lifetime: describe.Duration(c.Spec.TokenLifetime), Overlaps: overlaps,
	}
	if m, ok := gitops.ManagerOf(c); ok {
		page.ManagedBy = &m
	}
	if c.Spec.ExpirationTime != nil {
		page.Expires = c.Spec.ExpirationTime.UTC().Format(expiryLayout)
	}
	page.Source, page.Secrets = p.secretsOf(c)
	var next time.Time
	if c.Status.NextRotationTime != nil {
		next = c.Status.NextRotationTime.Time
	}
	page.Others, page.Rotation = p.otherCredentials(c), describeRotation(c)
	page.Timeline = secretTimeline(page.Secrets, next, p.Now())
	var err error
	if page.Events, err = req.events(c); err != nil {
		return nil, err
	}
	return page, setActions(req, page)
}

// realmOf returns the Realm of the client, or nil if the user cannot read it.
func (req *request) realmOf(c *v1beta1.ApiClient) *v1beta1.Realm {
	realm := &v1beta1.Realm{}
	if err := req.api.Get(req.ctx(), client.ObjectKey{Name: c.Spec.RealmRef.Name}, realm); err != nil {
		return nil
	}
	return realm
}

// exchanges returns the rules of the realm in which the client takes part; none if the user isn't allowed to read
// the realm. If the user isn't allowed to read the labels of the namespace, rules can depend on them.
func (req *request) exchanges(c *v1beta1.ApiClient) (describe.Exchanges, error) {
	realm := req.realmOf(c)
	if realm == nil {
		return describe.Exchanges{}, nil
	}
	var labels map[string]string
	if describe.NeedsNamespaceLabels(realm) {
		var err error
		if labels, err = req.labelsOf(c.Namespace); err != nil {
			return describe.Exchanges{}, err
		}
	}
	return describe.ExchangesOf(c, realm, labels), nil
}

// maxEvents is the maximum number of events on a page.
const maxEvents = 10

// events returns the client's latest events, newest first. It returns none if the user isn't
// allowed to list events.
func (req *request) events(c *v1beta1.ApiClient) ([]corev1.Event, error) {
	events, err := describe.Events(req.ctx(), req.api, c, maxEvents)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	return events, err
}

// setActions sets the reasons why actions are disabled for this user and client.
func setActions(req *request, page *clientPage) error {
	canChange, err := access.Allowed(req.ctx(), req.api, "patch", page.Namespace, page.Name)
	if err != nil {
		return err
	}
	canDelete, err := access.Allowed(req.ctx(), req.api, "delete", page.Namespace, page.Name)
	if err != nil {
		return err
	}
	if !canChange || !canDelete {
		page.Grant = req.grant(page.Namespace)
	}
	disabled := func(allowed bool, path fieldpath.Path) string {
		if !allowed {
			return "You don't have permission for this action."
		}
		return revertReason(page.ApiClient, path)
	}
	page.NoSuspend, page.NoExpiry, page.NoDelete = disabled(canChange, suspendPath), disabled(canChange, expiresAtPath), disabled(canDelete, nil)
	page.NoRevoke = disabled(canChange, secretPath)
	page.NoRotate = page.NoRevoke
	switch page.Source {
	case "generated":
		page.NoRotate = disabled(canChange, rotateAfterPath)
	case "none":
		page.NoRotate = cmp.Or(page.NoRotate, "This client has no secret.")
	case "provided":
		page.NoRotate = cmp.Or(page.NoRotate, "To rotate this secret, update the Secret that provides it.")
	case "hashed":
		valid := slices.DeleteFunc(slices.Clone(page.Secrets), func(s secretView) bool { return s.Expired })
		if len(valid) > 1 {
			page.NoRotate = cmp.Or(page.NoRotate, "This client already has two valid secrets. Revoke one first.")
		}
	}
	return nil
}
