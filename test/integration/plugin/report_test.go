package plugin_test

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/leak"
	"github.com/realmkeeper/realmkeeper/test/framework/plugin"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// canaries are secrets by the place where they are.
type canaries struct {
	t  *testing.T
	in map[string]string
}

// word returns a secret that only a user could recognize. Its last part is searched for, because it remains if the
// secret is cut at a special character.
func (c canaries) word(place string) string {
	return `correct "horse" & battery\staple? ` + c.short(place)
}

// short is like word for places that allow only few characters.
func (c canaries) short(place string) string {
	c.in[place] = rand.Text()
	return c.in[place]
}

// known returns a secret in the format of generated secrets.
func (c canaries) known(place string) string {
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	c.in[place] = secret
	return secret
}

func (c canaries) find(t *testing.T, files leak.Places) {
	t.Helper()
	for place, secret := range c.in {
		if found := files.Containing([]string{secret}); len(found) > 0 {
			t.Errorf("The secret in %s is in %s", place, strings.Join(found, ", "))
		}
	}
}

// A support bundle contains what helps, and no secret from any place where one can be.
func TestReportContainsNoSecrets(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	c, namespace := canaries{t, map[string]string{}}, cluster.Namespace(t)
	plantInClients(t, inst, c, namespace)
	inst.AwaitTokenServers(t)
	inst.StopOperator(t) // so that it doesn't repair what follows
	plantInWorkloads(t, inst, c)
	createEvents(t, inst, c)

	user := plugin.NewUser(cluster)
	user.Kubeconfig = inst.KubeconfigFor(t, withKubelet(t, cluster, c))
	path := filepath.Join(t.TempDir(), "report.zip")
	got := user.Run(t.Context(), "report", "--file", path, "--logs-limit", "5Ei")
	if got.Code != 0 || got.Stderr != "" || got.Stdout != "Wrote "+path+". Read README.txt in it before you send it.\n" {
		t.Fatalf("report: %+v", got)
	}
	files := readBundle(t, path)
	c.find(t, files)
	for file := range files {
		if strings.Contains(file, "kms-plugin") {
			t.Errorf("The bundle contains the log of another container: %s", file)
		}
	}
	for file, words := range map[string][]string{
		"README.txt":                   {"objects/apiclients.yaml: 3 objects", "READ IT BEFORE YOU SEND IT", "NOT READ\n- nothing"},
		"versions.yaml":                {"plugin: ", "kubernetes: v1.", "operator: ", "token-server-0: "},
		"status.txt":                   {"INSTANCE", "REALMS"},
		"objects/instances.yaml":       {"systemNamespace: " + inst.Namespace},
		"objects/realms.yaml":          {"issuer: https://issuer.example.com", "https://keys.example.com/jwks?[redacted]", "name: tenant", "type: Ready"},
		"objects/apiclients.yaml":      {"id: mine", "hash: '[redacted]'", "name: tenant", "kubectl.kubernetes.io/last-applied-configuration: '[redacted]'"},
		"objects/deployments.yaml":     {"name: realmkeeper-operator", "--config=/etc/realmkeeper/config.yaml", "name: PASSWORD", "key: password", "value: \"25\""},
		"objects/replicasets.yaml":     {"name: realmkeeper-operator-5d9c7"},
		"objects/pods.yaml":            {"name: realmkeeper-operator-5d9c7-8x2kq", "restartCount: 3", "exitCode: 1", "message: '[redacted]'"},
		"objects/services.yaml":        {"name: realmkeeper-token-server"},
		"objects/configmaps.yaml":      {"instanceDomain: example.com", "podAnnotations: '[redacted]'"},
		"objects/networkpolicies.yaml": {"name: realmkeeper-token-server"},
		"objects/leases.yaml":          {"holderIdentity: ", "auth.realmkeeper.dev/loaded"},
		"objects/nodes.yaml":           {"kubeletVersion: v1.99.0"},
		"objects/events.yaml":          {"message: Event 0 failed", "message: Event 1 failed", "reason: Unhealthy"},
		"secrets.yaml":                 {"name: report", "type: Opaque", "data: 8", "auth.realmkeeper.dev/owner: acme"},
		"logs/realmkeeper-operator-5d9c7-8x2kq/operator.log":          {"The first line", "The last line"},
		"logs/realmkeeper-operator-5d9c7-8x2kq/operator.previous.log": {"The first line"},
		"metrics/realmkeeper-operator-5d9c7-8x2kq.txt":                {"requests_total 7"},
	} {
		for _, word := range words {
			if !strings.Contains(files[file], word) {
				t.Errorf("%s does not contain %q:\n%.6000s", file, word, files[file])
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("The bundle has mode %v, %v", info.Mode(), err)
	}
	user.Fails(t, "the file exists", "report", "--file", path)
	if other := user.Run(t.Context(), "report", "--file", "-"); other.Code != 0 || !strings.HasPrefix(other.Stdout, "PK") {
		t.Errorf("report to standard output: %d, %.100q, %s", other.Code, other.Stdout, other.Stderr)
	}
	// The newest lines are kept.
	path = filepath.Join(t.TempDir(), "short.zip")
	user.Succeeds(t, "report", "--file", path, "--logs-limit", "100")
	if log := readBundle(t, path)["logs/realmkeeper-operator-5d9c7-8x2kq/operator.log"]; !strings.HasSuffix(log, "The last line\n") || len(log) > 100 {
		t.Errorf("The log has %d bytes: %s", len(log), log)
	}
	path = filepath.Join(t.TempDir(), "none.zip")
	user.Succeeds(t, "report", "--file", path, "--logs-since", "0")
	if _, ok := readBundle(t, path)["logs/realmkeeper-operator-5d9c7-8x2kq/operator.log"]; ok {
		t.Error("A report without logs contains one")
	}
}

// plantInClients creates clients and a Realm with secrets in all their fields that users choose.
func plantInClients(t *testing.T, inst *install.Installation, c canaries, namespace string) {
	t.Helper()
	realm := install.Realm("acme", func(r *v1beta1.Realm) {
		r.Annotations = map[string]string{"password": c.word("an annotation of a Realm")}
		r.Spec.DisplayName, r.Spec.AllowedClaims = c.word("a display name"), []v1beta1.ClaimName{"plan"}
		r.Spec.Claims = v1beta1.Claims{{Name: "tenant", String: c.word("a claim of a Realm")}}
		r.Spec.TrustedIssuers = []v1beta1.TrustedIssuer{{
			Name: "ci", Issuer: "https://issuer.example.com", Keys: v1beta1.IssuerKeys{JWKSURI: "https://keys.example.com/jwks?a=" + c.short("the URL of an issuer's keys")},
			RequiredClaims: v1beta1.RequiredClaims{{Name: "tenant", Value: c.word("a required claim")}},
		}}
	})
	inst.Create(t, realm)
	generated := install.ApiClient(namespace, "report", "acme", func(a *v1beta1.ApiClient) {
		applied, err := json.Marshal(map[string]string{"spec": c.word("the last applied configuration")})
		if err != nil {
			t.Fatal(err)
		}
		a.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(applied)}
		a.Labels = map[string]string{"password": c.short("a label")}
		a.Spec.Description = c.word("a description")
		a.Spec.Claims = v1beta1.Claims{{Name: "plan", Strings: []string{c.word("a claim")}}}
		a.Spec.Identities = []v1beta1.Identity{{Name: "ci", Issuer: "ci", MatchClaims: v1beta1.ClaimMatches{{Name: "tenant", Value: c.word("a matched claim")}}}}
		a.Spec.Secret = install.GeneratedSecret()
		a.Spec.Secret.Generated.Template.Annotations = map[string]v1beta1.AnnotationValue{"password": v1beta1.AnnotationValue(c.word("an annotation of a template"))}
	})
	secret := scenario.ProvidedSecret(namespace, c.known("a provided Secret"))
	secret.Labels = map[string]string{v1beta1.ClientSecretLabel: v1beta1.ClientSecretProvided}
	secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: c.word("an annotation of a Secret")}
	hash, err := clientsecret.Hash(c.known("a hashed secret"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.in["a hash"] = hash.String()
	inst.Create(t, secret, generated, install.ApiClient(namespace, "provided", "acme", scenario.UseProvidedSecret), install.ApiClient(namespace, "hashed", "acme", func(a *v1beta1.ApiClient) {
		a.Spec.Secret = &v1beta1.ClientSecretSource{Hashed: []v1beta1.HashedSecret{{ID: "mine", Hash: hash.String()}}}
	}))
	c.in["a credentials Secret"] = scenario.ClientSecret(inst.CredentialsSecret(t, generated))

	stored := &corev1.Secret{}
	install.Eventually(t, "the record of the realm", func() error {
		return inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: inst.RecordsNamespace, Name: record.RealmRecordName(realm.UID)}, stored)
	})
	var content struct {
		Body struct {
			Keys []struct{ JWK struct{ D string } }
		}
	}
	if err := json.Unmarshal(stored.Data[record.DataKey], &content); err != nil || len(content.Body.Keys) == 0 || content.Body.Keys[0].JWK.D == "" {
		t.Fatalf("The record contains no key: %v", err)
	}
	c.in["the signing key of a realm"] = content.Body.Keys[0].JWK.D
}

