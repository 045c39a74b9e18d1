//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

const release = "realmkeeper"

// image returns the name of the image with the given version. TestRehearsal replaces it.
var image = func(version string) string { return "realmkeeper:" + version }

// reusable reports whether Realmkeeper is installed in a way that the next test can use. The tests that
// need a different installation are in the last files, so that the others share one.
var reusable bool

// useInstallation installs Realmkeeper, unless an earlier test has left a reusable installation. Most
// tests share one, because installing and removing it takes longer than most tests. The installation is
// ready, and it contains nothing that an earlier test created.
func useInstallation(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { finish(t) })
	if !reusable {
		start(t)
		reusable = true
	}
	awaitRollout(t, operator)
	awaitRollout(t, tokenService)
	awaitNoObjects(t)
}

// installPrevious installs the chart and the image of the previous release with the given version of
// Helm, for only this test.
func installPrevious(t *testing.T, helm string) {
	t.Helper()
	t.Cleanup(func() { finish(t) })
	removeReusable(t)
	createSystemNamespace(t)
	source := os.Getenv("E2E_PREVIOUS")
	run(t, tool(helm), installArgsWith(filepath.Join(source, valuesFile), "install", filepath.Join(source, chart), previousVersion)...)
	awaitTokenServers(t, previousVersion)
}

// removeReusable removes the installation that an earlier test has left.
func removeReusable(t *testing.T) {
	t.Helper()
	if !reusable {
		return
	}
	reusable = false
	if err := removeAll(); err != nil {
		t.Fatal(err)
	}
}

// start installs the chart into a namespace that admits only restricted Pods.
func start(t *testing.T) {
	t.Helper()
	createSystemNamespace(t)
	run(t, tool("helm"), installArgs("install", chart, currentVersion)...)
	awaitTokenServers(t, currentVersion)
}

func createSystemNamespace(t *testing.T) {
	t.Helper()
	err := cluster.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: systemNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// finish removes the installation at the end of a test, unless the next test can use it.
func finish(t *testing.T) {
	if t.Failed() {
		logState(t)
		reusable = false
	}
	if reusable {
		return
	}
	if err := removeAll(); err != nil {
		t.Error(err)
	}
}

func installArgs(verb, chart, version string, more ...string) []string {
	return installArgsWith(valuesFile, verb, chart, version, more...)
}

func installArgsWith(values, verb, chart, version string, more ...string) []string {
	return append([]string{
		verb, release, chart, "--namespace", systemNamespace, "--wait", "--timeout", "4m",
		"--values", values, "--set", "image.tag=" + version,
	}, more...)
}

// valuesFile is the path of the values in the repository.
var valuesFile = filepath.Join("test", "e2e", "values.yaml")

// chart is the path of the chart in the repository.
var chart = filepath.Join("charts", "realmkeeper")

// awaitTokenServers waits until the token servers are running the given version.
func awaitTokenServers(t *testing.T, version string) {
	t.Helper()
	eventually(t, "the token service", func() error {
		return cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: tokenService}, &corev1.Service{})
	})
	awaitImage(t, version)
}

const (
	tokenService = "realmkeeper-token-server"
	operator     = "realmkeeper-operator"
)

// removeAll restores the cluster to its state before Realmkeeper was installed. It doesn't wait for
// token servers that drain: TestUpgradeRollbackReinstall tests a graceful uninstallation. Pods are
// deleted first, because the deletion of a namespace waits for half their grace period.
func removeAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	for _, args := range [][]string{
		{"helm", "uninstall", release, "--namespace", systemNamespace, "--ignore-not-found"},
		{"kubectl", "delete", "deployments,replicasets", "--namespace", systemNamespace, "--all"},
		{"kubectl", "delete", "pods", "--namespace", systemNamespace, "--all", "--force"},
		{"kubectl", "delete", "crd", "--ignore-not-found", "realms.auth.realmkeeper.dev", "apiclients.auth.realmkeeper.dev", "instances.auth.realmkeeper.dev"},
		{"kubectl", "delete", "namespace", "--ignore-not-found", systemNamespace, recordsNamespace},
	} {
		if _, err := try(ctx, tool(args[0]), args[1:]...); err != nil {
			errs = append(errs, fmt.Errorf("remove Realmkeeper: %w", err))
		}
	}
	return errors.Join(errs...)
}

