package portal

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// createPage is the form for a new client, or for the selection of its realm and namespace.
type createPage struct {
	// Selected is set if Realm and Form.Namespace are selected.
	Selected bool
	// Realms and Namespaces are the names to select from. Hidden is set if the user isn't allowed to
	// list realms. Users enter a name if there is none to select from.
	Realms     []realmView
	Hidden     bool
	Namespaces []string
	// Realm is the selected realm. If the user is allowed to read it, RealmKnown is set, Lifetime is
	// its token lifetime, and Offer contains what it grants to clients in the namespace.
	Realm, Lifetime string
	RealmKnown      bool
	Offer           offer
	// Form is the user's input. Invalid contains the problems by form field, and Problem any other
	// problem.
	Form    clientForm
	Invalid map[string]string
	Problem string
	// Grant is nil if the user has the role.
	Grant *grant
}

// clientForm contains the submitted form values.
type clientForm struct {
	Namespace, Name, ClientID, Description, Lifetime, Expires string
	Scopes                                                    []string
}

// Has reports whether a scope is selected.
func (f clientForm) Has(scope string) bool { return slices.Contains(f.Scopes, scope) }

func (p *portal) showCreate(w http.ResponseWriter, req *request) error {
	query := req.r.URL.Query()
	return p.renderCreate(w, req, http.StatusOK, createPage{Realm: query.Get("realm"), Form: clientForm{Namespace: query.Get("namespace")}})
}

func (p *portal) renderCreate(w http.ResponseWriter, req *request, status int, page createPage) error {
	if page.Form.Namespace != "" && !validName(page.Form.Namespace) {
		page.Form.Namespace, page.Problem = "", "The namespace name is not valid."
	}
	page.Selected = page.Realm != "" && page.Form.Namespace != ""
	complete := req.listChoices
	if page.Selected {
		complete = req.describeRealm
	}
	if err := complete(&page); err != nil {
		return err
	}
	p.render(w, req, status, "create.html", "Create client", page)
	return nil
}

// listChoices sets the realms and namespaces to select from.
func (req *request) listChoices(page *createPage) error {
	realms, hidden, err := req.realms()
	if err != nil {
		return err
	}
	page.Hidden = hidden
	for k := range realms {
		page.Realms = append(page.Realms, viewRealm(&realms[k]))
	}
	page.Form.Namespace = cmp.Or(page.Form.Namespace, req.ownNamespace())
	page.Namespaces, err = req.namespaces()
	return err
}

// describeRealm sets what the page shows about the realm if the user is allowed to read it.
func (req *request) describeRealm(page *createPage) error {
	allowed, err := access.Allowed(req.ctx(), req.api, "create", page.Form.Namespace, "")
	if err != nil {
		return err
	}
	if !allowed {
		page.Grant = req.grant(page.Form.Namespace)
	}
	live := &v1alpha1.Realm{}
	if !validName(page.Realm) {
		page.Problem = cmp.Or(page.Problem, "The realm name is not valid.")
		return nil
	}
	err = req.api.Get(req.ctx(), client.ObjectKey{Name: page.Realm}, live)
	switch {
	case apierrors.IsNotFound(err):
		page.Problem = cmp.Or(page.Problem, "This realm doesn't exist. The client can't get tokens until the realm is created.")
	case apierrors.IsForbidden(err):
	case err != nil:
		return err
	default:
		page.RealmKnown, page.Lifetime = true, formatLifetime(live.Status.TokenLifetime)
		page.Offer, err = req.offer(live, page.Form.Namespace)
		return err
	}
	return nil
}

// maxNamespaces is the maximum number of namespaces to select from. If there are more, users enter
// the name instead.
const maxNamespaces = 200

// namespaces returns the namespaces to select from. It returns none if there are too many or the
// user isn't allowed to list them.
func (req *request) namespaces() ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	err := req.api.List(req.ctx(), list, client.Limit(maxNamespaces))
	if apierrors.IsForbidden(err) || list.Continue != "" {
		return nil, nil
	}
	names := make([]string, 0, len(list.Items))
	for k := range list.Items {
		names = append(names, list.Items[k].Name)
	}
	slices.Sort(names)
	return names, err
}

func (p *portal) create(w http.ResponseWriter, req *request) error {
	if err := req.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	values := req.r.PostForm
	get := func(key string) string { return strings.TrimSpace(values.Get(key)) }
	form := clientForm{
		Namespace: get("namespace"), Name: get("name"), ClientID: get("clientId"), Description: get("description"), Lifetime: get("lifetime"), Expires: get("expires"),
		Scopes: strings.Fields(strings.Join(values["scope"], " ")),
	}
	page := createPage{Realm: get("realm"), Form: form}
	created, err := form.client(page.Realm)
	if err != nil {
		page.Problem = sentence(err)
		return p.renderCreate(w, req, http.StatusUnprocessableEntity, page)
	}
	secret, err := generateSecret(p.Random)
	if err != nil {
		return err
	}
	created.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: secret.id, Hash: secret.hash}}}
	// If a client with this name exists, Create fails, but Apply would change that client.
	err = req.api.Create(req.ctx(), created, client.FieldOwner(FieldOwner))
	p.audit(req, change{action: audit.ActionCreate, client: created, secretID: secret.id}, err)
	status := http.StatusUnprocessableEntity
	switch {
	case apierrors.IsAlreadyExists(err):
		status, page.Invalid = http.StatusConflict, map[string]string{"name": "A client with this name already exists in this namespace. Choose another name."}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		page.Invalid, page.Problem = invalidFields(err)
	case apierrors.IsNotFound(err):
		page.Problem = "This namespace doesn't exist."
	case err != nil:
		return err
	default:
		return p.showSecret(w, req, created, secret)
	}
	return p.renderCreate(w, req, status, page)
}

var errMissing = errors.New("enter a realm, a namespace and a name")

// client converts the form to an ApiClient. The API server performs the remaining validation.
func (f clientForm) client(realm string) (*v1alpha1.ApiClient, error) {
	if realm == "" || f.Namespace == "" || f.Name == "" {
		return nil, errMissing
	}
	if !validName(f.Namespace) {
		return nil, fmt.Errorf("%w: the namespace name is not valid", errInput)
	}
	c := &v1alpha1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name},
		Spec: v1alpha1.ApiClientSpec{
			RealmRef: v1alpha1.RealmReference{Name: realm}, ClientID: f.ClientID, Description: f.Description, Scopes: f.Scopes,
		},
	}
	if f.Lifetime != "" {
		lifetime, err := time.ParseDuration(f.Lifetime)
		if err != nil {
			return nil, fmt.Errorf("%w: the token lifetime must be a duration such as 5m or 1h30m", errInput)
		}
		c.Spec.TokenLifetime = &v1alpha1.Duration{Duration: lifetime}
	}
	var err error
	c.Spec.ExpiresAt, err = parseExpiry(f.Expires)
	return c, err
}
