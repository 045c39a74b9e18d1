package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// startNetwork configures the loopback interface and the node's end of the link to this machine.
// It runs first, because the API server listens on the node's address.
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
	// This affects only the network namespace of the node.
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// run runs a program and waits for it. The error contains its output.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
