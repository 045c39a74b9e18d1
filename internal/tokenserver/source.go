package tokenserver

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// sourceOf returns the address from which a request was sent. This is the connection's address or,
// if it belongs to a trusted proxy, an address from X-Forwarded-For. Each proxy appends its
// client's address, so the last address that is not a trusted proxy is used. Earlier addresses may
// have been forged by the client.
func sourceOf(r *http.Request, trusted []netip.Prefix) netip.Addr {
	connection, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // only in tests without a connection
	}
	source := connection.Addr().Unmap()
	if len(trusted) == 0 || !containsAddr(trusted, source) {
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
			if source = address; !containsAddr(trusted, source) {
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

func containsAddr(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(address) })
}
