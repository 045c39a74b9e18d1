package chart_test

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const portal = "realmkeeper-portal"

// The portal has no right that not everybody has, and the initial admin has the role.
func TestPortalHasNoRights(t *testing.T) {
	r := install(t, helm4, slices.Concat(values["defaults"], []string{"--set", "portal.enabled=true"})...)
	elsewhere := r.env.Namespace(t)
	for _, namespace := range []string{r.namespace, elsewhere} {
		if got := rightsIn(t, r.env, namespace, serviceAccount(r.namespace, portal)); len(got) > 0 {
			t.Errorf("In %s the portal may:\n%s", namespace, got)
		}
	}
	want := rightsIn(t, r.env, elsewhere, holder(t, r.env, "manage-api-credentials"))
	if got := rightsIn(t, r.env, elsewhere, serviceAccount(r.namespace, "initial-admin")); got.String() != want.String() {
		t.Errorf("The initial admin may:\n%swant what the role gives:\n%s", got, want)
	}
}

// The initial admin is made with the portal, stays through upgrades, and isn't made again when
// somebody has removed it. The key of the sessions stays too.
func TestInitialAdminIsMadeOnce(t *testing.T) {
	for name, h := range map[string]helm{"Helm 3": helm3, "Helm 4": helm4} {
		t.Run(name, func(t *testing.T) {
			r := install(t, h, values["defaults"]...)
			account := &corev1.ServiceAccount{ObjectMeta: r.object("initial-admin")}
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "realmkeeper-initial-admin"}}
			r.wantGone(t, account)

			upgrade := func() {
				t.Helper()
				r.helm(t, h, "upgrade", slices.Concat([]string{releaseName, chart}, values["defaults"], []string{"--set", "portal.enabled=true"})...)
			}
			upgrade() // the portal comes later than the release
			r.wantThere(t, account)
			r.wantThere(t, binding)
			key := r.sessionKey(t)
			upgrade()
			r.wantThere(t, account)
			r.wantThere(t, binding)
			if got := r.sessionKey(t); !bytes.Equal(got, key) {
				t.Error("An upgrade has changed the key of the sessions")
			}

			for _, obj := range []client.Object{account, binding} {
				if err := r.env.Client.Delete(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			upgrade()
			r.wantGone(t, account)
			r.wantGone(t, binding)
		})
	}
}

// sessionKey returns the key of the portal's sessions, which has to be long enough.
func (r release) sessionKey(t *testing.T) []byte {
	t.Helper()
	secret := &corev1.Secret{}
	if err := r.env.Client.Get(t.Context(), r.key("realmkeeper-portal-session"), secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data["key"]) < 32 {
		t.Fatalf("The key of the sessions has %d bytes", len(secret.Data["key"]))
	}
	return secret.Data["key"]
}
