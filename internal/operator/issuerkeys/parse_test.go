package issuerkeys

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestParseMetadata(t *testing.T) {
	const issuer = "https://issuer.example.com/a"
	const good = "https://keys.example.net/a?version=1"
	for name, test := range map[string]struct {
		document string
		want     error
	}{
		"keys at another host": {`{"issuer":"` + issuer + `","jwks_uri":"` + good + `"}`, nil},
		"slash at the end":     {`{"issuer":"` + issuer + `/","jwks_uri":"` + good + `"}`, ErrIssuer},
		"other case":           {`{"issuer":"` + strings.ToUpper(issuer) + `","jwks_uri":"` + good + `"}`, ErrIssuer},
		"no issuer":            {`{"jwks_uri":"` + good + `"}`, ErrIssuer},
		"no keys":              {`{"issuer":"` + issuer + `"}`, ErrMetadata},
		"HTTP":                 {`{"issuer":"` + issuer + `","jwks_uri":"http://keys.example.net"}`, ErrMetadata},
		"file":                 {`{"issuer":"` + issuer + `","jwks_uri":"file:///etc/passwd"}`, ErrMetadata},
		"no host":              {`{"issuer":"` + issuer + `","jwks_uri":"https:///keys"}`, ErrMetadata},
		"relative":             {`{"issuer":"` + issuer + `","jwks_uri":"/keys"}`, ErrMetadata},
		"user information":     {`{"issuer":"` + issuer + `","jwks_uri":"https://a@keys.example.net"}`, ErrMetadata},
		"fragment":             {`{"issuer":"` + issuer + `","jwks_uri":"https://keys.example.net/#"}`, ErrMetadata},
		"number":               {`{"issuer":"` + issuer + `","jwks_uri":7}`, ErrMetadata},
		"list":                 {`[]`, ErrMetadata},
		"empty":                {``, ErrMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMetadata([]byte(test.document), issuer)
			if !errors.Is(err, test.want) || (err == nil) != (got == good) {
				t.Errorf("URL %q and error %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestMetadataURL(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://issuer.example.com":    "https://issuer.example.com/.well-known/openid-configuration",
		"https://issuer.example.com/":   "https://issuer.example.com/.well-known/openid-configuration",
		"https://issuer.example.com/a":  "https://issuer.example.com/a/.well-known/openid-configuration",
		"https://issuer.example.com/a/": "https://issuer.example.com/a/.well-known/openid-configuration",
	} {
		if got := metadataURL(issuer); got != want {
			t.Errorf("metadata of %s at %s, want %s", issuer, got, want)
		}
	}
}

// FuzzParseMetadata checks that metadata leads to an HTTPS URL or to one of the fixed errors.
func FuzzParseMetadata(f *testing.F) {
	const issuer = "https://issuer.example.com"
	f.Add([]byte(`{"issuer":"https://issuer.example.com","jwks_uri":"https://issuer.example.com/keys"}`))
	f.Add([]byte(`{"issuer":"https://issuer.example.com","jwks_uri":"https://a:b@[::1%25eth0]:1/#"}`))
	f.Add([]byte(`{"issuer":"https://other.example.com"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		location, err := parseMetadata(data, issuer)
		if err != nil {
			if location != "" || (!errors.Is(err, ErrMetadata) && !errors.Is(err, ErrIssuer)) {
				t.Fatalf("URL %q and error %v", location, err)
			}
			return
		}
		parsed, err := url.Parse(location)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.Fragment != "" {
			t.Fatalf("URL %q: %v", location, err)
		}
	})
}
