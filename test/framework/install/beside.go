package install

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

const (
	// besideLabel is the label of the Realms of an installation that runs beside others. Its value is
	// the system namespace.
	besideLabel = "test.realmkeeper.dev/installation"
	realmsPath  = "/apis/auth.realmkeeper.dev/v1alpha1/realms"
	bindingPath = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/realmkeeper-instance"
)

// granting serializes the creation of cluster-scoped objects, which installations share.
var granting sync.Mutex

// Beside returns an installation without running processes that can run at the same time as others
// on the same control plane. It serves only a namespace of its own, which it returns, and Realms
// that were created with Create. The names of Realms must differ between installations. Its operator
// connects to the API server through a proxy that hides the other Realms, and believes that it has
// the cluster to itself.
func Beside(t testing.TB, cluster *env.Env, settings Settings) (i *Installation, team string) {
	t.Helper()
	team = cluster.Namespace(t)
	settings.WatchNamespaces = []string{team}
	i = in(t, cluster, cluster.Namespace(t), settings, true)
	granting.Lock()
	defer granting.Unlock()
	i.grantPermissions(t, settings)
	i.kubeconfig = i.KubeconfigFor(t, i.StartFaultProxy(t, Faults{}).URL)
	return i, team
}

// hideOthers restricts a request of an operator to its own installation. It reports whether it has
// sent the response.
func (i *Installation) hideOthers(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case !i.beside:
	case r.URL.Path == realmsPath:
		query := r.URL.Query()
		query.Set("labelSelector", besideLabel+"="+i.Namespace)
		r.URL.RawQuery = query.Encode()
	case r.URL.Path == bindingPath:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&rbacv1.ClusterRoleBinding{ // a closed connection fails the request
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: "realmkeeper-instance"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: i.Namespace + ":" + i.RecordsNamespace},
		})
		return true
	}
	return false
}

// label adds the label by which the operator finds a Realm.
func (i *Installation) label(obj client.Object) {
	if _, realm := obj.(*v1alpha1.Realm); !realm || !i.beside {
		return
	}
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[besideLabel] = i.Namespace
	obj.SetLabels(labels)
}
