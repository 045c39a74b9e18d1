package tokenservice

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
	"github.com/realmkeeper/realmkeeper/internal/operator/pki"
)

const (
	tlsVolume = "serving-cert"
	tlsPath   = "/etc/realmkeeper/tls"

	// snapshotVolume is in memory and lives as long as the Pod. A restarted container loads the
	// last known good records from it. No other Pod can read it.
	snapshotVolume = "records"
	snapshotPath   = "/var/lib/realmkeeper"

	// drainDelay is the time for which a stopping token server still accepts connections. It covers
	// the time until all nodes have removed its endpoint.
	drainDelay = 10 * time.Second
	// gracePeriod includes drainDelay and leaves time for in-flight requests to complete.
	gracePeriod = 30 * time.Second
)

// deployment returns the token server Deployment. A rolling update starts each new Pod before it
// stops an old one.
func deployment(live *appsv1.Deployment, instance *config.Instance, image string) *appsv1ac.DeploymentApplyConfiguration {
	spec := appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector())).
		WithStrategy(appsv1ac.DeploymentStrategy().
			WithType(appsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
				WithMaxUnavailable(intstr.FromInt32(0)).
				WithMaxSurge(intstr.FromInt32(1)))).
		WithTemplate(podTemplate(instance, image))
	if !scaled(live, instance) {
		spec.WithReplicas(*instance.TokenServer.Replicas)
	}
	return appsv1ac.Deployment(config.TokenServiceName, instance.SystemNamespace).WithLabels(labels(instance)).
		WithAnnotations(map[string]string{configuredReplicas: configured(instance)}).
		WithSpec(spec)
}

func podTemplate(instance *config.Instance, image string) *corev1ac.PodTemplateSpecApplyConfiguration {
	settings := &instance.TokenServer
	secret := pki.ServingSecretName
	if instance.TLS.SecretName != "" {
		secret = instance.TLS.SecretName
	}
	spec := corev1ac.PodSpec().
		WithServiceAccountName(config.TokenServiceName).
		WithTerminationGracePeriodSeconds(int64(gracePeriod/time.Second)).
		WithSecurityContext(&converted[corev1ac.PodSecurityContextApplyConfiguration]([]*corev1.PodSecurityContext{settings.PodSecurityContext})[0]).
		WithContainers(container(instance, image)).
		WithVolumes(
			corev1ac.Volume().WithName(tlsVolume).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(secret)),
			corev1ac.Volume().WithName(snapshotVolume).WithEmptyDir(snapshot(settings)),
		)
	if kms := instance.KeyEncryption.KMS; kms != nil {
		addKMSPlugin(spec, kms, settings)
	}
	if len(settings.NodeSelector) > 0 {
		spec.WithNodeSelector(settings.NodeSelector)
	}
	if settings.PriorityClassName != "" {
		spec.WithPriorityClassName(settings.PriorityClassName)
	}
	for _, name := range settings.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(name.Name))
	}
	if settings.Affinity != nil {
		spec.WithAffinity(&converted[corev1ac.AffinityApplyConfiguration]([]corev1.Affinity{*settings.Affinity})[0])
	}
	spec.Tolerations = converted[corev1ac.TolerationApplyConfiguration](settings.Tolerations)
	spec.TopologySpreadConstraints = spread(settings)

	template := corev1ac.PodTemplateSpec().WithSpec(spec).
		WithLabels(instance.CommonLabels).WithLabels(settings.PodLabels).WithLabels(ownLabels())
	if len(settings.PodAnnotations) > 0 {
		template.WithAnnotations(settings.PodAnnotations)
	}
	return template
}

// spread returns the configured constraints. By default, Pods are spread across nodes if possible.
func spread(settings *config.TokenServer) []corev1ac.TopologySpreadConstraintApplyConfiguration {
	if settings.TopologySpreadConstraints != nil {
		return converted[corev1ac.TopologySpreadConstraintApplyConfiguration](settings.TopologySpreadConstraints)
	}
	return []corev1ac.TopologySpreadConstraintApplyConfiguration{*corev1ac.TopologySpreadConstraint().
		WithMaxSkew(1).
		WithTopologyKey(corev1.LabelHostname).
		WithWhenUnsatisfiable(corev1.ScheduleAnyway).
		WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(selector()))}
}

