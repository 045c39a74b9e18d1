package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
)

// PauseImage holds the namespaces of a pod. It is built from source, like all else.
const PauseImage = "realmkeeper-pause:v1"

// containerdSocket is containerd's default, so that ctr finds it by itself.
const containerdSocket = "/run/containerd/containerd.sock"

// pluginDirs are where distributions keep the CNI plugins.
var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

// CNIPlugins are those that the node needs.
var CNIPlugins = []string{"host-local", "loopback", "portmap", "ptp"}

// PluginDir is the directory of the CNI plugins. It is empty when some are missing.
func PluginDir() string {
	for _, dir := range pluginDirs {
		if hasPlugins(dir) {
			return dir
		}
	}
	return ""
}

func hasPlugins(dir string) bool {
	for _, plugin := range CNIPlugins {
		if _, err := os.Stat(filepath.Join(dir, plugin)); err != nil {
			return false
		}
	}
	return true
}

// containerdConfig is of version 2, which containerd reads from 1.3 on.
func containerdConfig(pluginDir string) string {
	return fmt.Sprintf(`version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/%s"
  # Where CAP_SYS_RESOURCE is missing, no pod could start without.
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%s"
    conf_dir = "%s"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false

# The default is a directory of /opt, which would stay behind.
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
`, PauseImage, pluginDir, configFile(filepath.Dir(cniFile)))
}

// cniConfig links every pod with the node, and with no other pod: so kube-proxy's rules
// see all that goes between them, which on a bridge depends on the kernel. Nothing is
// masqueraded, since this machine knows the way back and nobody else is to be reached.
func cniConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "realmkeeper",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "%s", "gateway": "%s"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, PodRange, Address)
}

func (n *node) startContainerd(ctx context.Context) error {
	args := []string{"--config", configFile(containerdFile)}
	err := n.start(ctx, "containerd", "containerd", args, func(ctx context.Context) error {
		return run(ctx, "ctr", "version")
	})
	if err != nil {
		return err
	}
	return run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", filepath.Join(enclosure.Dir, "images", "pause.tar"))
}
