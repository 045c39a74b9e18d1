package trustedissuers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// localNetworks are addresses of this machine, of its link, and of the metadata services of clouds,
// which serve credentials to anyone who can connect. Private networks (RFC 1918, RFC 6598, RFC 4193)
// are not among them, because other clusters are there.
var localNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),     // link-local, with most metadata services
	netip.MustParsePrefix("192.0.0.0/24"),       // RFC 6890, with a metadata service of Oracle
	netip.MustParsePrefix("100.100.100.200/32"), // the metadata service of Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),   // the platform service of Azure
	netip.MustParsePrefix("224.0.0.0/3"),        // multicast, reserved, and broadcast
	netip.MustParsePrefix("::/127"),             // unspecified and loopback
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fec0::/10"), // RFC 3879
	netip.MustParsePrefix("ff00::/8"),
	netip.MustParsePrefix("fd00:ec2::/32"),    // the services of AWS instances
	netip.MustParsePrefix("fd20:ce::254/128"), // the metadata service of Google
}

// Networks whose addresses contain an IPv4 address that a gateway connects to.
var (
	compatible = netip.MustParsePrefix("::/96")          // RFC 4291 §2.5.5.1
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
)

// denyLocal is the ControlContext of a dialer that connects to no local address. It sees the
// resolved address, so a host name that resolves to a local address can't circumvent it.
func denyLocal(_ context.Context, _, address string, _ syscall.RawConn) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: it is not an IP address", ErrAddress)
	}
	if isLocal(resolved.Addr()) {
		return ErrAddress
	}
	return nil
}

// isLocal reports whether an address, or an IPv4 address that it contains, is in localNetworks.
// Addresses with a zone are link-local.
func isLocal(address netip.Addr) bool {
	address = address.Unmap()
	if address.Zone() != "" || slices.ContainsFunc(localNetworks, func(n netip.Prefix) bool { return n.Contains(address) }) {
		return true
	}
	return slices.ContainsFunc(embedded(address), isLocal)
}

// embedded returns the IPv4 addresses that an IPv6 address can stand for.
func embedded(address netip.Addr) []netip.Addr {
	if address.Is4() {
		return nil
	}
	b := address.As16()
	suffix := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case sixToFour.Contains(address):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case nat64.Contains(address), compatible.Contains(address):
		return []netip.Addr{suffix}
	case localNAT64.Contains(address):
		// The length of the prefix is unknown: 48 or 96 bits (RFC 6052 §2.2). Zero is the part that
		// the other length leaves empty.
		both := []netip.Addr{netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}), suffix}
		return slices.DeleteFunc(both, netip.Addr.IsUnspecified)
	}
	return nil
}
