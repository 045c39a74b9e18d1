package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// link is the network interface of this machine that connects to the node.
const link = "realmkeeper"

// connect connects this machine to the node and adds routes to Pods and Services.
func (c *cluster) connect(ctx context.Context) error {
	pid, err := c.enclosure.PID()
	if err != nil {
		return err
	}
	for _, args := range []string{
		fmt.Sprintf("link add %s type veth peer name %s netns %s", link, node.Uplink, strconv.Itoa(pid)),
		fmt.Sprintf("address add %s peer %s dev %s", node.MachineAddress, node.Address, link),
		fmt.Sprintf("link set %s up", link),
		fmt.Sprintf("route add %s via %s", node.PodRange, node.Address),
		fmt.Sprintf("route add %s via %s", node.ServiceRange, node.Address),
	} {
		if err := c.command(ctx, "ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

// disconnect removes the link and thereby its routes.
func (c *cluster) disconnect(ctx context.Context) error {
	if _, err := net.InterfaceByName(link); err != nil {
		return nil //nolint:nilerr // It doesn't exist.
	}
	err := c.command(ctx, "ip", "link", "delete", link)
	if _, gone := net.InterfaceByName(link); gone != nil {
		return nil //nolint:nilerr // The kernel has removed it.
	}
	return err
}