func container(instance *config.Instance, image string) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().
		WithName(config.TokenServerContainer).
		WithImage(image).
		WithCommand("/token-server").
		WithArgs(
			"--namespace="+instance.RecordsNamespace,
			"--name=$(POD_NAME)",
			"--tls-cert-file="+tlsPath+"/"+corev1.TLSCertKey,
			"--tls-key-file="+tlsPath+"/"+corev1.TLSPrivateKeyKey,
			"--snapshot-dir="+snapshotPath,
			"--drain-delay="+drainDelay.String(),
			"--usage-resolution="+instance.Scaled(instance.Usage.Resolution.Duration).String(),
		).
		WithEnv(fieldEnv("POD_NAME", "metadata.name")).
		WithPorts(
			corev1ac.ContainerPort().WithName(portHTTPS).WithContainerPort(containerHTTPS).WithProtocol(corev1.ProtocolTCP),
			corev1ac.ContainerPort().WithName(portOperations).WithContainerPort(containerOperations).WithProtocol(corev1.ProtocolTCP),
		).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(2)).
		WithLivenessProbe(probe("/healthz").WithPeriodSeconds(10).WithFailureThreshold(6)).
		WithSecurityContext(securityContext(&instance.TokenServer)).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(tlsVolume).WithMountPath(tlsPath).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(snapshotVolume).WithMountPath(snapshotPath),
		).
		WithResources(resources(instance.TokenServer.Resources))
	if instance.TokenServer.Audit == config.AuditNone {
		c.WithArgs("--audit-log=")
	}
	if instance.Logging.Level == config.LogDebug {
		c.WithArgs("--debug")
	}
	networksArg(c, "--trusted-proxies", instance.TokenServer.TrustedProxies)
	networksArg(c, "--proxy-protocol-from", instance.TokenServer.ProxyProtocolFrom)
	networksArg(c, "--passthrough-proxies", instance.TokenServer.PassthroughProxies)
	for _, accepted := range instance.TokenServer.AcceptedServiceAccountIssuers {
		c.WithArgs("--accepted-service-account-issuer=" + accepted.Issuer + "=" + accepted.Until.UTC().Format(time.RFC3339))
	}
	if stale := instance.TokenServer.MaxStaleness.Duration; stale > 0 {
		c.WithArgs("--max-staleness=" + stale.String())
	}
	if idle := instance.TokenServer.IdleTimeout.Duration; idle > 0 {
		c.WithArgs("--idle-timeout=" + idle.String())
	}
	if tracing := instance.TokenServer.Tracing; tracing != nil {
		c.WithEnv(
			fieldEnv("POD_NAMESPACE", "metadata.namespace"),
			env("OTEL_EXPORTER_OTLP_ENDPOINT", tracing.Endpoint),
			env("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
			env("OTEL_TRACES_SAMPLER_ARG", strconv.FormatFloat(float64(*tracing.SamplePercentage)/100, 'f', -1, 64)),
			env("OTEL_RESOURCE_ATTRIBUTES", "k8s.namespace.name=$(POD_NAMESPACE),k8s.pod.name=$(POD_NAME)"),
		)
	}
	if policy := instance.TokenServer.ImagePullPolicy; policy != "" {
		c.WithImagePullPolicy(policy)
	}
	c.Env = append(c.Env, converted[corev1ac.EnvVarApplyConfiguration](instance.TokenServer.ExtraEnv)...)
	// The last of several values of a flag takes effect.
	return c.WithArgs(instance.TokenServer.ExtraArgs...)
}

// securityContext returns the security context of all containers. They must have the same user, so that
// token servers can use the socket of the KMS plugin.
func securityContext(settings *config.TokenServer) *corev1ac.SecurityContextApplyConfiguration {
	return &converted[corev1ac.SecurityContextApplyConfiguration]([]*corev1.SecurityContext{settings.SecurityContext})[0]
}

// snapshot returns the volume for the last known good records. Its memory counts against the memory
// limit of the container. If the records outgrow the volume, they can't be saved, but the kernel
// doesn't kill the token server. A rewrite of the records temporarily needs twice their size.
func snapshot(settings *config.TokenServer) *corev1ac.EmptyDirVolumeSourceApplyConfiguration {
	volume := corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory)
	if limit, ok := settings.Resources.Limits[corev1.ResourceMemory]; ok {
		volume.WithSizeLimit(*resource.NewQuantity(limit.Value()/2, resource.BinarySI))
	}
	return volume
}

// networksArg adds a flag with a list of networks, unless the list is empty.
func networksArg(c *corev1ac.ContainerApplyConfiguration, flag string, networks []string) {
	if len(networks) > 0 {
		c.WithArgs(flag + "=" + strings.Join(networks, ","))
	}
}

func resources(configured *corev1.ResourceRequirements) *corev1ac.ResourceRequirementsApplyConfiguration {
	r := corev1ac.ResourceRequirements()
	if requests := configured.Requests; len(requests) > 0 {
		r.WithRequests(requests)
	}
	if limits := configured.Limits; len(limits) > 0 {
		r.WithLimits(limits)
	}
	return r
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(portOperations)))
}

func env(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

// fieldEnv returns an environment variable from a field of the Pod. It sets the API version because
// the reference is owned as a whole. Otherwise, the API server's default would show up as a
// permanent diff.
func fieldEnv(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).
		WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(path)))
}

// converted converts configured values to apply configurations. It can't fail, because strict
// decoding has already validated the values against the API types.
func converted[C, T any](values []T) []C {
	var list []C
	for _, value := range values {
		c, err := apply.Convert[C](value)
		if err != nil {
			panic(err) // the two types have the same fields
		}
		list = append(list, *c)
	}
	return list
}
