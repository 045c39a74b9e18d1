package node

import "net/netip"

// The addresses of the cluster. On this machine they lead to the node for as long as it
// runs, so that its pods and Services can be reached from here.
var (
	// PodRange holds the addresses of pods, ServiceRange those of Services.
	PodRange     = netip.MustParsePrefix("10.244.0.0/24")
	ServiceRange = netip.MustParsePrefix("10.96.0.0/16")

	// Address is the node's. API server, kubelet and DNS listen on it, and it is the
	// gateway of the pods.
	Address = netip.MustParseAddr("10.244.0.1")

	// MachineAddress is where the node and its pods find this machine.
	MachineAddress = netip.MustParseAddr("10.244.1.1")

	// firstService is the API server's address as a Service.
	firstService = ServiceRange.Addr().Next()
)

const (
	// Name is the node's.
	Name = "realmkeeper"

	// Uplink is the interface inside.
	Uplink = "uplink"

	// domain is that of cluster DNS.
	domain = "cluster.local"
)
