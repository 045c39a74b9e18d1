//go:build e2e

package e2e_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

const release = "realmkeeper"

// image returns the name of the image with the given version.
func image(version string) string { return "realmkeeper:" + version }

// install installs the chart with the given version of Helm into a namespace that admits only
// restricted Pods. At the end of the test, it uninstalls the chart and deletes everything that is
// left.
func install(t *testing.T, helm, chart, version string, more ...string) {
	t.Helper()
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: systemNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	t.Cleanup(func() { removeAll(t) })
	t.Cleanup(func() {
		if t.Failed() {
			logState(t)
		}
	})
	run(t, tool(helm), installArgs("install", chart, version, more...)...)
	awaitTokenServers(t)
}

func installArgs(verb, chart, version string, more ...string) []string {
	return append([]string{
		verb, release, chart, "--namespace", systemNamespace, "--wait", "--timeout", "4m",
		"--values", filepath.Join("test", "e2e", "values.yaml"), "--set", "image.tag=" + version,
	}, more...)
}

// chart is the path of the chart in the repository.
var chart = filepath.Join("charts", "realmkeeper")

// awaitTokenServers waits until the token servers are running.
func awaitTokenServers(t *testing.T) {
	t.Helper()
	eventually(t, "the token service", func() error {
		return cluster.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: tokenService}, &corev1.Service{})
	})
	awaitRollout(t, tokenService)
}

const (
	tokenService = "realmkeeper-token-server"
	operator     = "realmkeeper-operator"
)

// removeAll restores the cluster to its state before Realmkeeper was installed.
func removeAll(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"helm", "uninstall", release, "--namespace", systemNamespace, "--ignore-not-found", "--wait"},
		{"kubectl", "delete", "crd", "--ignore-not-found", "realms.auth.realmkeeper.dev", "apiclients.auth.realmkeeper.dev"},
		{"kubectl", "delete", "namespace", "--ignore-not-found", systemNamespace, recordsNamespace},
	} {
		if _, err := try(ctx, tool(args[0]), args[1:]...); err != nil {
			t.Errorf("remove Realmkeeper: %v", err)
		}
	}
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
	install(t, "helm", chart, firstVersion)
	t.Log(run(t, tool("helm"), "test", release, "--namespace", systemNamespace, "--logs"))
	// The portal is reachable through its Service.
	signIn := kubectl(t, "get", "--raw", "/api/v1/namespaces/"+systemNamespace+"/services/realmkeeper-portal:http/proxy/sign-in")
	if want := "kubectl create token initial-admin --namespace " + systemNamespace; !strings.Contains(signIn, want) {
		t.Errorf("sign-in page is %s, want it to contain the kubectl command", signIn)
	}

	kubectl(t, "apply", "--kustomize", filepath.Join("config", "samples"))
	t.Cleanup(func() {
		_, _ = try(context.Background(), tool("kubectl"), "delete", "--ignore-not-found", "--kustomize", filepath.Join("config", "samples"))
	})
	sample := &v1alpha1.ApiClient{}
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
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: corev1.ServiceSpec{
			Selector: api.Labels,
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	create(t, public, service, api)
	kubectl(t, "wait", "--namespace", namespace, "pod/orders", "--for=condition=Ready", "--timeout=2m")
	return "http://orders." + namespace + ".svc.cluster.local"
}
