package node

import (
	"context"
	"fmt"
	"net"
	"time"
)

const proxy = "kube-proxy"

// startProxy returns when the API server answers at its address as a Service.
func (n *node) startProxy(ctx context.Context) error {
	return n.start(ctx, proxy, binary(proxy), []string{
		"--kubeconfig=" + kubeconfig(proxy),
		"--hostname-override=" + Name,
		"--proxy-mode=iptables",
		// A namespace can't change the size of the machine's table.
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