// plantInWorkloads creates the workloads of the instance, which the tests run outside the cluster, with secrets.
func plantInWorkloads(t *testing.T, inst *install.Installation, c canaries) {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: inst.Namespace, Name: name, Labels: map[string]string{
				"app": "operator", "app.kubernetes.io/name": "realmkeeper", "app.kubernetes.io/component": "operator", "password": c.short("a label of " + name),
			},
			Annotations: map[string]string{"password": c.word("an annotation of " + name), corev1.LastAppliedConfigAnnotation: c.word("the last applied configuration of " + name)},
		}
	}
	template := func(name string) corev1.PodTemplateSpec {
		header := corev1.HTTPHeader{Name: "X-Password", Value: c.short("a header of a probe of " + name)}
		return corev1.PodTemplateSpec{ObjectMeta: meta(name), Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{
				Name: "kms-plugin", Image: "kms", Command: []string{"sh", "-c", c.word("a command of " + name)}, Args: []string{"--pin", c.word("an argument of " + name), "--config=" + c.short("a known flag of the KMS plugin of "+name)},
			}},
			Containers: []corev1.Container{{
				Name: "operator", Image: "realmkeeper:v1",
				Args: []string{"--config=/etc/realmkeeper/config.yaml", "--extra=" + c.word("an extra argument of "+name), "--public-url=https://x:" + c.short("a URL of "+name) + "@example.com"},
				Env: []corev1.EnvVar{
					{Name: "PASSWORD", Value: c.word("an environment variable of " + name)},
					{Name: "GOGC", Value: "25"},
					{Name: "REFERENCE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "kms"}, Key: "password"}}},
				},
				Ports:         []corev1.ContainerPort{{Name: "health", ContainerPort: 8081}, {Name: "metrics", ContainerPort: 8080}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{c.word("a probe of " + name)}}}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
					Path: "/readyz", Port: intstr.FromInt32(8081), HTTPHeaders: []corev1.HTTPHeader{header},
				}}},
			}},
		}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "operator"}}
	set, pod := template("realmkeeper-operator-5d9c7"), template("realmkeeper-operator-5d9c7-8x2kq")
	running := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	configuration := fmt.Sprintf("instanceDomain: example.com\ntokenServer:\n  podAnnotations: {password: %q}\nkeyEncryption:\n  kms:\n    env: [{name: A, value: %q}]\n    args: [%q]\nunknown: %q\n",
		c.word("a configured annotation"), c.word("a configured variable"), c.word("a configured argument"), c.word("an unknown option"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "report", Annotations: map[string]string{"password": c.word("an annotation of a Node")}}}
	t.Cleanup(func() { _ = inst.Env.Client.Delete(t.Context(), node) })
	deployment := template("realmkeeper-operator")
	inst.Create(t,
		&appsv1.Deployment{ObjectMeta: meta("realmkeeper-operator"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: deployment}},
		&appsv1.ReplicaSet{ObjectMeta: set.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: set}},
		running, node,
		&corev1.ConfigMap{ObjectMeta: meta("realmkeeper-config"), Data: map[string]string{"config.yaml": configuration, "other": c.word("a ConfigMap")}},
		&corev1.ConfigMap{ObjectMeta: meta("realmkeeper-other"), Data: map[string]string{"config.yaml": c.word("a configuration that isn't valid")}, BinaryData: map[string][]byte{"b": []byte(c.word("a binary ConfigMap"))}},
		&corev1.Secret{ObjectMeta: meta("realmkeeper-kms"), Data: map[string][]byte{"password": []byte(c.word("a Secret of the instance"))}},
	)
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "Failed to read " + c.known("a termination message")}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: "exec: " + c.word("why another container waits")}}
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "operator", RestartCount: 3, LastTerminationState: ended}, {Name: "kms-plugin", State: waiting}}
	running.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "kms-plugin", LastTerminationState: ended}}
	node.Status.NodeInfo.KubeletVersion = "v1.99.0"
	for _, obj := range []client.Object{running, node} {
		if err := inst.Env.Client.Status().Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// createEvents creates Events about a Realm, a Pod, and a container that isn't Realmkeeper's.
func createEvents(t *testing.T, inst *install.Installation, c canaries) {
	t.Helper()
	for i, about := range []corev1.ObjectReference{
		{Kind: "Realm", Name: "acme", APIVersion: v1beta1.GroupVersion.String()}, {Kind: "Pod", Name: "realmkeeper-operator-5d9c7-8x2kq", APIVersion: "v1", Namespace: inst.Namespace},
	} {
		namespace := about.Namespace
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		inst.Create(t, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "report-", Annotations: map[string]string{"a": c.word(fmt.Sprint("an annotation of Event ", i))}}, InvolvedObject: about, Reason: "Failed",
			Message: fmt.Sprint("Event ", i, " failed"),
		})
	}
	inst.Create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: inst.Namespace, GenerateName: "report-"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "realmkeeper-operator-5d9c7-8x2kq", APIVersion: "v1", Namespace: inst.Namespace, FieldPath: "spec.initContainers{kms-plugin}"},
		Reason:         "Unhealthy", Message: c.word("an Event about another container"),
	})
}

