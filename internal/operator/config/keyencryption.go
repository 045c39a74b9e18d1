package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The Unix socket of the KMS plugin, in a volume that the plugin shares with the operator or a token
// server.
const (
	KMSSocketDir = "/var/run/realmkeeper/kms"
	KMSSocket    = KMSSocketDir + "/kms.sock"
)

// KMSName is the name of the plugin's container and of the volume with its socket.
const KMSName = "kms-plugin"

// The default and the limits of Timeout.
const (
	defaultKMSTimeout = 3 * time.Second
	minKMSTimeout     = 100 * time.Millisecond
	maxKMSTimeout     = 30 * time.Second
)

// KeyEncryption configures the encryption of private keys in records.
type KeyEncryption struct {
	// KMS encrypts private keys with a KMS plugin. If unset, they are stored in plaintext.
	KMS *KMS `json:"kms,omitempty"`
}

// KMS configures a KMS plugin, which speaks version 2 of the KMS API of Kubernetes. It runs beside the
// operator and beside each token server.
type KMS struct {
	// Image is the plugin's image. Required. The plugin must listen on the Unix socket
	// /var/run/realmkeeper/kms/kms.sock.
	Image string `json:"image"`
	// ImagePullPolicy is Always, IfNotPresent, or Never. If unset, Kubernetes chooses.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// Command defaults to the entrypoint of the image.
	Command []string `json:"command,omitempty"`
	// Args are the arguments. Defaults to those of the image.
	Args []string `json:"args,omitempty"`
	// Env are environment variables of the plugin's container.
	Env []corev1.EnvVar `json:"env,omitempty"`
	// EnvFrom are Secrets and ConfigMaps with environment variables.
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// VolumeMounts are where the container has the volumes.
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
	// Volumes are added to the Pod: secret, configMap, or emptyDir volumes.
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// Resources are those of the container. Defaults to none.
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// Timeout limits each request to the plugin: 100ms to 30s. Defaults to 3s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Decrypt stores new keys in plaintext, and keeps the plugin for token servers to decrypt the others
	// until rotations have replaced them. Defaults to false.
	Decrypt bool `json:"decrypt,omitempty"`
}

func (k *KeyEncryption) setDefaults() {
	if k.KMS == nil {
		return
	}
	if k.KMS.Timeout.Duration == 0 {
		k.KMS.Timeout.Duration = defaultKMSTimeout
	}
	setFieldVersions(k.KMS.Env)
}

func (k *KeyEncryption) validate() error {
	if k.KMS == nil {
		return nil
	}
	kms := k.KMS
	if kms.Image == "" {
		return invalid("keyEncryption.kms.image is required; it is the image of the KMS plugin")
	}
	switch kms.ImagePullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return invalid("keyEncryption.kms.imagePullPolicy must be Always, IfNotPresent or Never, not %q", kms.ImagePullPolicy)
	}
	if t := kms.Timeout.Duration; t < minKMSTimeout || t > maxKMSTimeout {
		return invalid("keyEncryption.kms.timeout must be between %s and %s, not %s", minKMSTimeout, maxKMSTimeout, t)
	}
	for n, env := range kms.Env {
		if problems := validation.IsEnvVarName(env.Name); len(problems) > 0 {
			return invalid("keyEncryption.kms.env[%d].name %q: %s", n, env.Name, problems[0])
		}
	}
	if kms.Resources != nil {
		if err := validateResources("keyEncryption.kms", *kms.Resources); err != nil {
			return err
		}
	}
	return kms.validateVolumes()
}

// validateVolumes checks that each volume has a unique name, and that each mount has a volume and isn't
// at the directory of the socket.
func (k *KMS) validateVolumes() error {
	var names []string
	for n, volume := range k.Volumes {
		key := fmt.Sprintf("keyEncryption.kms.volumes[%d].name", n)
		if problems := validation.IsDNS1123Label(volume.Name); len(problems) > 0 {
			return invalid("%s %q: %s", key, volume.Name, problems[0])
		}
		if volume.Secret == nil && volume.ConfigMap == nil && volume.EmptyDir == nil {
			return invalid("keyEncryption.kms.volumes[%d] must be a secret, configMap, or emptyDir volume", n)
		}
		if slices.Contains(names, volume.Name) || slices.Contains(reservedVolumes, volume.Name) {
			return invalid("%s %q is the name of another volume of the Pod; choose another name", key, volume.Name)
		}
		names = append(names, volume.Name)
	}
	for n, mount := range k.VolumeMounts {
		if !slices.Contains(names, mount.Name) {
			return invalid("keyEncryption.kms.volumeMounts[%d].name %q is not in keyEncryption.kms.volumes", n, mount.Name)
		}
		if !strings.HasPrefix(mount.MountPath, "/") || mount.MountPath == KMSSocketDir {
			return invalid("keyEncryption.kms.volumeMounts[%d].mountPath must be an absolute path other than %s, not %q", n, KMSSocketDir, mount.MountPath)
		}
	}
	return nil
}

// reservedVolumes are the names of the other volumes of the operator's and the token servers' Pods.
var reservedVolumes = []string{KMSName, "serving-cert", "records", "config"}
