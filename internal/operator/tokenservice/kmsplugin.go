package tokenservice

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// addKMSPlugin adds the KMS plugin to a Pod. It is a sidecar, which starts before the token server and
// stops after it.
func addKMSPlugin(spec *corev1ac.PodSpecApplyConfiguration, kms *config.KMS, settings *config.TokenServer) {
	plugin := corev1ac.Container().
		WithName(config.KMSName).
		WithImage(kms.Image).
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithSecurityContext(securityContext(settings)).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(config.KMSName).WithMountPath(config.KMSSocketDir))
	plugin.Command, plugin.Args = kms.Command, kms.Args
	plugin.Env = converted[corev1ac.EnvVarApplyConfiguration](kms.Env)
	plugin.EnvFrom = converted[corev1ac.EnvFromSourceApplyConfiguration](kms.EnvFrom)
	plugin.VolumeMounts = append(plugin.VolumeMounts, converted[corev1ac.VolumeMountApplyConfiguration](kms.VolumeMounts)...)
	if kms.ImagePullPolicy != "" {
		plugin.WithImagePullPolicy(kms.ImagePullPolicy)
	}
	if kms.Resources != nil {
		plugin.WithResources(resources(kms.Resources))
	}
	spec.WithInitContainers(plugin)
	spec.WithVolumes(corev1ac.Volume().WithName(config.KMSName).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	spec.Volumes = append(spec.Volumes, converted[corev1ac.VolumeApplyConfiguration](kms.Volumes)...)

	server := &spec.Containers[0]
	server.WithArgs("--kms-socket="+config.KMSSocket, "--kms-timeout="+kms.Timeout.Duration.String())
	server.WithVolumeMounts(corev1ac.VolumeMount().WithName(config.KMSName).WithMountPath(config.KMSSocketDir))
}
