package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// podsGroup is the control group that a kubelet creates for its Pods.
const podsGroup = "kubepods"

func requireRoot() error {
	if runtime.GOOS != "linux" {
		return errors.New("a node requires Linux")
	}
	if os.Geteuid() != 0 {
		return errors.New("a node requires root, because it creates namespaces, mounts and network interfaces")
	}
	return nil
}

// requireMachine returns an error if the node can't run on this machine. It removes control groups of Pods
// that have no processes, because a kubelet that was killed leaves them behind.
func requireMachine() error {
	hierarchies, err := cgroup.Here()
	if err != nil {
		return err
	}
	if len(hierarchies) == 0 {
		return errors.New("no control groups are mounted, but Pods need them; mount them with: mount -t cgroup2 none /sys/fs/cgroup")
	}
	groups, err := cgroup.Find(hierarchies, podsGroup)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if populated, err := cgroup.Populated(group); err != nil {
			return err
		} else if populated {
			return fmt.Errorf("another kubelet is running Pods on this machine: the control group %s has processes", group)
		}
	}
	for _, group := range groups {
		if err := cgroup.Remove(group); err != nil {
			return err
		}
	}
	if _, err := net.InterfaceByName(link); err == nil {
		return fmt.Errorf("another cluster is running on this machine or has left its network interface; delete it with: ip link delete %s", link)
	}
	return requireFreeAddresses()
}

// requireFreeAddresses returns an error if this machine has an address in a network of the
// cluster.
func requireFreeAddresses() error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, address := range addresses {
		own, err := netip.ParsePrefix(address.String())
		if err != nil {
			continue
		}
		machine := netip.PrefixFrom(node.MachineAddress, node.MachineAddress.BitLen())
		for _, prefix := range []netip.Prefix{node.PodRange, node.ServiceRange, machine} {
			if prefix.Overlaps(own) {
				return fmt.Errorf("this machine has the address %s, but the cluster needs %s", own, prefix.Masked())
			}
		}
	}
	return nil
}
