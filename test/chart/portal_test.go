package chart_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const portal = "realmkeeper-portal"

// TestPortal checks that the portal has only the permissions that every account has. The initial admin has the
// permissions of the role. It is created with the portal, is kept by upgrades, and is not recreated after an
// administrator deleted it. Upgrades also keep the session key.
func TestPortal(t *testing.T) {
	r := installChart(t, helm4, values["defaults"]...)
	account := &corev1.ServiceAccount{ObjectMeta: r.object("initial-admin")}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "realmkeeper-initial-admin"}}
	r.wantDeleted(t, account)

	upgrade := func() {
		t.Helper()
		r.helm(t, helm4, "upgrade", slices.Concat([]string{releaseName, *chart}, values["defaults"], []string{"--set", "portal.enabled=true"})...)
	}
	upgrade() // Enables the portal after the installation.
	r.wantExists(t, account)
	r.wantExists(t, binding)
	elsewhere := r.cluster.Namespace(t)
	for _, namespace := range []string{r.namespace, elsewhere} {
		if got := permissionsIn(t, r.cluster, namespace, serviceAccount(r.namespace, portal)); len(got) > 0 {
			t.Errorf("Permissions of the portal in namespace %s: got\n%swant none", namespace, got)
		}
	}
	user := holder(t, r.cluster, "manage-api-credentials")
	// Role bindings take effect with a delay.
	install.Eventually(t, "the initial admin to have the permissions of the role", func() error {
		want := permissionsIn(t, r.cluster, elsewhere, user)
		got := permissionsIn(t, r.cluster, elsewhere, serviceAccount(r.namespace, "initial-admin"))
		if len(want) == 0 || got.String() != want.String() {
			return fmt.Errorf("it has\n%swant those of the role:\n%s", got, want)
		}
		return nil
	})
	key := r.sessionKey(t)
	upgrade()
	r.wantExists(t, account)
	r.wantExists(t, binding)
	if got := r.sessionKey(t); !bytes.Equal(got, key) {
		t.Error("An upgrade changed the session key")
	}

	for _, obj := range []client.Object{account, binding} {
		if err := r.cluster.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	upgrade()
	r.wantDeleted(t, account)
	r.wantDeleted(t, binding)
}

// sessionKey returns the session key of the portal and checks its length.
func (r release) sessionKey(t *testing.T) []byte {
	t.Helper()
	secret := &corev1.Secret{}
	if err := r.cluster.Client.Get(t.Context(), r.key("realmkeeper-portal-session"), secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data["key"]) < 32 {
		t.Fatalf("Session key: got %d bytes, want at least 32", len(secret.Data["key"]))
	}
	return secret.Data["key"]
}
