package tokenserver

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// sourceOf returns the address that a request comes from: of the connection, or where that is
// a trusted proxy's, what it says in X-Forwarded-For. Each proxy adds at the end whom it was
// asked by, so that the last one which isn't trusted counts; what stands before it, anybody
// may have written.
func sourceOf(r *http.Request, trusted []netip.Prefix) netip.Addr {
	connection, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a test without a connection
	}
	source := connection.Addr().Unmap()
	if len(trusted) == 0 || !within(source, trusted) {
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
				return source // the proxy that passed this on is all that is known
			}
			if source = address; !within(source, trusted) {
				return source
			}
		}
	}
	return source
}

// parseHop reads an address with a port or without, as proxies write it.
func parseHop(hop string) (netip.Addr, bool) {
	if address, err := netip.ParseAddr(strings.Trim(hop, "[]")); err == nil {
		return address.Unmap(), true
	}
	address, err := netip.ParseAddrPort(hop)
	return address.Addr().Unmap(), err == nil
}

func within(address netip.Addr, networks []netip.Prefix) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
