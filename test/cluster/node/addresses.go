package node

import "net/netip"

// The addresses of the cluster. While the node runs, this machine has routes to it, so that Pods
// and Services can be reached from this machine.
var (
	// PodRange contains the addresses of Pods, ServiceRange those of Services.
	PodRange     = netip.MustParsePrefix("10.244.0.0/24")
	ServiceRange = netip.MustParsePrefix("10.96.0.0/16")

	// Address is the address of the node. The API server, the kubelet and DNS listen on it.
	// It is the gateway of the Pods.
	Address = netip.MustParseAddr("10.244.0.1")

	// MachineAddress is the address of this machine for the node and its Pods.
	MachineAddress = netip.MustParseAddr("10.244.1.1")

	// firstService is the address of the kubernetes Service.
	firstService = ServiceRange.Addr().Next()
)

const (
	// Name is the name of the node.
	Name = "realmkeeper"

	// Uplink is the network interface in the enclosure.
	Uplink = "uplink"

	// domain is the domain of cluster DNS.
	domain = "cluster.local"
)
