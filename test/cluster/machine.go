package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/cgroup"
	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// podsGroup is the control group that kubelets make for their pods.
const podsGroup = "kubepods"

func requireRoot() error {
	if runtime.GOOS != "linux" {
		return errors.New("it takes Linux")
	}
	if os.Geteuid() != 0 {
		return errors.New("it takes root: a node makes namespaces, mounts and network interfaces")
	}
	return nil
}

// requireMachine tells what would keep the node from running here.
func requireMachine() error {
	hierarchies, err := cgroup.Here()
	if err != nil {
		return err
	}
	if len(hierarchies) == 0 {
		return errors.New("no control groups are mounted, which pods run in; they are mounted by: mount -t cgroup2 none /sys/fs/cgroup")
	}
	groups, err := cgroup.Find(hierarchies, podsGroup)
	if err != nil {
		return err
	}
	if len(groups) > 0 {
		return fmt.Errorf("another kubelet runs here, or has left its control groups: %s", strings.Join(groups, ", "))
	}
	if _, err := net.InterfaceByName(link); err == nil {
		return fmt.Errorf("another cluster runs here, or has left its network interface, which is removed by: ip link delete %s", link)
	}
	return requireFreeAddresses()
}

// requireFreeAddresses fails when this machine is in one of the cluster's networks.
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
				return fmt.Errorf("this machine has the address %s, and the cluster needs %s for itself", own, prefix.Masked())
			}
		}
	}
	return nil
}
