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

// createPage is the form for a new client, or for the selection of its realm.
type createPage struct {
	// Realms are the realms to select from. Hidden is set if the user isn't allowed to list
	// them and must enter the name.
	Realms []realmView
	Hidden bool
	// Realm is the selected realm. If the user is allowed to read it, RealmKnown is set and Scopes
	// and Lifetime contain its values.
	Realm, Lifetime string
	Scopes          []string
	RealmKnown      bool
	// Namespaces are the namespaces to select from. It is empty if the user must enter the name.
	Namespaces []string
	// Form is the user's input. Problem describes invalid input.
	Form    clientForm
	Problem string
	// Grant is nil if the user has the role.
	Grant *grant
}

// clientForm contains the submitted form values.
type clientForm struct {
	Namespace, Name, Description, Lifetime, Expires string
	Scopes                                          []string
}

// Has reports whether a scope is selected.
func (f clientForm) Has(scope string) bool { return slices.Contains(f.Scopes, scope) }

func (p *portal) showCreate(w http.ResponseWriter, req *request) error {
	query := req.r.URL.Query()
	form := clientForm{Namespace: query.Get("namespace")}
	if form.Namespace == "" {
		form.Namespace = req.ownNamespace()
	}
	return p.renderCreate(w, req, http.StatusOK, query.Get("realm"), form, "")
}

func (p *portal) renderCreate(w http.ResponseWriter, req *request, status int, realm string, form clientForm, problem string) error {
	page := createPage{Realm: realm, Form: form, Problem: problem}
	if realm == "" {
		realms, hidden, err := req.realms()
		if err != nil {
			return err
		}
		page.Hidden = hidden
		for k := range realms {
			page.Realms = append(page.Realms, viewRealm(&realms[k]))
		}
		p.render(w, req, status, "create.html", "Create client", page)
		return nil
	}
	if err := req.describeRealm(&page); err != nil {
		return err
	}
	if !validName(form.Namespace) {
		form.Namespace, page.Problem = "", "The namespace name is not valid."
	}
	allowed, err := access.Allowed(req.ctx(), req.api, "create", form.Namespace, "")
	if err != nil {
		return err
	}
	if !allowed {
		page.Grant = req.grant(form.Namespace)
	}
	if page.Namespaces, err = req.namespaces(); err != nil {
		return err
	}
	p.render(w, req, status, "create.html", "Create client", page)
	return nil
}

// describeRealm sets the realm's scopes and token lifetime on the page if the user is allowed to
// read the realm.
func (req *request) describeRealm(page *createPage) error {
	live := &v1alpha1.Realm{}
	if !validName(page.Realm) {
		page.Problem = cmp.Or(page.Problem, "The realm name is not valid.")
		return nil
	}
	err := req.api.Get(req.ctx(), client.ObjectKey{Name: page.Realm}, live)
	switch {
	case apierrors.IsNotFound(err):
		page.Problem = cmp.Or(page.Problem, "This realm doesn't exist. The client can't get tokens until the realm is created.")
	case apierrors.IsForbidden(err):
	case err != nil:
		return err
	default:
		page.RealmKnown, page.Scopes, page.Lifetime = true, live.Spec.Scopes, formatLifetime(live.Status.TokenLifetime)
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
		Namespace: get("namespace"), Name: get("name"), Description: get("description"), Lifetime: get("lifetime"), Expires: get("expires"),
		Scopes: strings.Fields(strings.Join(values["scope"], " ")),
	}
	created, err := form.client(get("realm"))
	if err != nil {
		return p.renderCreate(w, req, http.StatusUnprocessableEntity, get("realm"), form, sentence(err))
	}
	secret, err := generateSecret(p.Random)
	if err != nil {
		return err
	}
	created.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: secret.id, Hash: secret.hash}}}
	// If a client with this name exists, Create fails, but Apply would change that client.
	err = req.api.Create(req.ctx(), created, client.FieldOwner(FieldOwner))
	p.audit(req, change{action: audit.ActionCreate, client: created, secretID: secret.id}, err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return p.renderCreate(w, req, http.StatusConflict, get("realm"), form, "A client with this name already exists in this namespace. Choose another name.")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return p.renderCreate(w, req, http.StatusUnprocessableEntity, get("realm"), form, apiMessage(err))
	case apierrors.IsNotFound(err):
		return p.renderCreate(w, req, http.StatusUnprocessableEntity, get("realm"), form, "This namespace doesn't exist.")
	case err != nil:
		return err
	}
	return p.showSecret(w, req, created, secret)
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
			RealmRef: v1alpha1.RealmReference{Name: realm}, Description: f.Description, Scopes: f.Scopes,
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
