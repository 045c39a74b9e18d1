package portal

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/faces/describe"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
)

// createPage is the form for a new client, or for the selection of its realm and namespace.
type createPage struct {
	// Selected is set if Realm and Form.Namespace are selected.
	Selected bool
	// Realms are the realms to select from. Hidden is set if the user isn't allowed to list realms.
	// If there are no realms to select from, users enter a name.
	Realms []realmView
	Hidden bool
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
	complete := req.listRealms
	if page.Selected {
		complete = req.describeRealm
	}
	if err := complete(&page); err != nil {
		return err
	}
	p.render(w, req, status, "create.html", "Create client", page)
	return nil
}

// listRealms sets the realms to select from.
func (req *request) listRealms(page *createPage) error {
	realms, hidden, err := req.realms()
	if err != nil {
		return err
	}
	page.Hidden = hidden
	for k := range realms {
		page.Realms = append(page.Realms, viewRealm(&realms[k]))
	}
	return nil
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
	live := &v1beta1.Realm{}
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
		page.RealmKnown, page.Lifetime = true, describe.Duration(live.Status.TokenLifetime)
		page.Offer, err = req.offer(live, page.Form.Namespace)
		return err
	}
	return nil
}

func (p *portal) create(w http.ResponseWriter, req *request) error {
	page, err := req.parseCreate()
	if err != nil {
		return err
	}
	created, err := page.Form.client(page.Realm)
	if err != nil {
		page.Invalid, page.Problem = formProblem(err)
		return p.renderCreate(w, req, http.StatusUnprocessableEntity, page)
	}
	secret, err := generateSecret(p.Random)
	if err != nil {
		return err
	}
	created.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: secret.id, Hash: secret.hash}}}
	// If a client with this name exists, Create fails, but Apply would change that client.
	err = req.api.Create(req.ctx(), created, client.FieldOwner(FieldOwner))
	p.audit(req, change{action: audit.ActionCreate, client: created, secretID: secret.id}, err)
	if err == nil {
		return p.showSecret(w, req, created, secret)
	}
	status := http.StatusUnprocessableEntity
	if apierrors.IsAlreadyExists(err) {
		status = http.StatusConflict
	}
	var known bool
	if page.Invalid, page.Problem, known = createProblem(err); !known {
		return err
	}
	return p.renderCreate(w, req, status, page)
}

// check renders the problems of the form while the user fills it in. The API server validates the
// form in a dry run, so the portal needs no copy of the rules. Fields that are still empty show no
// problems.
func (p *portal) check(w http.ResponseWriter, req *request) error {
	page, err := req.parseCreate()
	if err != nil {
		return err
	}
	form := page.Form
	if form.Name == "" {
		form.Name = "unnamed" // so that the API server checks the other fields
	}
	created, err := form.client(page.Realm)
	if err == nil {
		created.Spec.Secret = &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}} // needs no random secret
		err = req.api.Create(req.ctx(), created, client.DryRunAll)
		var known bool
		if page.Invalid, _, known = createProblem(err); err != nil && !known {
			return err
		}
	} else {
		page.Invalid, _ = formProblem(err)
	}
	values := page.Form.values()
	problems := make([]formField, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field := formField{Name: name}
		if values[name] != "" {
			field.Problem = page.Invalid[name]
		}
		problems = append(problems, field)
	}
	p.renderPart(w, "create.html", "problems", problems)
	return nil
}

// parseCreate returns the page with the submitted form.
func (req *request) parseCreate() (createPage, error) {
	if err := req.r.ParseForm(); err != nil {
		return createPage{}, fmt.Errorf("%w: %w", errInput, err)
	}
	values := req.r.PostForm
	get := func(key string) string { return strings.TrimSpace(values.Get(key)) }
	form := clientForm{
		Namespace: get("namespace"), Name: get("name"), ClientID: get("clientID"), Description: get("description"), Lifetime: get("lifetime"), Expires: get("expires"),
		Scopes: strings.Fields(strings.Join(values["scope"], " ")),
	}
	return createPage{Realm: get("realm"), Form: form}, nil
}

// createProblem returns the problems because of which the API server rejected a new client. known is
// false if the user's input is not the cause.
func createProblem(err error) (invalid map[string]string, other string, known bool) {
	switch {
	case apierrors.IsAlreadyExists(err):
		return map[string]string{"name": "A client with this name already exists in this namespace. Choose another name."}, "", true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		invalid, other = invalidFields(err)
		return invalid, other, true
	case apierrors.IsNotFound(err):
		return nil, "This namespace doesn't exist.", true
	}
	return nil, "", false
}

// fieldError is a problem of a form field that the portal parses.
type fieldError struct {
	field string
	error
}

func (e fieldError) Unwrap() error { return e.error }

// formProblem returns the problem that prevents the portal from converting the form.
func formProblem(err error) (invalid map[string]string, other string) {
	if e, ok := errors.AsType[fieldError](err); ok {
		return map[string]string{e.field: sentence(err)}, "The client wasn't created. Correct the marked fields."
	}
	return nil, sentence(err)
}

var errMissing = errors.New("enter a realm, a namespace and a name")

// values returns the submitted values by form field.
func (f clientForm) values() map[string]string {
	return map[string]string{
		"name": f.Name, "clientID": f.ClientID, "description": f.Description, "scope": strings.Join(f.Scopes, " "),
		"lifetime": f.Lifetime, "expires": f.Expires,
	}
}

// client converts the form to an ApiClient. The API server performs the remaining validation.
func (f clientForm) client(realm string) (*v1beta1.ApiClient, error) {
	if realm == "" || f.Namespace == "" || f.Name == "" {
		return nil, errMissing
	}
	if !validName(f.Namespace) {
		return nil, fmt.Errorf("%w: the namespace name is not valid", errInput)
	}
	c := &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: realm}, ClientID: f.ClientID, Description: f.Description, Scopes: f.Scopes,
		},
	}
	if f.Lifetime != "" {
		lifetime, err := time.ParseDuration(f.Lifetime)
		if err != nil {
			return nil, fieldError{"lifetime", fmt.Errorf("%w: the token lifetime must be a duration such as 5m or 1h30m", errInput)}
		}
		c.Spec.TokenLifetime = &v1beta1.Duration{Duration: lifetime}
	}
	expirationTime, err := parseExpiry(f.Expires)
	if err != nil {
		return nil, fieldError{"expires", err}
	}
	c.Spec.ExpirationTime = expirationTime
	return c, nil
}
