package oauth_test

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

func encode(userinfo string) string { return base64.StdEncoding.EncodeToString([]byte(userinfo)) }

func TestParseBasic(t *testing.T) {
	tests := map[string]struct {
		header string
		want   oauth.Credentials
		reject bool
	}{
		"plain":                              {header: "Basic " + encode("billing:rk_1"), want: oauth.Credentials{ClientID: "billing", ClientSecret: "rk_1"}},
		"scheme in lower case":               {header: "basic " + encode("a:b"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b"}},
		"several spaces":                     {header: "Basic    " + encode("a:b"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b"}},
		"both characters of padding omitted": {header: "Basic YTpiYw", want: oauth.Credentials{ClientID: "a", ClientSecret: "bc"}},
		"split at the first colon":           {header: "Basic " + encode("a:b:c"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b:c"}},
		"each half decoded once":             {header: "Basic " + encode("a%3Ab:%25+%2B"), want: oauth.Credentials{ClientID: "a:b", ClientSecret: "% +", UndecodedSecret: "%25+%2B"}},
		"encoded, or not":                    {header: "Basic " + encode("a:b+c%41~*!'()"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b cA~*!'()", UndecodedSecret: "b+c%41~*!'()"}},
		"encoded, except for slashes":        {header: "Basic " + encode("a:b%2B/%3D"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b+/=", UndecodedSecret: "b%2B/%3D"}},
		"percent sign not encoded":           {header: "Basic " + encode("a:b%c"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b%c"}},
		"encoded control characters":         {header: "Basic " + encode("a:b%00"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b%00"}},
		"UTF-8":                              {header: "Basic " + encode("Jürgen:pässwörd"), want: oauth.Credentials{ClientID: "Jürgen", ClientSecret: "pässwörd"}},
		"only the scheme":                    {header: "Basic", reject: true},
		"another scheme":                     {header: "Bearer " + encode("a:b"), reject: true},
		"scheme with the prefix Basic":       {header: "Basics " + encode("a:b"), reject: true},
		"not Base64":                         {header: "Basic !!!!", reject: true},
		"padding after a full quantum":       {header: "Basic YTpi==", reject: true},
		"nonzero trailing bits":              {header: "Basic YTpiYx==", reject: true},
		"line break in the Base64":           {header: "Basic YT\npi", reject: true},
		"no colon":                           {header: "Basic " + encode("ab"), reject: true},
		"no ID":                              {header: "Basic " + encode(":b"), reject: true},
		"no secret":                          {header: "Basic " + encode("a:"), reject: true},
		"invalid percent encoding in the ID": {header: "Basic " + encode("a%zz:b"), reject: true},
		"NUL":                                {header: "Basic " + encode("a\x00:b"), reject: true},
		"invalid UTF-8":                      {header: "Basic " + encode("a:\xff"), reject: true},
		"encoded invalid UTF-8 in the ID":    {header: "Basic " + encode("a%ff:b"), reject: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := oauth.ParseBasic(tc.header)
			if ok == tc.reject {
				t.Errorf("accepted: %t, want %t", ok, !tc.reject)
			}
			testkit.Diff(t, "credentials", tc.want, got)
		})
	}
}

// A secret with a character that every encoder replaces wasn't encoded.
func TestParseBasicSeesThatASecretIsNotEncoded(t *testing.T) {
	for _, c := range " \"#$&,:;<=>?@[\\]^`{|}ä€" {
		sent := "%41+" + string(c)
		got, _ := oauth.ParseBasic("Basic " + encode("a:"+sent))
		testkit.Diff(t, "credentials", oauth.Credentials{ClientID: "a", ClientSecret: sent}, got)
	}
}

// Accepted credentials are valid, and they are parsed to the same values after a client encodes
// them as RFC 6749 §2.3.1 requires. The secret that was sent is always one of the two.
func FuzzParseBasic(f *testing.F) {
	for _, seed := range []string{
		"Basic " + encode("a:b"), "basic  YTpiYw", "Basic YTpiYw==", "Basic " + encode("a%3Ab:%25+%2B"),
		"Basic", "Basic YT\npi", "Bearer x", "Basic " + encode("a:b:c"), "Basic " + encode("a:\xff"), "Basic ====", "Basic YTpiYx==", "Basic " + encode("a:b+c:%41%"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, ok := oauth.ParseBasic(header)
		if !ok {
			if got != (oauth.Credentials{}) {
				t.Fatalf("rejected the header but returned %+v", got)
			}
			return
		}
		if !oauth.IsBasic(header) {
			t.Fatal("accepted a header without the Basic scheme")
		}
		if got.UndecodedSecret == got.ClientSecret {
			t.Fatalf("both secrets are %q", got.ClientSecret)
		}
		for _, s := range append(got.Secrets(), got.ClientID) {
			if !oauth.ValidCredential(s) {
				t.Fatalf("accepted %q", s)
			}
		}
		if strings.ContainsAny(header, "\r\n\x00") {
			t.Fatalf("accepted a control character in %q", header)
		}
		for _, secret := range got.Secrets() {
			again, ok := oauth.ParseBasic("Basic " + encode(url.QueryEscape(got.ClientID)+":"+url.QueryEscape(secret)))
			if !ok || again.ClientID != got.ClientID || again.ClientSecret != secret {
				t.Fatalf("parsing the encoded credentials again returned %+v, %t, want the secret %q", again, ok, secret)
			}
			sent, ok := oauth.ParseBasic("Basic " + encode(url.QueryEscape(got.ClientID)+":"+secret))
			if !ok || !slices.Contains(sent.Secrets(), secret) {
				t.Fatalf("parsing the credentials with the secret %q as it is returned %+v, %t", secret, sent, ok)
			}
		}
	})
}
