package manifests

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// ForAccount returns the ApiClient of a service account, as which only the account can authenticate. Its name is that of
// the account, and so is its client ID, after the namespace. A label says that it is generated.
func ForAccount(account client.ObjectKey, realm string, scopes, audiences []string) *v1beta1.ApiClient {
	c := &v1beta1.ApiClient{}
	c.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("ApiClient"))
	c.Namespace, c.Name = account.Namespace, account.Name
	c.Labels = map[string]string{v1beta1.ManagedByLabel: gitops.FieldOwnerPluginCreate}
	c.Spec = v1beta1.ApiClientSpec{
		RealmRef: v1beta1.RealmReference{Name: realm}, Scopes: slices.Sorted(slices.Values(scopes)), Audiences: slices.Sorted(slices.Values(audiences)),
		Identities: []v1beta1.Identity{{Name: "service-account", ServiceAccount: v1beta1.ServiceAccountReference{Name: account.Name}}},
	}
	return c
}

// Plan compares the folder with the wanted ApiClients, one for each service account, and with those in the cluster. If
// namespace is not empty, these are all of this namespace, and it doesn't judge files of others.
func (f *Folder) Plan(wanted, existing []*v1beta1.ApiClient, namespace string) (*Plan, error) {
	p := &Plan{
		Create: []string{}, Change: []string{}, ByHand: []Account{}, ChangedInCluster: []string{}, NoLongerMatching: []string{}, Skipped: []Namespace{},
		contents: map[string][]byte{},
	}
	inCluster := map[client.ObjectKey]*v1beta1.ApiClient{}
	for _, c := range existing {
		inCluster[client.ObjectKeyFromObject(c)] = c
	}
	matching, byHand := map[string]bool{}, f.handwritten(existing)
	slices.SortFunc(wanted, func(a, b *v1beta1.ApiClient) int { return strings.Compare(pathOf(a), pathOf(b)) })
	for _, c := range wanted {
		content, err := encode(c)
		if err != nil {
			return nil, err
		}
		key, name := client.ObjectKeyFromObject(c), pathOf(c)
		matching[name] = true
		found, other := f.files[name], byHand.sameClient(c)
		switch {
		case found != nil && !found.intact:
			p.ByHand = append(p.ByHand, Account{key.String(), name + " was changed by hand"})
		case found == nil && other != "":
			p.ByHand = append(p.ByHand, Account{key.String(), other})
		case otherRealm(c, inCluster[key]), found != nil && otherRealm(c, found.clients[0]):
			p.ByHand = append(p.ByHand, Account{key.String(), "ApiClient " + key.String() + " is of another realm, which cannot be changed"})
		case found == nil:
			p.Create, p.contents[name] = append(p.Create, name), content
		case !bytes.Equal(found.content, content):
			p.Change, p.contents[name] = append(p.Change, name), content
		default:
			p.Unchanged++
		}
		if found.differsFrom(inCluster[key]) {
			p.ChangedInCluster = append(p.ChangedInCluster, name)
		}
	}
	p.NoLongerMatching = append(p.NoLongerMatching, f.generatedExcept(matching, namespace)...)
	return p, nil
}

// generatedExcept returns the paths of the generated files, in order, of all namespaces if namespace is empty.
func (f *Folder) generatedExcept(matching map[string]bool, namespace string) (others []string) {
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		if f.files[name].generated && !matching[name] && (namespace == "" || strings.HasPrefix(name, namespace+"/")) {
			others = append(others, name)
		}
	}
	return others
}

// otherRealm reports whether an ApiClient, which may be nil, is of another realm than the wanted one.
func otherRealm(wanted, c *v1beta1.ApiClient) bool {
	return c != nil && c.Spec.RealmRef.Name != wanted.Spec.RealmRef.Name
}

// differsFrom reports whether an intact file differs from its ApiClient in the cluster. Both may be nil.
func (f *file) differsFrom(applied *v1beta1.ApiClient) bool {
	return f != nil && f.intact && applied != nil && !equality.Semantic.DeepEqual(applied.Spec, f.clients[0].Spec)
}

// handwritten are the ApiClients that this package did not write.
type handwritten struct {
	named  map[client.ObjectKey]string // by their name; the value says where they are
	listed map[listed]string           // by a service account that they list
}

// listed is a service account that an ApiClient of a realm lists.
type listed struct {
	realm   string
	account client.ObjectKey
}

func (f *Folder) handwritten(existing []*v1beta1.ApiClient) *handwritten {
	h := &handwritten{named: map[client.ObjectKey]string{}, listed: map[listed]string{}}
	for _, c := range existing {
		if c.Labels[v1beta1.ManagedByLabel] != gitops.FieldOwnerPluginCreate {
			h.add(c, "the cluster")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		for _, c := range f.files[name].clients {
			if !f.files[name].intact {
				h.add(c, name)
			}
		}
	}
	return h
}

func (h *handwritten) add(c *v1beta1.ApiClient, place string) {
	key := client.ObjectKeyFromObject(c)
	h.named[key] = fmt.Sprintf("ApiClient %s is in %s", key, place)
	for _, account := range c.Spec.ServiceAccounts() {
		h.listed[listed{c.Spec.RealmRef.Name, client.ObjectKey{Namespace: c.Namespace, Name: account}}] = fmt.Sprintf("ApiClient %s in %s lists it", key, place)
	}
}

// sameClient says which ApiClient has the same name as c, or lists its service account. It is empty if none does.
func (h *handwritten) sameClient(c *v1beta1.ApiClient) string {
	key := client.ObjectKeyFromObject(c)
	return cmp.Or(h.named[key], h.listed[listed{c.Spec.RealmRef.Name, key}])
}