// withKubelet returns the address of a proxy of the API server that also responds with logs and metrics, which
// need a kubelet and a network of Pods. Containers that aren't Realmkeeper's log secrets.
func withKubelet(t *testing.T, cluster *env.Env, c canaries) string {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cluster.Config))
	if err != nil {
		t.Fatal(err)
	}
	secret := c.word("the log of another container")
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/realmkeeper-operator-5d9c7-8x2kq/log"):
			if r.URL.Query().Get("container") != "operator" {
				_, _ = io.WriteString(w, secret)
				return
			}
			_, _ = io.WriteString(w, "The first line\n"+strings.Repeat("Another line\n", 20)+"The last line\n")
		case strings.HasSuffix(r.URL.Path, "/realmkeeper-operator-5d9c7-8x2kq:8080/proxy/metrics"):
			_, _ = io.WriteString(w, "requests_total 7\n")
		case strings.HasSuffix(r.URL.Path, "/secrets") && !strings.Contains(r.Header.Get("Accept"), "as=Table"):
			t.Errorf("The plugin requests the data of Secrets: %s", r.URL)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// readBundle returns the files of a bundle.
func readBundle(t *testing.T, path string) leak.Places {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := leak.Places{}
	for _, f := range archive.File {
		opened, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(content)
	}
	return files
}

