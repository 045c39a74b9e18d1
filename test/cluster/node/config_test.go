package node_test

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// TestConfigIsConsistent checks settings that the programs of the node read in different formats.
func TestConfigIsConsistent(t *testing.T) {
	files := node.Config("/plugins")

	t.Run("CNI", func(t *testing.T) {
		var config struct {
			Plugins []struct {
				Type string
				IPAM struct {
					Type   string
					Ranges [][]struct{ Subnet, Gateway string }
				}
			}
		}
		if err := json.Unmarshal([]byte(files["cni/realmkeeper.conflist"]), &config); err != nil {
			t.Fatal(err)
		}
		pods := config.Plugins[0].IPAM.Ranges[0][0]
		if pods.Subnet != node.PodRange.String() || pods.Gateway != node.Address.String() {
			t.Errorf("pods: %+v", pods)
		}
		needed := []string{"loopback", config.Plugins[0].IPAM.Type} // containerd adds the first plugin itself
		for _, plugin := range config.Plugins {
			needed = append(needed, plugin.Type)
		}
		slices.Sort(needed)
		if diff := cmp.Diff(node.CNIPlugins, needed); diff != "" {
			t.Errorf("required plugins (-) and used plugins (+):\n%s", diff)
		}
	})

	t.Run("kubelet", func(t *testing.T) {
		var config struct {
			Address       string   `json:"address"`
			ClusterDNS    []string `json:"clusterDNS"`
			ClusterDomain string   `json:"clusterDomain"`
		}
		if err := yaml.Unmarshal([]byte(files["kubelet.yaml"]), &config); err != nil {
			t.Fatal(err)
		}
		if config.Address != node.Address.String() || !slices.Equal(config.ClusterDNS, []string{node.Address.String()}) {
			t.Errorf("addresses: %+v", config)
		}
		if !strings.HasPrefix(files["Corefile"], config.ClusterDomain+":53 ") {
			t.Errorf("the DNS server does not serve the domain %s:\n%s", config.ClusterDomain, files["Corefile"])
		}
	})

	t.Run("containerd", func(t *testing.T) {
		for _, want := range []string{
			`bin_dir = "/plugins"`, `conf_dir = "/run/realmkeeper/config/cni"`, `"docker.io/library/` + node.PauseImage + `"`,
		} {
			if !strings.Contains(files["containerd.toml"], want) {
				t.Errorf("no %s in:\n%s", want, files["containerd.toml"])
			}
		}
	})
}

func TestAddressesDoNotOverlap(t *testing.T) {
	ranges := map[string]netip.Prefix{
		"pods":     node.PodRange,
		"Services": node.ServiceRange,
		"machine":  netip.PrefixFrom(node.MachineAddress, 32),
	}
	names := slices.Sorted(maps.Keys(ranges))
	for i, one := range names {
		for _, other := range names[i+1:] {
			if ranges[one].Overlaps(ranges[other]) {
				t.Errorf("%s and %s overlap", one, other)
			}
		}
	}
	if !node.PodRange.Contains(node.Address) {
		t.Error("the address of the node must be in the range of the Pods, because it is their gateway")
	}
}
