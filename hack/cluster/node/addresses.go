package node

import "net/netip"

// The addresses of the cluster. On this machine they lead to the node for as long as it
// runs, so that its pods and Services can be reached from here.
var (
	// PodRange holds the addresses of pods, ServiceRange those of Services.
	PodRange     = netip.MustParsePrefix("10.244.0.0/24")
	ServiceRange = netip.MustParsePrefix("10.96.0.0/16")

	// MachineAddress and UplinkAddress are the two ends of the link between this machine
	// and the node.
	MachineAddress = netip.MustParsePrefix("10.243.0.1/30")
	UplinkAddress  = netip.MustParsePrefix("10.243.0.2/30")

	// Address is the node's among its pods. API server, kubelet and DNS listen on it.
	Address = netip.MustParseAddr("10.244.0.1")

	// firstService is the API server's address as a Service.
	firstService = ServiceRange.Addr().Next()
)

const (
	// Name is the node's.
	Name = "realmkeeper"

	// Uplink is the interface inside.
	Uplink = "uplink"

	// bridge connects the pods.
	bridge = "cni0"

	// domain is that of cluster DNS.
	domain = "cluster.local"
)
