package chart_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
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
		cluster.Kubectl(t, "delete", "crd", "--selector=app.kubernetes.io/name=realmkeeper")
	})
	r.helm(t, h, "install", slices.Concat([]string{releaseName, *chart}, values)...)
	cluster.Kubectl(t, "wait", "crd", "--selector=app.kubernetes.io/name=realmkeeper", "--for=condition=Established", "--timeout=60s")
	return r
}

func (r release) helm(t *testing.T, h helm, command string, args ...string) string {
	t.Helper()
	return h.run(t, r.cluster.Kubeconfig, slices.Concat([]string{command}, args, []string{"--namespace", r.namespace})...)
}

// TestInstall installs the chart with Helm 3 and continues with Helm 4, because users also switch
// between major versions.
func TestInstall(t *testing.T) {
	r := installChart(t, helm3, values["defaults"]...)
	kept := r.populate(t)
	service := r.tokenService(t)

	r.helm(t, helm4, "upgrade", slices.Concat([]string{releaseName, *chart}, values["production"])...)
	for _, obj := range kept {
		r.wantExists(t, obj)
	}
	r.wantExists(t, service)
	operator := &appsv1.Deployment{}
	if err := r.cluster.Client.Get(t.Context(), r.key("realmkeeper-operator"), operator); err != nil {
		t.Fatal(err)
	}
	if *operator.Spec.Replicas != 2 {
		t.Errorf("Operators after the upgrade: got %d, want 2", *operator.Spec.Replicas)
	}

	r.helm(t, helm4, "uninstall", releaseName)
	r.wantDeleted(t, operator)
	r.wantDeleted(t, service)
	for _, obj := range kept {
		r.wantExists(t, obj)
	}

	// A new installation adopts the kept CRDs and the kept records namespace.
	r.helm(t, helm4, "install", slices.Concat([]string{releaseName, *chart}, values["testing"])...)
	for _, obj := range kept {
		r.wantExists(t, obj)
	}
	r.wantExists(t, &appsv1.Deployment{ObjectMeta: r.object("realmkeeper-operator")})
}

// populate creates and returns the objects that must never be lost: the users' objects and the
// operator's Secrets.
func (r release) populate(t *testing.T) []client.Object {
	t.Helper()
	record := r.object("realm-01234567")
	record.Namespace = r.recordsNamespace()
	record.Labels = map[string]string{v1alpha1.RecordLabel: v1alpha1.RecordRealm, v1alpha1.ManagedByLabel: v1alpha1.ManagedBy}
	kept := []client.Object{
		install.Realm("acme"),
		install.ApiClient(r.namespace, "billing", "acme"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.recordsNamespace()}},
		&corev1.Secret{ObjectMeta: record},
		&corev1.Secret{ObjectMeta: r.object("realmkeeper-ca")},
		&corev1.Secret{ObjectMeta: r.object("billing")},
	}
	for _, obj := range kept {
		// The chart has created the records namespace.
		err := r.cluster.Client.Create(t.Context(), obj)
		if apierrors.IsAlreadyExists(err) {
			err = r.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return kept
}

// tokenService creates an object of the token service. It is owned by the operator's service
// account.
func (r release) tokenService(t *testing.T) client.Object {
	t.Helper()
	account := &corev1.ServiceAccount{}
	if err := r.cluster.Client.Get(t.Context(), r.key("realmkeeper-operator"), account); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: r.object("realmkeeper-token-server"),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	service.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}}
	if err := r.cluster.Client.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	return service
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
	if _, stderr, err = helm4.try(t, first.cluster.Kubeconfig, args...); err == nil || !strings.Contains(stderr, "cannot change roleRef") {
		t.Errorf("Upgrade with another records namespace: got %v, want the instance binding to be rejected:\n%s", err, stderr)
	}
	// Helm has changed the Deployment, but its new Pods don't start. The old ones keep their permissions.
	for _, name := range []string{operator, tokenServer} {
		first.wantExists(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: first.recordsNamespace(), Name: name}})
	}
	first.helm(t, helm4, "rollback", releaseName)
}

// TestHelmTest runs "helm test". There is no node to run the Pod, so the test sets its phase.
func TestHelmTest(t *testing.T) {
	r := installChart(t, helm3, values["defaults"]...)
	done := make(chan error, 1)
	go func() {
		_, stderr, err := helm3.try(t, r.cluster.Kubeconfig, "test", releaseName, "--namespace", r.namespace)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, stderr)
		}
		done <- err
	}()
	pod := &corev1.Pod{ObjectMeta: r.object("realmkeeper-helm-test")}
	install.Eventually(t, "Pod of helm test", func() error {
		return r.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	})
	r.wantExists(t, install.Realm("realmkeeper-helm-test"))
	r.wantExists(t, install.ApiClient(r.namespace, "realmkeeper-helm-test", ""))
	pod.Status.Phase = corev1.PodSucceeded
	if err := r.cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{pod, install.Realm("realmkeeper-helm-test"), install.ApiClient(r.namespace, "realmkeeper-helm-test", "")} {
		r.wantDeleted(t, obj)
	}
}
