//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// create creates the objects and deletes them at the end of the test.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := cluster.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, object) })
	}
}

func remove(t *testing.T, object client.Object) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cluster.Delete(ctx, object, client.GracePeriodSeconds(1)); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// namespace creates a namespace that admits only restricted Pods.
func namespace(t *testing.T, name string) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: name + "-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	create(t, n)
	return n.Name
}

func realm(name string) *v1beta1.Realm {
	return &v1beta1.Realm{
		// The number of clients can be too old when the test deletes them and the Realm.
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1beta1.AllowDeletionAnnotation: name}},
		Spec: v1beta1.RealmSpec{
			Grants: []v1beta1.Grant{{Name: "all", Namespaces: v1beta1.GrantedNamespaces{From: v1beta1.NamespacesFromAll}, Scopes: v1beta1.GrantedScopes{"*"}, Audiences: v1beta1.GrantedAudiences{"*"}, Issuers: []string{"*"}}},
			Scopes: []string{"orders.read"},
		},
	}
}

func apiClient(namespace, name, realm string) *v1beta1.ApiClient {
	return &v1beta1.ApiClient{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.ApiClientSpec{
			RealmRef: v1beta1.RealmReference{Name: realm}, Scopes: []string{"orders.read"},
			Secret: &v1beta1.ClientSecretSource{Generated: &v1beta1.GeneratedSecret{}},
		},
	}
}

// credentialsVolume is the name of the volume mounted at /credentials.
const credentialsVolume = "credentials"

// pod returns a Pod that runs the workload and has a Secret mounted at /credentials. It conforms to
// the restricted Pod Security Standard.
func pod(namespace, name, secret string, args ...string) *corev1.Pod {
	yes, no, user := true, false, int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "workload", Image: workloadImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"/workload"}, Args: args,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: credentialsVolume, MountPath: "/credentials", ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{
				Name:         credentialsVolume,
				VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}},
			}},
		},
	}
}

// succeeds waits until a Pod has succeeded and returns its output.
func succeeds(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	eventually(t, "pod "+p.Name+" to finish", func() error {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("%w: %s %+v", errNotYet, p.Status.Phase, p.Status.ContainerStatuses)
		}
		return nil
	})
	printed := kubectl(t, "logs", "--namespace", p.Namespace, p.Name)
	if p.Status.Phase != corev1.PodSucceeded {
		t.Fatalf("pod %s failed with output: %s", p.Name, printed)
	}
	return printed
}

// loadReport is what a load Pod prints when it stops.
type loadReport struct {
	Requests         int      `json:"requests"`
	OnNewConnections int      `json:"onNewConnections"`
	Failed           int      `json:"failed"`
	Errors           []string `json:"errors"`
	Certificates     int      `json:"certificates"`
}

// load is a Pod that requests tokens until it is stopped.
type load struct{ pod *corev1.Pod }

func startLoad(t *testing.T, namespace, name, secret string, args ...string) *load {
	t.Helper()
	l := &load{pod: pod(namespace, name, secret, append([]string{"load"}, args...)...)}
	create(t, l.pod)
	l.awaitLine(t, "running")
	return l
}

// printed reports whether the load has printed the given line.
func (l *load) printed(t *testing.T, line string) bool {
	t.Helper()
	printed, err := try(t.Context(), tool("kubectl"), "logs", "--namespace", l.pod.Namespace, l.pod.Name)
	return err == nil && slices.Contains(strings.Split(printed, "\n"), line)
}

func (l *load) awaitLine(t *testing.T, line string) {
	t.Helper()
	eventually(t, l.pod.Name+" to print "+line, func() error {
		if !l.printed(t, line) {
			return errNotYet
		}
		return nil
	})
}

// stop stops the load and returns its report.
func (l *load) stop(t *testing.T) loadReport {
	t.Helper()
	// If the load ends first, the command is killed with its container. Whether the load ends is
	// checked next.
	if _, err := try(t.Context(), tool("kubectl"), "exec", "--namespace", l.pod.Namespace, l.pod.Name, "--", "/workload", "stop"); err != nil {
		t.Logf("Stopping %s: %v", l.pod.Name, err)
	}
	lines := strings.Split(strings.TrimSpace(succeeds(t, l.pod)), "\n")
	var report loadReport
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		t.Fatalf("the load printed %q: %v", lines, err)
	}
	t.Logf("%s: %d requests, %d on new connections, %d failed, %d certificates", l.pod.Name,
		report.Requests, report.OnNewConnections, report.Failed, report.Certificates)
	return report
}

// requireNoFailures stops the load and fails the test if a request failed.
func (l *load) requireNoFailures(t *testing.T) loadReport {
	t.Helper()
	report := l.stop(t)
	if report.Failed > 0 {
		t.Errorf("%s: %d of %d requests failed: %s", l.pod.Name, report.Failed, report.Requests, strings.Join(report.Errors, "\n"))
	}
	return report
}
