package dpop_test

import (
	"net/url"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver/dpop"
)

func TestNormalize(t *testing.T) {
	for given, want := range map[string]string{ // empty if rejected
		"https://api.example.com/v1":             "https://api.example.com/v1",
		"HTTPS://API.Example.COM/V1":             "https://api.example.com/V1",
		"https://api.example.com":                "https://api.example.com/",
		"https://api.example.com?a=b":            "https://api.example.com/",
		"https://api.example.com#a":              "https://api.example.com/",
		"https://api.example.com/v1?a=https://x": "https://api.example.com/v1",
		"https://api.example.com/v1#?":           "https://api.example.com/v1",
		"https://api.example.com:443/":           "https://api.example.com/",
		"https://api.example.com:/":              "https://api.example.com/",
		"https://api.example.com:80/":            "https://api.example.com:80/",
		"https://api.example.com:8443/":          "https://api.example.com:8443/",
		"http://localhost:80/":                   "http://localhost/",
		"http://localhost:443/":                  "http://localhost:443/",
		"https://[2001:DB8::1]:443/":             "https://[2001:db8::1]/",
		"https://x/%7euser/%41%2d":               "https://x/~user/A-",
		"https://x/a%2fb%2Fc":                    "https://x/a%2Fb%2Fc",
		"https://x/%25%37%65":                    "https://x/%257e",
		"https://x/a/../b/./c//d/":               "https://x/a/../b/./c//d/",
		"https://x/:443":                         "https://x/:443",
		"https://x/a@b":                          "https://x/a@b",
		"":                                       "",
		"/v1":                                    "",
		"//x/v1":                                 "",
		"https:/x/v1":                            "",
		"https://":                               "",
		"https:///v1":                            "",
		"https://:443/":                          "",
		"ftp://x/":                               "",
		"https://user@x/":                        "",
		"https://user:password@x/":               "",
		"https://x\\@y/":                         "",
		"https://x/a\\b":                         "",
		"https://x/a b":                          "",
		"https://x/a\n":                          "",
		"https://x/ä":                            "",
		"https://x/%":                            "",
		"https://x/%2":                           "",
		"https://x/%zz":                          "",
		"https://@x/":                            "",
		"https://%c3%a4/":                        "",
		"https://[fe80::1%25eth0]/":              "",
		"https://%78/":                           "",
		"https://::/":                            "",
		"https://a:b:443/":                       "",
		"https://[::1]a/":                        "",
		" https://x/":                            "",
	} {
		got, ok := dpop.Normalize(given)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %t, want %q", given, got, ok, want)
		}
	}
}

// FuzzNormalize checks that normalization is stable and leaves the scheme, the host and the decoded
// path as net/url reads them, so that two URLs are equal only if they name the same resource.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"https://API.example.com:443/%7e%2f?a#b", "http://[::1]:80", "https://x/%zz", "https://a@b/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		normalized, ok := dpop.Normalize(given)
		if !ok {
			return
		}
		if again, ok := dpop.Normalize(normalized); !ok || again != normalized {
			t.Fatalf("%q is normalized to %q and then to %q, %t", given, normalized, again, ok)
		}
		want, err := url.Parse(given)
		if err != nil {
			return // net/url checks ports and IPv6 addresses too
		}
		got, err := url.Parse(normalized)
		if err != nil {
			t.Fatalf("%q is normalized to %q: %v", given, normalized, err)
		}
		path := want.Path
		if path == "" {
			path = "/"
		}
		if got.Path != path || got.RawQuery != "" || got.Fragment != "" || got.User != nil || got.Scheme != want.Scheme || len(got.Hostname()) != len(want.Hostname()) {
			t.Fatalf("%q is normalized to %q", given, normalized)
		}
	})
}
