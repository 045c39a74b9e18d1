package oauth_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

func encode(userinfo string) string { return base64.StdEncoding.EncodeToString([]byte(userinfo)) }

func TestParseBasic(t *testing.T) {
	tests := map[string]struct {
		header string
		want   oauth.Credentials
		wantNo bool
	}{
		"plain":                        {header: "Basic " + encode("billing:rk_1"), want: oauth.Credentials{ClientID: "billing", ClientSecret: "rk_1"}},
		"scheme in lower case":         {header: "basic " + encode("a:b"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b"}},
		"scheme in upper case":         {header: "BASIC " + encode("a:b"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b"}},
		"several spaces":               {header: "Basic    " + encode("a:b"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b"}},
		"two characters of padding":    {header: "Basic YTpiYw==", want: oauth.Credentials{ClientID: "a", ClientSecret: "bc"}},
		"two left out":                 {header: "Basic YTpiYw", want: oauth.Credentials{ClientID: "a", ClientSecret: "bc"}},
		"one character of padding":     {header: "Basic YTpiY2Q=", want: oauth.Credentials{ClientID: "a", ClientSecret: "bcd"}},
		"one left out":                 {header: "Basic YTpiY2Q", want: oauth.Credentials{ClientID: "a", ClientSecret: "bcd"}},
		"split at the first colon":     {header: "Basic " + encode("a:b:c"), want: oauth.Credentials{ClientID: "a", ClientSecret: "b:c"}},
		"each half decoded once":       {header: "Basic " + encode("a%3Ab:%25+%2B"), want: oauth.Credentials{ClientID: "a:b", ClientSecret: "% +"}},
		"decoded once, not twice":      {header: "Basic " + encode("a:%2541"), want: oauth.Credentials{ClientID: "a", ClientSecret: "%41"}},
		"UTF-8":                        {header: "Basic " + encode("Jürgen:pässwörd"), want: oauth.Credentials{ClientID: "Jürgen", ClientSecret: "pässwörd"}},
		"UTF-8, percent-encoded":       {header: "Basic " + encode("J%C3%BCrgen:p"), want: oauth.Credentials{ClientID: "Jürgen", ClientSecret: "p"}},
		"empty":                        {header: "", wantNo: true},
		"the scheme alone":             {header: "Basic", wantNo: true},
		"the scheme and a space":       {header: "Basic ", wantNo: true},
		"another scheme":               {header: "Bearer " + encode("a:b"), wantNo: true},
		"a scheme that begins alike":   {header: "Basics " + encode("a:b"), wantNo: true},
		"no space":                     {header: "Basic" + encode("a:b"), wantNo: true},
		"a tab for the space":          {header: "Basic\t" + encode("a:b"), wantNo: true},
		"not Base64":                   {header: "Basic !!!!", wantNo: true},
		"the URL alphabet":             {header: "Basic " + base64.URLEncoding.EncodeToString([]byte("a:\u07ff\u07ff")), wantNo: true},
		"one character of Base64":      {header: "Basic YTpiY", wantNo: true},
		"too much padding":             {header: "Basic YTpiYw===", wantNo: true},
		"padding alone":                {header: "Basic ====", wantNo: true},
		"padding in the middle":        {header: "Basic YTpi=YTpi", wantNo: true},
		"padding of a full quantum":    {header: "Basic YTpi==", wantNo: true},
		"bits beyond the last byte":    {header: "Basic YTpiYx==", wantNo: true},
		"a space after it":             {header: "Basic YTpi ", wantNo: true},
		"a line break within":          {header: "Basic YT\npi", wantNo: true},
		"a carriage return at the end": {header: "Basic YTpi\r", wantNo: true},
		"no colon":                     {header: "Basic " + encode("ab"), wantNo: true},
		"an encoded colon alone":       {header: "Basic " + encode("a%3Ab"), wantNo: true},
		"no id":                        {header: "Basic " + encode(":b"), wantNo: true},
		"no secret":                    {header: "Basic " + encode("a:"), wantNo: true},
		"neither":                      {header: "Basic " + encode(":"), wantNo: true},
		"a bad escape in the id":       {header: "Basic " + encode("a%zz:b"), wantNo: true},
		"a bad escape in the secret":   {header: "Basic " + encode("a:b%2"), wantNo: true},
		"NUL":                          {header: "Basic " + encode("a\x00:b"), wantNo: true},
		"an encoded NUL":               {header: "Basic " + encode("a:b%00"), wantNo: true},
		"a line break in the secret":   {header: "Basic " + encode("a:b\n"), wantNo: true},
		"an encoded line break":        {header: "Basic " + encode("a:b%0d%0a"), wantNo: true},
		"DEL":                          {header: "Basic " + encode("a:\x7f"), wantNo: true},
		"invalid UTF-8":                {header: "Basic " + encode("a:\xff"), wantNo: true},
		"invalid UTF-8, encoded":       {header: "Basic " + encode("a%ff:b"), wantNo: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := oauth.ParseBasic(tc.header)
			if ok == tc.wantNo {
				t.Errorf("accepted: %t, want %t", ok, !tc.wantNo)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIsBasic(t *testing.T) {
	tests := map[string]bool{
		"Basic YTpi": true, "bAsIc": true, "Basic ": true, "Basic !": true,
		"": false, "Bas": false, "Basics x": false, "Bearer x": false, "Basic\tx": false, " Basic x": false,
	}
	for header, want := range tests {
		if got := oauth.IsBasic(header); got != want {
			t.Errorf("IsBasic(%q) = %t, want %t", header, got, want)
		}
	}
}

// What is accepted is clean, and is the same again when a client writes it as RFC 6749 §2.3.1 says.
func FuzzParseBasic(f *testing.F) {
	for _, seed := range []string{
		"Basic " + encode("a:b"), "basic  YTpiYw", "Basic YTpiYw==", "Basic " + encode("a%3Ab:%25+%2B"),
		"Basic", "Basic YT\npi", "Bearer x", "Basic " + encode("a:b:c"), "Basic " + encode("a:\xff"), "Basic ====", "Basic YTpiYx==",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, ok := oauth.ParseBasic(header)
		if !ok {
			if got != (oauth.Credentials{}) {
				t.Fatalf("refused, and yet it returned %+v", got)
			}
			return
		}
		if !oauth.IsBasic(header) {
			t.Fatal("accepted what is not of the Basic scheme")
		}
		for _, s := range []string{got.ClientID, got.ClientSecret} {
			if !oauth.ValidCredential(s) {
				t.Fatalf("accepted %q", s)
			}
		}
		if strings.ContainsAny(header, "\r\n\x00") {
			t.Fatalf("accepted a control character in %q", header)
		}
		again, ok := oauth.ParseBasic("Basic " + encode(url.QueryEscape(got.ClientID)+":"+url.QueryEscape(got.ClientSecret)))
		if !ok || again != got {
			t.Fatalf("read again: %+v, %t, want %+v", again, ok, got)
		}
	})
}
