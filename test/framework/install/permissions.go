package install

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

const (
	// shippedNamespace is the system namespace in the manifests under config. The name of the records
	// namespace starts with it.
	shippedNamespace = "realmkeeper-system"
	operatorAccount  = "realmkeeper-operator"
	// Roles of the operator that depend on the settings.
	credentialsRole = "realmkeeper-operator-credentials"
	namespacesRole  = "realmkeeper-operator-namespaces"
	trustBundleRole = "realmkeeper-operator-trust-bundle"
)

// grantPermissions creates the records namespace and applies the RBAC manifests and admission policies
// that are shipped to users, adapted to the installation's namespaces. Tests therefore fail if a
// permission is missing.
func (i *Installation) grantPermissions(t testing.TB, settings Settings) {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	i.applyFile(t, filepath.Join(root, "config", "manager", "records_namespace.yaml"))
	for _, binding := range i.readFile(t, filepath.Join(root, "config", "rbac", "served_namespaces_role_binding.yaml")) {
		i.bindServed(t, settings, binding)
	}
	for _, file := range []string{
		"instance.yaml", "service_account.yaml", "role.yaml", "role_binding.yaml", "leader_election_role.yaml", "leader_election_role_binding.yaml",
		"token_server.yaml", "aggregated_roles.yaml",
	} {
		i.applyFile(t, filepath.Join(root, "config", "rbac", file))
	}
	if settings.ClusterTrustBundle {
		i.bindTrustBundle(t, filepath.Join(root, "config", "rbac"))
	}
	policies := []string{"operator_secrets_policy.yaml", "operator_token_service_policy.yaml", "token_server_policy.yaml"}
	if settings.ProtectRealms {
		policies = append(policies, "realm_protection_policy.yaml")
	}
	for _, file := range policies {
		i.applyFile(t, filepath.Join(root, "config", "admission", file))
	}
}

// unprotectRealms allows the deletion of all Realms, and removes the policy that denies it.
func (i *Installation) unprotectRealms(ctx context.Context, t testing.TB) {
	meta := metav1.ObjectMeta{Name: "realmkeeper-realm-protection." + i.Namespace}
	for _, obj := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta}, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta},
	} {
		if err := i.Env.Client.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			t.Errorf("Failed to delete the policy that protects Realms: %v", err)
		}
	}
	realms := &v1beta1.RealmList{}
	if err := i.Env.Client.List(ctx, realms); client.IgnoreNotFound(err) != nil {
		t.Errorf("Failed to list Realms: %v", err)
	}
	for k := range realms.Items {
		realm := &realms.Items[k]
		before := realm.DeepCopy()
		realm.Annotations = map[string]string{v1beta1.AllowDeletionAnnotation: realm.Name}
		if err := i.Env.Client.Patch(ctx, realm, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			t.Errorf("Failed to allow the deletion of Realm %s: %v", realm.Name, err)
		}
	}
}

// releaseCluster lets another installation use the cluster.
func (i *Installation) releaseCluster(ctx context.Context, t testing.TB) {
	binding := &rbacv1.ClusterRoleBinding{}
	err := i.Env.Client.Get(ctx, client.ObjectKey{Name: "realmkeeper-instance"}, binding)
	if err == nil && strings.HasPrefix(binding.RoleRef.Name, i.Namespace+":") {
		err = i.Env.Client.Delete(ctx, binding)
	}
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("Failed to release the cluster: %v", err)
	}
}

// bindServed applies a ClusterRoleBinding of the operator, reduced to the settings as
// docs/operations/permissions.md describes it for kustomize.
func (i *Installation) bindServed(t testing.TB, settings Settings, binding *unstructured.Unstructured) {
	t.Helper()
	namespaces := settings.WatchNamespaces
	switch {
	case strings.HasPrefix(binding.GetName(), credentialsRole) && settings.NoCredentialsSecrets:
	case len(namespaces) == 0:
		i.apply(t, binding)
	case strings.HasPrefix(binding.GetName(), namespacesRole):
		name := namespacesRole + "-" + i.Namespace
		names := make([]any, 0, len(namespaces))
		for _, namespace := range namespaces {
			names = append(names, namespace)
		}
		rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"namespaces"}, "resourceNames": names, "verbs": []any{"get"}}
		i.apply(t, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": []any{rule},
		}})
		binding.SetName(name)
		binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
		i.apply(t, binding)
	default:
		binding.SetKind("RoleBinding")
		for _, namespace := range namespaces {
			binding.SetNamespace(namespace)
			i.apply(t, binding)
		}
	}
}

// bindTrustBundle grants the permissions for the ClusterTrustBundle of this installation. Others in the
// cluster have roles of their own.
func (i *Installation) bindTrustBundle(t testing.TB, folder string) {
	t.Helper()
	name := trustBundleRole + "-" + i.Namespace
	for _, role := range i.readFile(t, filepath.Join(folder, "role.yaml")) {
		if role.GetName() == trustBundleRole {
			role.SetName(name)
			i.apply(t, role)
		}
	}
	for _, binding := range i.readFile(t, filepath.Join(folder, "trust_bundle_role_binding.yaml")) {
		binding.SetName(name)
		binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
		i.apply(t, binding)
	}
}

// applyFile applies a manifest, adapted to the installation's namespaces.
func (i *Installation) applyFile(t testing.TB, path string) {
	t.Helper()
	for _, obj := range i.readFile(t, path) {
		i.apply(t, obj)
	}
}

func (i *Installation) apply(t testing.TB, obj *unstructured.Unstructured) {
	t.Helper()
	err := i.Env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("install"), client.ForceOwnership)
	if err != nil {
		t.Fatalf("Failed to apply %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
}

// readFile returns the objects in a manifest, adapted to the installation's namespaces.
func (i *Installation) readFile(t testing.TB, path string) (objects []*unstructured.Unstructured) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Objects(t, bytes.ReplaceAll(content, []byte(shippedNamespace), []byte(i.Namespace)))
}

// Objects returns the objects in a manifest.
func Objects(t testing.TB, manifest []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		obj := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(document, &obj.Object)
		}
		if err != nil {
			t.Fatalf("Failed to read a manifest: %v", err)
		}
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
}

// kubeconfigAs writes a kubeconfig that impersonates a service account in the system namespace, as if
// its token were bound to the Pod with the given name, if any. It is a copy of the kubeconfig at like
// or, if that is empty, of the environment's.
func (i *Installation) kubeconfigAs(t testing.TB, account, pod, like string) string {
	t.Helper()
	if like == "" {
		like = i.Env.Kubeconfig
	}
	kubeconfig, err := clientcmd.LoadFromFile(like)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + i.Namespace + ":" + account
		if pod != "" {
			user.ImpersonateUserExtra = map[string][]string{serviceaccount.PodNameKey: {pod}}
		}
	}
	path := filepath.Join(i.dir, account+"-"+pod+"-"+filepath.Base(filepath.Dir(like))+".kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// tokenServerAccount is the service account of the token servers.
const tokenServerAccount = config.TokenServiceName
