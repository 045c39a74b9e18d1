package operator

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/informers"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// The mapping contains every kind in the cache, and its list kind.
func TestMapper(t *testing.T) {
	mapper := testkit.Value(newMapper(nil, nil))(t)
	scheme := testkit.Value(Scheme())(t)
	clusterScoped := map[string]bool{"realms": true, "namespaces": true}
	for object := range cacheOptions(&config.Instance{}, nil, informers.New(t.Context())).ByObject {
		kind := testkit.Value(apiutil.GVKForObject(object, scheme))(t)
		for _, name := range []string{kind.Kind, kind.Kind + "List"} {
			mapping, err := mapper.RESTMapping(kind.GroupVersion().WithKind(name).GroupKind(), kind.Version)
			if err != nil {
				t.Error(err)
				continue
			}
			if root := mapping.Scope.Name() == meta.RESTScopeNameRoot; root != clusterScoped[mapping.Resource.Resource] {
				t.Errorf("%s is cluster-scoped: %t", mapping.Resource, root)
			}
		}
	}
}
