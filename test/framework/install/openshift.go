package install

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// openShiftID is a user and group like those that OpenShift chooses for a namespace. Its users have the
// primary group 0.
const openShiftID = int64(1000680000)

// CheckRestrictedV2 checks that the Security Context Constraints restricted-v2 of OpenShift accept a Pod,
// and that the Pod with the user that they choose meets the restricted Pod Security Standard. The
// namespace must enforce this standard, and contain the service account of the Pod.
func CheckRestrictedV2(t *testing.T, cluster *env.Env, namespace, name string, spec corev1.PodSpec) {
	t.Helper()
	for _, problem := range restrictedV2Problems(&spec) {
		t.Errorf("restricted-v2 rejects Pod %s: %s", name, problem)
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	spec.SecurityContext.FSGroup = new(openShiftID)
	spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c26,c15"}
	for _, c := range containers(&spec) {
		c.SecurityContext.RunAsUser = new(openShiftID)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "openshift-" + name}, Spec: spec}
	if err := cluster.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("Pod %s with the user %d: %v", name, openShiftID, err)
	}
}

// restrictedV2Problems lists what restricted-v2 rejects in a Pod. It sets the user, group, and SELinux
// options of a Pod that doesn't have them, and accepts only those of the namespace otherwise.
func restrictedV2Problems(spec *corev1.PodSpec) (problems []string) {
	if spec.SecurityContext != nil {
		problems = append(problems, podProblems(spec.SecurityContext)...)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		problems = append(problems, "it uses namespaces of the host")
	}
	for _, v := range spec.Volumes {
		if v.Secret == nil && v.ConfigMap == nil && v.EmptyDir == nil && v.Projected == nil {
			problems = append(problems, "volume "+v.Name+" has another type")
		}
	}
	for _, c := range containers(spec) {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		for _, problem := range containerProblems(c) {
			problems = append(problems, "container "+c.Name+" "+problem)
		}
	}
	return problems
}

func podProblems(s *corev1.PodSecurityContext) (problems []string) {
	if s.RunAsUser != nil || s.FSGroup != nil || s.SELinuxOptions != nil {
		problems = append(problems, "the Pod sets runAsUser, fsGroup, or seLinuxOptions")
	}
	if s.SeccompProfile != nil && s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		problems = append(problems, "the seccomp profile is "+string(s.SeccompProfile.Type))
	}
	return problems
}

func containerProblems(c *corev1.Container) (problems []string) {
	s := c.SecurityContext
	if s.RunAsUser != nil || s.SELinuxOptions != nil || s.SeccompProfile != nil {
		problems = append(problems, "sets runAsUser, seLinuxOptions, or seccompProfile")
	}
	if s.Privileged != nil && *s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		problems = append(problems, "allows privileges")
	}
	if s.Capabilities == nil || len(s.Capabilities.Add) > 0 || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		problems = append(problems, "does not only drop all capabilities")
	}
	if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
		problems = append(problems, "has a port of the host")
	}
	return problems
}

func containers(spec *corev1.PodSpec) (all []*corev1.Container) {
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}
