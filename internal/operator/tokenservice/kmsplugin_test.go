package tokenservice

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func podSpecOf(t *testing.T, more string) corev1.PodSpec {
	t.Helper()
	deployment := testkit.Value(apply.Convert[appsv1.Deployment](deployment(nil, instance(t, more), "image:1")))(t)
	return deployment.Spec.Template.Spec
}

func TestKMSPluginIsASidecar(t *testing.T) {
	spec := podSpecOf(t, `keyEncryption: {kms: {image: "kms:1", args: [--key=a], env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}], volumes: [{name: pin, secret: {secretName: pin}}], volumeMounts: [{name: pin, mountPath: /pin}], timeout: 2s}}`)
	if len(spec.InitContainers) != 1 || len(spec.Containers) != 1 {
		t.Fatalf("got %d init containers and %d containers", len(spec.InitContainers), len(spec.Containers))
	}
	plugin, server := &spec.InitContainers[0], &spec.Containers[0]
	if plugin.RestartPolicy == nil || *plugin.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("the plugin is not a sidecar")
	}
	if plugin.Image != "kms:1" || !slices.Equal(plugin.Args, []string{"--key=a"}) || plugin.Env[0].ValueFrom.FieldRef.APIVersion != "v1" {
		t.Errorf("the plugin is %+v", plugin)
	}
	if s := plugin.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("Pod Security restricted doesn't allow %+v", s)
	}
	mounts := func(c *corev1.Container) []string {
		var paths []string
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("%s mounts volume %q, which doesn't exist", c.Name, mount.Name)
			}
			paths = append(paths, mount.MountPath)
		}
		return paths
	}
	if got := mounts(plugin); !slices.Equal(got, []string{"/var/run/realmkeeper/kms", "/pin"}) {
		t.Errorf("the plugin mounts %v", got)
	}
	if got := mounts(server); !slices.Contains(got, "/var/run/realmkeeper/kms") || slices.Contains(got, "/pin") {
		t.Errorf("the token server mounts %v", got)
	}
	for _, want := range []string{"--kms-socket=/var/run/realmkeeper/kms/kms.sock", "--kms-timeout=2s"} {
		if !slices.Contains(server.Args, want) {
			t.Errorf("the token server's arguments lack %s: %v", want, server.Args)
		}
	}
}

func TestNoKMSPluginByDefault(t *testing.T) {
	spec := podSpecOf(t, "")
	if len(spec.InitContainers) > 0 || slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "kms-plugin" }) {
		t.Errorf("got init containers %v and volumes %v", spec.InitContainers, spec.Volumes)
	}
	if slices.ContainsFunc(spec.Containers[0].Args, func(arg string) bool { return arg == "--kms-socket=/var/run/realmkeeper/kms/kms.sock" }) {
		t.Errorf("got arguments %v", spec.Containers[0].Args)
	}
}
