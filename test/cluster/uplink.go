package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/realmkeeper/realmkeeper/test/cluster/node"
)

// link is this machine's interface to the node. Its name tells whose it is.
const link = "realmkeeper"

// connect links this machine with the node, and leads the addresses of pods and Services
// there.
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

// disconnect removes the link, and with it the routes.
func (c *cluster) disconnect(ctx context.Context) error {
	if _, err := net.InterfaceByName(link); err != nil {
		return nil //nolint:nilerr // There is none.
	}
	err := c.command(ctx, "ip", "link", "delete", link)
	if _, gone := net.InterfaceByName(link); gone != nil {
		return nil //nolint:nilerr // The kernel was faster.
	}
	return err
}