// A tenant gets what they may read, and learns which permissions are missing. Nothing remains of a report without
// content.
func TestReportWithoutPermissions(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	inst.StartOperator(t, "")
	namespace, dir, user := cluster.Namespace(t), t.TempDir(), plugin.NewUser(cluster)
	mine := install.ApiClient(namespace, "mine", "acme")
	inst.Create(t, install.Realm("acme"), mine)
	inst.CredentialsSecret(t, mine)
	// The controller that fills the role edit doesn't run.
	for _, role := range []string{"system:aggregate-to-edit", "system:aggregate-to-view", "realmkeeper-edit", "realmkeeper-view"} {
		inst.Create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ReplaceAll(role, ":", "-")},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	}
	path := filepath.Join(dir, "report.zip")
	var got plugin.Outcome
	install.Eventually(t, "a report of the tenant", func() error {
		if got = user.Run(t.Context(), "report", "--as", "tenant", "-n", namespace, "--file", path); got.Code != 0 {
			return errors.New(got.Stderr)
		}
		return nil
	})
	files := readBundle(t, path)
	for _, permission := range []string{
		"realms: you have no permission to list realms", "instances: you have no permission to list instances", "nodes: you have no permission to list nodes",
		"workloads, logs, metrics, and records of the instance: you have no permission to get the Instance or ClusterRoleBinding realmkeeper-instance",
	} {
		if !strings.Contains(got.Stderr, "Not included: "+permission) || !strings.Contains(files["README.txt"], permission) {
			t.Errorf("The report does not say %q: %s\n%s", permission, got.Stderr, files["README.txt"])
		}
	}
	for file, word := range map[string]string{"objects/apiclients.yaml": "name: mine", "secrets.yaml": "name: mine", "README.txt": `cannot list resource "realms"`} {
		if !strings.Contains(files[file], word) {
			t.Errorf("%s does not contain %q: %s", file, word, files[file])
		}
	}
	if _, ok := files["objects/pods.yaml"]; ok {
		t.Error("The report of a tenant contains Pods")
	}

	// Without -n, the namespace of the context applies, in which the tenant may read nothing.
	got = user.Fails(t, "nothing could be read", "report", "--as", "tenant", "--file", filepath.Join(dir, "other.zip"))
	if !strings.Contains(got.Stderr, "list apiclients in all namespaces") || !strings.Contains(got.Stderr, "list apiclients in namespace default") {
		t.Errorf("report without permissions: %s", got.Stderr)
	}
	user.Fails(t, "nothing could be read", "report", "--as", "stranger", "--file", "-")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("A report without content leaves %v, %v", entries, err)
	}
}
