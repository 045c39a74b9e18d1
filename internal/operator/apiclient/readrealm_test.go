package apiclient

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/namespaces"
)

// held contains what a cache or the API server holds: a Realm, and the labels of namespaces.
type held struct {
	client.Client

	realm      *v1beta1.Realm
	namespaces map[string]map[string]string
}

func (h held) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *v1beta1.Realm:
		if h.realm != nil {
			*into = *h.realm
			return nil
		}
	case *corev1.Namespace:
		if labels, exists := h.namespaces[key.Name]; exists {
			into.Labels = labels
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// heldCache is a cache with the content of held.
type heldCache struct {
	cache.Cache

	held held
}

func (c heldCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.held.Get(ctx, key, into, options...)
}

// A client can be in the cache before its namespace. Its grant must not depend on which is first.
func TestNamespaceMissingInCache(t *testing.T) {
	restricted := map[string]string{"restricted": "true"}
	open := map[string]string{corev1.LabelMetadataName: "team"}
	for name, test := range map[string]struct {
		cached, live map[string]map[string]string
		want         v1beta1.ConditionReason
	}{
		"in the cache":                     {map[string]map[string]string{"team": open}, nil, v1beta1.ReasonAccepted},
		"in the cache, excluded":           {map[string]map[string]string{"team": restricted}, nil, v1beta1.ReasonNamespaceNotAllowed},
		"only in the API server":           {nil, map[string]map[string]string{"team": open}, v1beta1.ReasonAccepted},
		"only in the API server, excluded": {nil, map[string]map[string]string{"team": restricted}, v1beta1.ReasonNamespaceNotAllowed},
		"unknown":                          {nil, nil, v1beta1.ReasonNamespaceNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observe(func(s *observed) {
				s.realm.Spec.Grants[0].Namespaces = v1beta1.GrantedNamespaces{Selector: &v1beta1.NamespaceSelector{
					MatchExpressions: []v1beta1.NamespaceSelectorRequirement{{Key: "restricted", Operator: metav1.LabelSelectorOpDoesNotExist}},
				}}
			})
			cached, live := held{realm: seen.realm, namespaces: test.cached}, held{realm: seen.realm, namespaces: test.live}
			r := Reconciler{Client: cached, Live: live, Namespaces: namespaces.New(heldCache{held: cached}, live, nil, time.Minute)}
			seen.live = false
			testkit.Do(t, r.readRealm(t.Context(), &seen))
			if got := accepted(&seen); got.Reason != test.want {
				t.Errorf("%s: %s; want %s", got.Reason, got.Message, test.want)
			}
		})
	}
}

// A client that acquires a subject while its Realm is deleted is decided on again, from the API server.
func TestRealmMissingInAPIServer(t *testing.T) {
	for name, live := range map[string]*v1beta1.Realm{
		"deleted":   nil,
		"recreated": {ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "r2"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen, source := reconciled(t, observe()), held{realm: live}
			r := Reconciler{Live: source, Namespaces: namespaces.New(heldCache{held: source}, source, nil, time.Minute)}
			if err := r.readLiveRealm(t.Context(), &seen); !errors.Is(err, errInconclusive) {
				t.Errorf("readLiveRealm = %v, want %v", err, errInconclusive)
			}
		})
	}
}

// The API server must not be asked for a namespace that can't exist, because its response isn't
// always that it wasn't found.
func TestResembledNamespace(t *testing.T) {
	for id, want := range map[string]string{
		"":            "",
		"billing":     "",
		"team.a":      "", // its own
		"other.a":     "other",
		"other.a.b":   "other",
		"a/b.c":       "",
		"../realms.c": "",
		".c":          "",
		"Other.c":     "",
		"a?b.c":       "",
	} {
		c := &v1beta1.ApiClient{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "billing"},
			Spec:       v1beta1.ApiClientSpec{ClientID: id},
		}
		if got := resembledNamespace(c); got != want {
			t.Errorf("resembledNamespace(%q) = %q, want %q", id, got, want)
		}
	}
}
