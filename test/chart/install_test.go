package chart_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// release is an installed chart.
type release struct {
	cluster   *env.Env
	namespace string
}

// installChart installs the chart. When the test ends, it deletes everything that the chart
// created.
func installChart(t *testing.T, h helm, values ...string) release {
	t.Helper()
	cluster := env.Start(t)
	r := release{cluster: cluster, namespace: restrictedNamespace(t, cluster)}
	t.Cleanup(func() {
		r.helm(t, h, "uninstall", releaseName, "--ignore-not-found")
		deleteCRDs(t, cluster)
	})
	r.helm(t, h, "install", slices.Concat([]string{releaseName, *chart}, values)...)
	cluster.Kubectl(t, "wait", "crd", "--selector=app.kubernetes.io/name=realmkeeper", "--for=condition=Established", "--timeout=60s")
	return r
}

// deleteCRDs deletes the CRDs of the project. It first lists their objects, because the API server prepares
// the storage of a CRD when its objects are first requested. If the deletion is the first request, it can
// take five minutes (https://github.com/operator-framework/operator-controller/issues/1437).
func deleteCRDs(t *testing.T, cluster *env.Env) {
	t.Helper()
	const selector = "--selector=app.kubernetes.io/name=realmkeeper"
	paths := cluster.Kubectl(t, "get", "crd", selector, "--output",
		`jsonpath={range .items[*]}/apis/{.spec.group}/{.spec.versions[0].name}/{.spec.names.plural}{"\n"}{end}`)
	for path := range strings.FieldsSeq(paths) {
		cluster.Kubectl(t, "get", "--raw", path)
	}
	cluster.Kubectl(t, "delete", "crd", selector)
}

func (r release) helm(t *testing.T, h helm, command string, args ...string) string {
	t.Helper()
	return h.run(t, r.cluster.Kubeconfig, slices.Concat([]string{command}, args, []string{"--namespace", r.namespace})...)
}

// recordsNamespace returns the default name of the records namespace.
func (r release) recordsNamespace() string { return r.namespace + "-records" }

func (r release) object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.namespace, Name: name}
}

func (r release) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}

// wantExists fails the test unless the same object still exists and isn't being deleted.
func (r release) wantExists(t *testing.T, obj client.Object) {
	t.Helper()
	uid := obj.GetUID()
	if err := r.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Errorf("Failed to get %T %s: %v", obj, obj.GetName(), err)
		return
	}
	if uid != "" && obj.GetUID() != uid {
		t.Errorf("%T %s has been replaced", obj, obj.GetName())
	}
	if obj.GetDeletionTimestamp() != nil {
		t.Errorf("%T %s is being deleted", obj, obj.GetName())
	}
}

var errExists = errors.New("object exists")

func (r release) wantDeleted(t *testing.T, obj client.Object) {
	t.Helper()
	install.Eventually(t, fmt.Sprintf("deletion of %T %s", obj, obj.GetName()), func() error {
		switch err := r.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errExists
	})
}

// TestSecondReleaseIsRejected checks that Helm rejects a second release and names the first one.
func TestSecondReleaseIsRejected(t *testing.T) {
	first := installChart(t, helm4, values["defaults"]...)
	other := first.cluster.Namespace(t)
	args := slices.Concat([]string{"install", "second", *chart, "--namespace", other}, values["defaults"])
	_, stderr, err := helm4.try(t, first.cluster.Kubeconfig, args...)
	if err == nil {
		t.Fatal("The second release was installed")
	}
	for _, want := range []string{
		"invalid ownership metadata",
		`annotation validation error: key "meta.helm.sh/release-name" must equal "second": current value is "` + releaseName + `"`,
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("Error does not contain %q:\n%s", want, stderr)
		}
	}

	// The same release with another records namespace would not find its records.
	args = slices.Concat([]string{"upgrade", releaseName, *chart, "--namespace", first.namespace, "--set", "recordsNamespace.name=" + other + "-records"}, values["defaults"])
	if _, stderr, err = helm4.try(t, first.cluster.Kubeconfig, args...); err == nil || !strings.Contains(stderr, "roleRef") {
		t.Errorf("Upgrade with another records namespace: got %v, want the instance binding to be rejected:\n%s", err, stderr)
	}
	// Helm has changed the Deployment, but its new Pods don't start. The old ones keep their permissions.
	for _, name := range []string{operator, tokenServer} {
		first.wantExists(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: first.recordsNamespace(), Name: name}})
	}
	first.helm(t, helm4, "rollback", releaseName)
}