// logState logs the state of the cluster to help debug a failed test.
func logState(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "all,realms,apiclients", "--all-namespaces", "--output", "wide"},
		{"get", "events", "--namespace", systemNamespace, "--sort-by", "lastTimestamp"},
		{"logs", "--namespace", systemNamespace, "deployment/" + operator, "--tail", "50", "--all-pods"},
		{"logs", "--namespace", systemNamespace, "deployment/" + tokenService, "--tail", "30", "--all-pods"},
	} {
		out, err := try(ctx, tool("kubectl"), args...)
		t.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}

// TestPodGetsTokenAndCallsAPI installs Realmkeeper and applies the sample. A Pod in a different
// namespace uses the mounted Secret to get a token and calls an API that requires it.
func TestPodGetsTokenAndCallsAPI(t *testing.T) {
	useInstallation(t)
	t.Log(run(t, tool("helm"), "test", release, "--namespace", systemNamespace, "--logs"))
	// The portal is reachable through its Service.
	signIn := kubectl(t, "get", "--raw", "/api/v1/namespaces/"+systemNamespace+"/services/realmkeeper-portal:http/proxy/sign-in")
	if want := "kubectl create token initial-admin --namespace " + systemNamespace; !strings.Contains(signIn, want) {
		t.Errorf("sign-in page is %s, want it to contain the kubectl command", signIn)
	}

	kubectl(t, "wait", "namespace/acme-apps", "--for=delete", "--timeout=1m") // of an earlier run of this test
	kubectl(t, "apply", "--kustomize", filepath.Join("config", "samples"))
	t.Cleanup(func() {
		// The API server denies the deletion of the Realm as long as its status counts the client.
		_, _ = try(context.Background(), tool("kubectl"), "annotate", "realm", "acme", v1beta1.AllowDeletionAnnotation+"=acme")
		_, _ = try(context.Background(), tool("kubectl"), "delete", "--ignore-not-found", "--wait=false", "--kustomize", filepath.Join("config", "samples"))
	})
	sample := &v1beta1.ApiClient{}
	get(t, "acme-apps", "billing", sample)
	awaitReady(t, sample)

	secret := &corev1.Secret{}
	get(t, sample.Namespace, sample.Status.SecretName, secret)
	apis := namespace(t, "apis")
	address := serveOrders(t, apis, secret, "--audience", "https://orders.acme.example")
	caller := pod(sample.Namespace, "caller", secret.Name, "call", "--url", address+"/orders")
	create(t, caller)
	printed := succeeds(t, caller)
	if !strings.Contains(printed, "401 Unauthorized") || !strings.Contains(printed, `200 OK {"client":"`+sample.Status.ClientID+`"}`) {
		t.Errorf("the pod printed %s", printed)
	}
}

// serveOrders runs an API that verifies tokens with the public keys of the client's realm, and
// returns the API's address in the cluster. The API doesn't have the client's credentials.
func serveOrders(t *testing.T, namespace string, client *corev1.Secret, more ...string) string {
	t.Helper()
	data := func(key string) string { return string(client.Data[key]) }
	public := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "realm"},
		StringData: map[string]string{"ca.crt": data("ca.crt")},
	}
	jwks := strings.TrimSuffix(data("cluster_token_url"), "/token") + "/jwks"
	api := pod(namespace, "orders", public.Name,
		append([]string{"api", "--issuer", data("issuer"), "--jwks-url", jwks, "--ca-file", "/credentials/ca.crt"}, more...)...)
	create(t, public)
	return "http://" + serve(t, api)
}

// serve runs an API at port 8080 of a Pod, and returns the host name of its Service.
func serve(t *testing.T, api *corev1.Pod) string {
	t.Helper()
	create(t, api, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: api.Name},
		Spec: corev1.ServiceSpec{
			Selector: api.Labels,
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	})
	kubectl(t, "wait", "--namespace", api.Namespace, "pod/"+api.Name, "--for=condition=Ready", "--timeout=2m")
	return api.Name + "." + api.Namespace + ".svc.cluster.local"
}
