package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// startNetwork makes the interfaces of the node: the loopback, and its end of the link to
// this machine. It comes first, since the API server listens on its address.
func startNetwork(ctx context.Context) error {
	for _, args := range []string{
		"link set lo up",
		fmt.Sprintf("address add %s peer %s dev %s", Address, MachineAddress, Uplink),
		fmt.Sprintf("link set %s up", Uplink),
		fmt.Sprintf("route add default via %s", MachineAddress),
	} {
		if err := run(ctx, "ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	// It is that of the node's own network.
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// run runs a program to its end. Its output is in the error.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
