package portal

import (
	"cmp"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// clientPage shows a client and what can be done with it.
type clientPage struct {
	*v1alpha1.ApiClient

	State    State
	Answers  []answer
	ClientID string
	Lifetime string
	// Source is where the secret comes from: generated, provided or hashed, or none where there is no secret.
	Source  string
	Secrets []secretView
	// Managed says which tool keeps the client elsewhere; empty: none.
	Managed  string
	Events   []corev1.Event
	Overlaps []overlap
	Expires  string // as the form has it
	// These say why something can't be done; empty: it can.
	NoSuspend, NoRotate, NoExpiry, NoDelete, NoEnd string
	// Grant is the command that gives the person the role; empty where they have it.
	Grant string
}

// secretView is a secret of a client, without its value.
type secretView struct {
	ID               string
	Created, Expires *metav1.Time
	Ended            bool
}

func (p *portal) showClient(w http.ResponseWriter, v *visit) error {
	page, err := p.viewClient(v)
	if err != nil {
		return err
	}
	p.render(w, v, http.StatusOK, "client.html", page.Name, page)
	return nil
}

// showState shows the part of a client's page that changes by itself.
func (p *portal) showState(w http.ResponseWriter, v *visit) error {
	page, err := p.viewClient(v)
	if err != nil {
		return err
	}
	if !isPart(v.r) {
		http.Redirect(w, v.r, clientPath(page.Namespace, page.Name), http.StatusSeeOther)
		return nil
	}
	p.renderPart(w, "client.html", "state", page)
	return nil
}

func (p *portal) viewClient(v *visit) (*clientPage, error) {
	c := &v1alpha1.ApiClient{}
	if err := v.get(c); err != nil {
		return nil, err
	}
	page := &clientPage{
		ApiClient: c, State: stateOf(c.Status.Conditions, c.Generation), Answers: answersOf(c.Status.Conditions),
		ClientID: c.EffectiveClientID(), Lifetime: lifetime(c.Spec.TokenLifetime), Overlaps: overlaps,
	}
	if m, ok := managerOf(c); ok {
		page.Managed = m.String()
	}
	if c.Spec.ExpiresAt != nil {
		page.Expires = c.Spec.ExpiresAt.UTC().Format(expiryLayout)
	}
	page.Source, page.Secrets = p.secretsOf(c)
	var err error
	if page.Events, err = v.events(c); err != nil {
		return nil, err
	}
	return page, p.decideActions(v, page)
}

// secretsOf returns where the secret of a client comes from, and which it has.
func (p *portal) secretsOf(c *v1alpha1.ApiClient) (source string, secrets []secretView) {
	ended := func(at *metav1.Time) bool { return at != nil && !p.Now().Before(at.Time) }
	known := map[string]metav1.Time{}
	for _, s := range c.Status.Secrets {
		known[s.ID] = s.CreatedAt
	}
	switch {
	case c.Spec.Secret != nil && c.Spec.Secret.Hashed != nil:
		for _, h := range c.Spec.Secret.Hashed {
			view := secretView{ID: h.ID, Expires: h.ExpiresAt, Ended: ended(h.ExpiresAt)}
			if at, ok := known[h.ID]; ok {
				view.Created = &at
			}
			secrets = append(secrets, view)
		}
		return "hashed", secrets
	case c.Spec.Secret != nil && c.Spec.Secret.Provided != nil:
		source = "provided"
	case c.GeneratesSecret():
		source = "generated"
	default:
		source = "none"
	}
	for _, s := range c.Status.Secrets {
		secrets = append(secrets, secretView{ID: s.ID, Created: &s.CreatedAt, Expires: s.ExpiresAt, Ended: ended(s.ExpiresAt)})
	}
	return source, secrets
}

// mostEvents is how many a page shows, the newest first.
const mostEvents = 10

// events returns what has happened to a client lately, as far as the person may see it.
func (v *visit) events(c *v1alpha1.ApiClient) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := v.as.List(v.ctx(), list, client.InNamespace(c.Namespace), client.MatchingFields{"involvedObject.uid": string(c.UID)})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int {
		return cmp.Or(seenAt(&b).Compare(seenAt(&a).Time), cmp.Compare(a.Name, b.Name))
	})
	for k := range list.Items {
		list.Items[k].LastTimestamp = seenAt(&list.Items[k])
	}
	return list.Items[:min(len(list.Items), mostEvents)], err
}

// seenAt is when an event was last seen; the two APIs of events write that into different fields.
func seenAt(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.Time(e.Series.LastObservedTime)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	}
	return metav1.Time(e.EventTime)
}

// decideActions says which actions are there for this person and this client, and why not.
func (p *portal) decideActions(v *visit, page *clientPage) error {
	mayChange, err := access.May(v.ctx(), v.as, "patch", page.Namespace, page.Name)
	if err != nil {
		return err
	}
	mayDelete, err := access.May(v.ctx(), v.as, "delete", page.Namespace, page.Name)
	if err != nil {
		return err
	}
	if !mayChange || !mayDelete {
		page.Grant = v.session.Person.GrantCommand(page.Namespace)
	}
	why := func(may bool, path fieldpath.Path) string {
		if !may {
			return "Kubernetes doesn't let you do this."
		}
		return reverts(page.ApiClient, path)
	}
	page.NoSuspend, page.NoExpiry, page.NoDelete = why(mayChange, suspendPath), why(mayChange, expiresAtPath), why(mayDelete, nil)
	page.NoEnd = why(mayChange, secretPath)
	page.NoRotate = page.NoEnd
	switch page.Source {
	case "generated":
		page.NoRotate = why(mayChange, rotateAfterPath)
	case "none":
		page.NoRotate = cmp.Or(page.NoRotate, "This client has no secret.")
	case "provided":
		page.NoRotate = cmp.Or(page.NoRotate, "Somebody provides this secret: it changes with the Secret that it is in.")
	case "hashed":
		valid := slices.DeleteFunc(slices.Clone(page.Secrets), func(s secretView) bool { return s.Ended })
		if len(valid) > 1 {
			page.NoRotate = cmp.Or(page.NoRotate, "Two secrets are valid already. End one of them first.")
		}
	}
	return nil
}
