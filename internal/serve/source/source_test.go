package source_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/serve/source"
)

func TestSourceIsTheLastUntrustedAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := map[string]struct {
		remote    string
		trusted   []netip.Prefix
		forwarded []string
		want      string
	}{
		"no proxy":                    {"192.0.2.1:1234", trusted, nil, "192.0.2.1"},
		"untrusted connection":        {"192.0.2.9:1234", trusted, []string{"192.0.2.1"}, "192.0.2.9"},
		"trusted proxy":               {"10.0.0.1:1234", trusted, []string{"192.0.2.1"}, "192.0.2.1"},
		"proxy without the header":    {"10.0.0.1:1234", trusted, nil, "10.0.0.1"},
		"address added by the client": {"10.0.0.1:1234", trusted, []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1"},
		"several header lines":        {"10.0.0.1:1234", trusted, []string{"198.51.100.7", "192.0.2.1"}, "192.0.2.1"},
		"two proxies":                 {"10.0.0.1:1234", trusted, []string{"198.51.100.7, 192.0.2.1,10.0.0.2"}, "192.0.2.1"},
		"only proxies":                {"10.0.0.1:1234", trusted, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"invalid before a proxy":      {"10.0.0.1:1234", trusted, []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		"with a port":                 {"10.0.0.1:1234", trusted, []string{"192.0.2.1:4711"}, "192.0.2.1"},
		"IPv6":                        {"[fd00::1]:1234", trusted, []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 with a port":            {"[fd00::1]:1234", trusted, []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		"IPv4-mapped IPv6 addresses":  {"[::ffff:10.0.0.1]:1234", trusted, []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{"X-Forwarded-For": tc.forwarded}}
			testkit.Diff(t, "source", tc.want, source.Of(r, tc.trusted).String())
		})
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"fe80::1%eth0":         "fe80::",
	} {
		testkit.Diff(t, "network of "+address, want, source.Network(netip.MustParseAddr(address)).String())
	}
	if got := source.Network(netip.Addr{}); got.IsValid() {
		t.Errorf("Network of no address = %s", got)
	}
}

func TestDisjoint(t *testing.T) {
	list := func(networks string) []netip.Prefix {
		return testkit.Value(source.ParseNetworks(networks))(t)
	}
	for _, pair := range [][2]string{{"", ""}, {"10.0.0.0/8", ""}, {"10.0.0.0/8,fd00::/64", "11.0.0.0/8,fd00:0:0:1::/64"}} {
		if err := source.Disjoint(list(pair[0]), list(pair[1])); err != nil {
			t.Errorf("Disjoint(%q, %q): %v", pair[0], pair[1], err)
		}
	}
	for _, pair := range [][2]string{{"10.0.0.0/8", "10.1.0.0/16"}, {"192.0.2.0/24,10.1.0.0/16", "10.0.0.0/8"}, {"fd00::/64", "fd00::/64"}} {
		if source.Disjoint(list(pair[0]), list(pair[1])) == nil {
			t.Errorf("Disjoint(%q, %q) succeeded", pair[0], pair[1])
		}
	}
}

func TestParseNetworks(t *testing.T) {
	got, err := source.ParseNetworks("10.0.0.1/8, fd00::/8")
	want := []string{"10.0.0.0/8", "fd00::/8"}
	var names []string
	for _, network := range got {
		names = append(names, network.String())
	}
	if diff := cmp.Diff(want, names); diff != "" || err != nil {
		t.Errorf("ParseNetworks(): %v (-want +got):\n%s", err, diff)
	}
	if got, err := source.ParseNetworks(""); len(got) > 0 || err != nil {
		t.Errorf("ParseNetworks of an empty list = %v, %v", got, err)
	}
	for _, list := range []string{"10.0.0.1", "10.0.0.0/8,", "10.0.0.0/33", "all"} {
		if _, err := source.ParseNetworks(list); err == nil {
			t.Errorf("ParseNetworks(%q) succeeded", list)
		}
	}
}
