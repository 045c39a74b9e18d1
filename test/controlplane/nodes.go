package controlplane

import (
	"fmt"
	"net"
	"net/netip"
)

// Nodes says how a control plane is reached by nodes and their pods, which loopback
// addresses don't allow.
type Nodes struct {
	// Address is one of this machine, on which the API server listens and which it
	// advertises, so that it is the endpoint of the kubernetes Service.
	Address netip.Addr

	// ServiceRange holds the addresses of Services. The API server's is the first.
	ServiceRange netip.Prefix

	// Users are the programs that nodes need beside the control plane.
	Users []User
}

// User is a user of the API server with a token.
type User struct {
	Name       string   // such as system:node:worker
	Groups     []string // such as system:nodes
	Kubeconfig string   // the file in Options.Dir that is written for it, mode 0600
}

// host is the address on which the API server listens.
func (c *ControlPlane) host() netip.Addr {
	if c.options.Nodes == nil {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return c.options.Nodes.Address
}

// names are the host names and addresses by which clients reach the API server.
func (c *ControlPlane) names() (hosts []string, addresses []net.IP) {
	hosts, addresses = []string{"localhost"}, []net.IP{c.host().AsSlice()}
	if nodes := c.options.Nodes; nodes != nil {
		hosts = append(hosts, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
		addresses = append(addresses, nodes.ServiceRange.Masked().Addr().Next().AsSlice())
	}
	return hosts, addresses
}

// withoutNodes are arguments of the API server.
func withoutNodes() []string {
	return []string{
		// A loopback address is no valid endpoint of the kubernetes Service; without
		// pods nobody misses it.
		"--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
	}
}

// withNodes are the arguments of the API server in their place.
func (c *ControlPlane) withNodes() []string {
	return []string{
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		fmt.Sprintf("--service-cluster-ip-range=%s", c.options.Nodes.ServiceRange),
		// Where pods, too, find the keys of their tokens; left out, it would be the
		// address, which isn't the issuer's.
		"--service-account-jwks-uri=https://kubernetes.default.svc/openid/v1/jwks",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + c.file(kubeletClientCertFile),
		"--kubelet-client-key=" + c.file(kubeletClientKeyFile),
	}
}
