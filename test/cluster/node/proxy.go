package node

import (
	"context"
	"fmt"
	"net"
	"time"
)

const proxy = "kube-proxy"

// startProxy starts kube-proxy and returns when the kubernetes Service accepts connections.
func (n *node) startProxy(ctx context.Context) error {
	return n.start(ctx, proxy, binary(proxy), []string{
		"--kubeconfig=" + kubeconfig(proxy),
		"--hostname-override=" + Name,
		"--proxy-mode=iptables",
		// The size of the conntrack table can't be changed in a network namespace.
		"--conntrack-max-per-core=0",
		fmt.Sprintf("--bind-address=%s", Address),
		fmt.Sprintf("--healthz-bind-address=%s:10256", Address),
	}, func(ctx context.Context) error {
		dialer := net.Dialer{Timeout: time.Second}
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(firstService.String(), "443"))
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
