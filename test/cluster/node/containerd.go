package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
)

// PauseImage is the image of the first process of a Pod. It is built from source.
const PauseImage = "realmkeeper-pause:v1"

// containerdSocket is containerd's default socket, so that ctr needs no flag.
const containerdSocket = "/run/containerd/containerd.sock"

// pluginDirs are the directories in which distributions install the CNI plugins.
var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

// CNIPlugins are the CNI plugins that the node needs.
var CNIPlugins = []string{"host-local", "loopback", "portmap", "ptp"}

// PluginDir returns the directory of the CNI plugins. It is empty if a plugin is missing.
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

// containerdConfig returns a configuration of version 2, which containerd supports since 1.3.
func containerdConfig(pluginDir string) string {
	return fmt.Sprintf(`version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/%s"
  # Without CAP_SYS_RESOURCE, Pods can only start with this setting.
  restrict_oom_score_adj = true

  # A directory for each registry from which images are pulled, with a hosts.toml.
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%s"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%s"
    conf_dir = "%s"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false

# The default is in /opt, which is shared with the machine and would remain.
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
`, PauseImage, configFile("registries"), pluginDir, configFile(filepath.Dir(cniFile)))
}

// cniConfig connects each Pod only with the node, not with other Pods. All traffic between Pods
// therefore passes the rules of kube-proxy; on a bridge, that depends on the kernel. There is no
// masquerading, because this machine has a route back and other machines need not be reached.
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
