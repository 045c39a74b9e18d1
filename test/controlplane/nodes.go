package controlplane

import (
	"fmt"
	"net"
	"net/netip"
)

// Nodes configures how nodes and their Pods reach the control plane, because they can't use
// loopback addresses.
type Nodes struct {
	// Address is an address of this machine. The API server listens on it and advertises
	// it as the endpoint of the kubernetes Service.
	Address netip.Addr

	// ServiceRange contains the addresses of Services. The first is the address of the
	// kubernetes Service.
	ServiceRange netip.Prefix

	// Users lists the users for other programs that nodes need.
	Users []User
}

// User is an API server user that authenticates with a token.
type User struct {
	Name       string   // such as system:node:worker
	Groups     []string // such as system:nodes
	Kubeconfig string   // the file in Options.Dir to write, mode 0600
}

// host returns the address on which the API server listens.
func (c *ControlPlane) host() netip.Addr {
	if c.options.Nodes == nil {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return c.options.Nodes.Address
}

// names returns the host names and addresses of the API server.
func (c *ControlPlane) names() (hosts []string, addresses []net.IP) {
	hosts, addresses = []string{"localhost"}, []net.IP{c.host().AsSlice()}
	if nodes := c.options.Nodes; nodes != nil {
		hosts = append(hosts, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
		addresses = append(addresses, nodes.ServiceRange.Masked().Addr().Next().AsSlice())
	}
	return hosts, addresses
}

// withoutNodes returns the API server's arguments for a control plane without nodes.
func withoutNodes() []string {
	return []string{
		// A loopback address isn't a valid endpoint of the kubernetes Service. Without
		// Pods, nothing uses this Service.
		"--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
	}
}

// withNodes returns the API server's arguments for a control plane with nodes.
func (c *ControlPlane) withNodes() []string {
	return []string{
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		fmt.Sprintf("--service-cluster-ip-range=%s", c.options.Nodes.ServiceRange),
		// Pods can reach this URL of the token keys. The default uses the API server's address,
		// which differs from the issuer's host.
		"--service-account-jwks-uri=https://kubernetes.default.svc/openid/v1/jwks",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + c.file(kubeletClientCertFile),
		"--kubelet-client-key=" + c.file(kubeletClientKeyFile),
	}
}
