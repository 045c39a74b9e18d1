package node

import (
	"os"
	"path/filepath"

	"github.com/realmkeeper/realmkeeper/test/cluster/enclosure"
)

// The files in configDir.
const (
	cniFile        = "cni/realmkeeper.conflist"
	containerdFile = "containerd.toml"
	dnsFile        = "Corefile"
	kubeletFile    = "kubelet.yaml"
)

// configDir contains the configuration files of the programs of the node.
var configDir = filepath.Join(enclosure.Dir, "config")

func configFile(name string) string { return filepath.Join(configDir, name) }

// kernelFile returns the name of the file that replaces a kernel setting.
func kernelFile(setting string) string { return filepath.Join("kernel", setting) }

// Config returns the content of the configuration files by name, for CNI plugins in pluginDir.
func Config(pluginDir string) map[string]string {
	files := map[string]string{
		cniFile:        cniConfig(),
		containerdFile: containerdConfig(pluginDir),
		dnsFile:        corefile(),
		kubeletFile:    kubeletConfig(),
	}
	for setting, value := range kernelSettings {
		files[kernelFile(setting)] = value + "\n"
	}
	return files
}

func writeConfig(files map[string]string) error {
	for name, content := range files {
		path := configFile(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
