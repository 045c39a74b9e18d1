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

// createPage is the form for a new client, or the choice of its realm.
type createPage struct {
	// Realms to choose from; Hidden: the person may not see them, and has to know the name.
	Realms []realmView
	Hidden bool
	// Realm is the chosen one, of which Scopes and Lifetime are known where the person may see it.
	Realm, Lifetime string
	Scopes          []string
	Seen            bool
	// Namespaces to choose from; empty: the person may not list them.
	Namespaces []string
	// Typed is what the person has typed, and Problem what is wrong with it.
	Typed   typedClient
	Problem string
	// Grant is the command that lets the person create clients; empty where they may.
	Grant string
}

// typedClient is the form as it was filled in.
type typedClient struct {
	Namespace, Name, Description, Lifetime, Expires string
	Scopes                                          []string
}

// Has reports whether a scope was chosen.
func (t typedClient) Has(scope string) bool { return slices.Contains(t.Scopes, scope) }

func (p *portal) showCreate(w http.ResponseWriter, v *visit) error {
	query := v.r.URL.Query()
	typed := typedClient{Namespace: query.Get("namespace")}
	if typed.Namespace == "" {
		typed.Namespace = v.ownNamespace()
	}
	return p.renderCreate(w, v, http.StatusOK, query.Get("realm"), typed, "")
}

func (p *portal) renderCreate(w http.ResponseWriter, v *visit, status int, realm string, typed typedClient, problem string) error {
	page := createPage{Realm: realm, Typed: typed, Problem: problem}
	if realm == "" {
		realms, hidden, err := v.realms()
		if err != nil {
			return err
		}
		page.Hidden = hidden
		for k := range realms {
			page.Realms = append(page.Realms, viewRealm(&realms[k]))
		}
		p.render(w, v, status, "create.html", "Create a client", page)
		return nil
	}
	if err := v.describeRealm(&page); err != nil {
		return err
	}
	if !canBeName(typed.Namespace) {
		typed.Namespace, page.Problem = "", "No namespace has such a name."
	}
	may, err := access.May(v.ctx(), v.as, "create", typed.Namespace, "")
	if err != nil {
		return err
	}
	if !may {
		page.Grant = v.session.Person.GrantCommand(typed.Namespace)
	}
	if page.Namespaces, err = v.namespaces(); err != nil {
		return err
	}
	p.render(w, v, status, "create.html", "Create a client", page)
	return nil
}

// describeRealm tells what a client of the realm can choose, where the person may see the realm.
func (v *visit) describeRealm(page *createPage) error {
	live := &v1alpha1.Realm{}
	if !canBeName(page.Realm) {
		page.Problem = cmp.Or(page.Problem, "No realm can have such a name.")
		return nil
	}
	err := v.as.Get(v.ctx(), client.ObjectKey{Name: page.Realm}, live)
	switch {
	case apierrors.IsNotFound(err):
		page.Problem = cmp.Or(page.Problem, "There is no realm of this name. A client of it waits until somebody makes one.")
	case apierrors.IsForbidden(err):
	case err != nil:
		return err
	default:
		page.Seen, page.Scopes, page.Lifetime = true, live.Spec.Scopes, lifetime(live.Status.TokenLifetime)
	}
	return nil
}

// mostNamespaces is how many a person chooses from; of more they type the name.
const mostNamespaces = 200

// namespaces returns those that a person can choose from, or none.
func (v *visit) namespaces() ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	err := v.as.List(v.ctx(), list, client.Limit(mostNamespaces))
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

func (p *portal) create(w http.ResponseWriter, v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", errInput, err)
	}
	form := v.r.PostForm
	get := func(key string) string { return strings.TrimSpace(form.Get(key)) }
	typed := typedClient{
		Namespace: get("namespace"), Name: get("name"), Description: get("description"), Lifetime: get("lifetime"), Expires: get("expires"),
		Scopes: strings.Fields(strings.Join(form["scope"], " ")),
	}
	made, err := typed.client(get("realm"))
	if err != nil {
		return p.renderCreate(w, v, http.StatusUnprocessableEntity, get("realm"), typed, sentence(err))
	}
	secret, err := makeSecret(p.Random)
	if err != nil {
		return err
	}
	made.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: secret.id, Hash: secret.hash}}}
	// Only a creation fails where there is a client of the name; to apply would change it.
	err = v.as.Create(v.ctx(), made, client.FieldOwner(FieldOwner))
	p.audit(v, change{action: audit.ActionCreate, client: made, secretID: secret.id}, err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return p.renderCreate(w, v, http.StatusConflict, get("realm"), typed, "There is a client of this name in this namespace already. Choose another name.")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return p.renderCreate(w, v, http.StatusUnprocessableEntity, get("realm"), typed, apiMessage(err))
	case apierrors.IsNotFound(err):
		return p.renderCreate(w, v, http.StatusUnprocessableEntity, get("realm"), typed, "There is no such namespace.")
	case err != nil:
		return err
	}
	return p.showSecret(w, v, made, secret)
}

var errMissing = errors.New("a client needs a realm, a namespace and a name")

// client returns what was typed as an ApiClient. The API server checks all that it knows better.
func (t typedClient) client(realm string) (*v1alpha1.ApiClient, error) {
	if realm == "" || t.Namespace == "" || t.Name == "" {
		return nil, errMissing
	}
	if !canBeName(t.Namespace) {
		return nil, fmt.Errorf("%w: no namespace has such a name", errInput)
	}
	c := &v1alpha1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name},
		Spec: v1alpha1.ApiClientSpec{
			RealmRef: v1alpha1.RealmReference{Name: realm}, Description: t.Description, Scopes: t.Scopes,
		},
	}
	if t.Lifetime != "" {
		lasts, err := time.ParseDuration(t.Lifetime)
		if err != nil {
			return nil, fmt.Errorf("%w: a token lifetime is a duration such as 5m or 1h30m", errInput)
		}
		c.Spec.TokenLifetime = &metav1.Duration{Duration: lasts}
	}
	var err error
	c.Spec.ExpiresAt, err = parseExpiry(t.Expires)
	return c, err
}
