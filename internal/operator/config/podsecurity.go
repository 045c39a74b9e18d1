package config

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// setSecurityDefaults sets what the restricted Pod Security Standard requires. It sets no user, so the
// Pods run as the user of the image, or as the one that OpenShift chooses for the namespace.
func (s *TokenServer) setSecurityDefaults() {
	if s.PodSecurityContext == nil {
		s.PodSecurityContext = &corev1.PodSecurityContext{}
	}
	if pod := s.PodSecurityContext; pod.RunAsNonRoot == nil {
		pod.RunAsNonRoot = new(true)
	}
	if pod := s.PodSecurityContext; pod.SeccompProfile == nil {
		pod.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.SecurityContext{}
	}
	container := s.SecurityContext
	if container.AllowPrivilegeEscalation == nil {
		container.AllowPrivilegeEscalation = new(false)
	}
	if container.ReadOnlyRootFilesystem == nil {
		container.ReadOnlyRootFilesystem = new(true)
	}
	if container.Capabilities == nil {
		container.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
}

// validateSecurity rejects everything that the restricted Pod Security Standard or the admission policy
// realmkeeper-operator-token-service rejects.
func (s *TokenServer) validateSecurity() error {
	const required = "; token servers must meet the restricted Pod Security Standard"
	pod, container := s.PodSecurityContext, s.SecurityContext
	switch {
	case !*pod.RunAsNonRoot, container.RunAsNonRoot != nil && !*container.RunAsNonRoot:
		return invalid("runAsNonRoot must be true in tokenServer.podSecurityContext and tokenServer.securityContext" + required)
	case pod.RunAsUser != nil && *pod.RunAsUser == 0, container.RunAsUser != nil && *container.RunAsUser == 0:
		return invalid("runAsUser must not be 0 in tokenServer.podSecurityContext and tokenServer.securityContext" + required)
	case !confined(pod.SeccompProfile, pod.AppArmorProfile), !confined(container.SeccompProfile, container.AppArmorProfile):
		return invalid("seccompProfile and appArmorProfile must not be Unconfined in tokenServer.podSecurityContext and tokenServer.securityContext" + required)
	case pod.SELinuxOptions != nil, container.SELinuxOptions != nil, pod.WindowsOptions != nil, container.WindowsOptions != nil, len(pod.Sysctls) > 0:
		return invalid("tokenServer.podSecurityContext and tokenServer.securityContext must not contain seLinuxOptions, windowsOptions or sysctls" + required)
	case container.Privileged != nil && *container.Privileged, *container.AllowPrivilegeEscalation, container.ProcMount != nil:
		return invalid("tokenServer.securityContext must not contain privileged, allowPrivilegeEscalation or procMount" + required)
	case len(container.Capabilities.Add) > 0, !slices.Contains(container.Capabilities.Drop, "ALL"):
		return invalid("tokenServer.securityContext.capabilities must drop ALL and add none" + required)
	}
	return nil
}

func confined(seccomp *corev1.SeccompProfile, appArmor *corev1.AppArmorProfile) bool {
	return (seccomp == nil || seccomp.Type != corev1.SeccompProfileTypeUnconfined) &&
		(appArmor == nil || appArmor.Type != corev1.AppArmorProfileTypeUnconfined)
}

// setFieldVersions sets what the API server would default in a list that the operator owns as a whole.
// Otherwise, it would be a permanent difference.
func setFieldVersions(env []corev1.EnvVar) {
	for i := range env {
		if from := env[i].ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
			from.FieldRef.APIVersion = "v1"
		}
	}
}

// deploymentEnv are the environment variables that the operator sets, and the one with which a token
// server would use another cluster.
var deploymentEnv = []string{
	"POD_NAME", "POD_NAMESPACE", "KUBECONFIG",
	"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_RESOURCE_ATTRIBUTES",
}

// deploymentFlags are the flags that the operator sets, and those that would change what it relies on. A
// key configures each flag that is meant to be changed. Otherwise, for example, the configuration could say
// that auditing is enabled while an argument disables it.
var deploymentFlags = []string{
	"namespace", "name", "listen", "operations-listen", "kubeconfig", "reuse-port", "tls-cert-file", "tls-key-file", "snapshot-dir",
	"audit-log", "debug", "trusted-proxies", "proxy-protocol-from", "passthrough-proxies", "max-staleness", "idle-timeout", "accepted-service-account-issuer", "usage-resolution",
	"kms-socket", "kms-timeout",
}

var extraArg = regexp.MustCompile(`^--([a-z][-a-z0-9]*)(=.*)?$`)

func (s *TokenServer) validateExtra() error {
	for n, env := range s.ExtraEnv {
		if problems := validation.IsEnvVarName(env.Name); len(problems) > 0 {
			return invalid("tokenServer.extraEnv[%d].name %q: %s", n, env.Name, problems[0])
		}
		if slices.Contains(deploymentEnv, env.Name) {
			return invalid("tokenServer.extraEnv[%d] must not set %s, which the operator sets; use tokenServer.tracing for traces", n, env.Name)
		}
		if slices.ContainsFunc(s.ExtraEnv[:n], func(e corev1.EnvVar) bool { return e.Name == env.Name }) {
			return invalid("tokenServer.extraEnv contains %s twice; remove one", env.Name)
		}
	}
	for n, arg := range s.ExtraArgs {
		flag := extraArg.FindStringSubmatch(arg)
		if flag == nil {
			return invalid("tokenServer.extraArgs[%d] %q must have the form --flag=value", n, arg)
		}
		if slices.Contains(deploymentFlags, flag[1]) {
			return invalid("tokenServer.extraArgs[%d] must not set --%s, which the operator sets; use the key of the configuration if there is one", n, flag[1])
		}
	}
	return nil
}
