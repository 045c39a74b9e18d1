// Package source determines where a request was sent from, through the proxies that the
// administrator trusts.
package source

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Of returns the address from which a request was sent. This is the connection's address or,
// if it belongs to a trusted proxy, an address from X-Forwarded-For. Each proxy appends its
// client's address, so the last address that is not a trusted proxy is used. Earlier addresses may
// have been forged by the client.
func Of(r *http.Request, trusted []netip.Prefix) netip.Addr {
	connection, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // only in tests without a connection
	}
	source := connection.Addr().Unmap()
	if len(trusted) == 0 || !Contains(trusted, source) {
		return source
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for rest, more := line, true; more; {
			var hop string
			if at := strings.LastIndexByte(rest, ','); at >= 0 {
				rest, hop = rest[:at], rest[at+1:]
			} else {
				hop, more = rest, false
			}
			address, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return source // the last valid address is the proxy that added the invalid one
			}
			if source = address; !Contains(trusted, source) {
				return source
			}
		}
	}
	return source
}

// parseHop parses an address with or without a port. Some proxies add the port.
func parseHop(hop string) (netip.Addr, bool) {
	if address, err := netip.ParseAddr(strings.Trim(hop, "[]")); err == nil {
		return address.Unmap(), true
	}
	address, err := netip.ParseAddrPort(hop)
	return address.Addr().Unmap(), err == nil
}

// Contains reports whether one of the networks contains the address.
func Contains(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Disjoint returns an error that names the networks if one of a overlaps one of b.
func Disjoint(a, b []netip.Prefix) error {
	for _, network := range a {
		if i := slices.IndexFunc(b, network.Overlaps); i >= 0 {
			return fmt.Errorf("%s overlaps %s", network, b[i])
		}
	}
	return nil
}

// networkBits6 is the IPv6 prefix length that counts as one source. Attackers usually control a
// whole network, not just one address.
const networkBits6 = 64

// Network returns the address under which everything from a source is counted: the address itself
// for IPv4, and the /64 network for IPv6.
func Network(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(networkBits6); err == nil {
			return prefix.Addr()
		}
	}
	return address
}

// Into returns a function for flag.FlagSet.Func that parses networks into a variable.
func Into(networks *[]netip.Prefix) func(string) error {
	return func(list string) (err error) {
		*networks, err = ParseNetworks(list)
		return err
	}
}

// ParseNetworks parses comma-separated networks in CIDR notation, such as 10.0.0.0/8,fd00::/8. An
// empty list has no networks.
//
// The error names the invalid network.
func ParseNetworks(list string) ([]netip.Prefix, error) {
	if list == "" {
		return nil, nil
	}
	var networks []netip.Prefix
	for network := range strings.SplitSeq(list, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(network))
		if err != nil {
			return nil, fmt.Errorf("%q is not a network in CIDR notation: %w", network, err)
		}
		networks = append(networks, prefix.Masked())
	}
	return networks, nil
}
