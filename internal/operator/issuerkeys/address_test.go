package issuerkeys

import (
	"errors"
	"net/netip"
	"testing"
)

func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8":                 false,
		"10.1.2.3":                false, // RFC 1918: other clusters are there
		"100.64.0.1":              false, // RFC 6598
		"169.253.255.255":         false,
		"169.255.0.0":             false,
		"2a00:1450:4001:830::200": false,
		"fd12:3456:789a::1":       false, // RFC 4193
		"::2":                     true,  // contains 0.0.0.2

		"0.0.0.0":         true,
		"127.0.0.1":       true,
		"169.254.169.254": true, // the metadata services of AWS, Azure, and Google
		"100.100.100.200": true,
		"168.63.129.16":   true,
		"192.0.0.192":     true,
		"239.255.255.255": true,
		"255.255.255.255": true,
		"::":              true,
		"::1":             true,
		"fe80::1":         true,
		"ff02::1":         true,
		"fd00:ec2::254":   true,
		"fd20:ce::254":    true,

		"::ffff:169.254.169.254":       true,
		"::ffff:8.8.8.8":               false,
		"::127.0.0.1":                  true,
		"64:ff9b::169.254.169.254":     true,
		"64:ff9b::8.8.8.8":             false,
		"64:ff9b:1::169.254.169.254":   true, // a prefix of 96 bits
		"64:ff9b:1::8.8.8.8":           false,
		"64:ff9b:1:a9fe:a9:fe00::":     true, // a prefix of 48 bits with 169.254.169.254
		"64:ff9b:1:808:8:800::":        false,
		"2002:a9fe:a9fe::":             true,
		"2002:808:808::1":              false,
		"2002:6440:1::169.254.169.254": false, // only the first 4 bytes are an address
	} {
		t.Run(address, func(t *testing.T) {
			if got := isLocal(netip.MustParseAddr(address)); got != want {
				t.Errorf("local: %t, want %t", got, want)
			}
			err := denyLocal(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil)
			if errors.Is(err, ErrAddress) != want {
				t.Errorf("error %v, want the address denied: %t", err, want)
			}
		})
	}
	if err := denyLocal(t.Context(), "tcp", "localhost:443", nil); !errors.Is(err, ErrAddress) {
		t.Errorf("error %v for a host name, want %v", err, ErrAddress)
	}
}
