package claimheaders_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/claimheaders"
)

func TestSet(t *testing.T) {
	for name, test := range map[string]struct{ claims, payload, want string }{
		"text":                 {"a", `{"a":"acme-1.x_~/:@"}`, "acme-1.x_~/:@"},
		"space":                {"a", `{"a":"a b"}`, "a%20b"},
		"not ASCII":            {"a", `{"a":"ä\u2028\ud83d\ude00"}`, "%C3%A4%E2%80%A8%F0%9F%98%80"},
		"integer":              {"a", `{"a":-9007199254740991}`, "-9007199254740991"},
		"list":                 {"a", `{"a":["eu","us,ca","x y"]}`, "eu,us%2Cca,x%20y"},
		"empty list":           {"a", `{"a":[]}`, ""},
		"missing":              {"a", `{"b":"x"}`, ""},
		"object":               {"a", `{"a":{"b":"c"}}`, ""},
		"null":                 {"a", `{"a":null}`, ""},
		"fraction":             {"a", `{"a":1.5}`, ""},
		"underscore":           {"plan_name", `{"plan_name":"x"}`, "x"},
		"payload without JSON": {"a", `{`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			claimheaders.Set(header, test.claims, []byte(test.payload))
			want := http.Header{"X-Auth-Claim-A": {test.want}}
			if test.claims == "plan_name" {
				want = http.Header{"X-Auth-Claim-Plan-Name": {test.want}}
			}
			testkit.Diff(t, "headers", want, header)
		})
	}
}

// A gateway replaces a header that the caller sent only if the response contains it.
func TestSetEveryHeader(t *testing.T) {
	header := http.Header{"X-Auth-Claim-B": {"sent by the caller"}}
	claimheaders.Set(header, "a b c", []byte(`{"a":1,"d":2}`))
	testkit.Diff(t, "headers", http.Header{"X-Auth-Claim-A": {"1"}, "X-Auth-Claim-B": {""}, "X-Auth-Claim-C": {""}}, header)
}

// FuzzClaimHeader checks that a header contains only visible ASCII characters and that the claim can
// be restored from it.
func FuzzClaimHeader(f *testing.F) {
	f.Add("acme", "a,b", int64(-1))
	f.Add("a\r\nb", "%2C", int64(1)<<52)
	f.Add("\u017f\x7f\x00", "\xff,", int64(0))
	f.Fuzz(func(t *testing.T, a, b string, number int64) {
		payload := testkit.Value(json.Marshal(map[string]any{"text": a, "list": []string{a, b}, "number": number}))(t)
		header := http.Header{}
		claimheaders.Set(header, "text list number", payload)
		for name, values := range header {
			if len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Fatalf("%s: %q", name, values)
			}
		}
		// Like this conversion, the JSON encoder replaces each byte that isn't UTF-8.
		a, b = string([]rune(a)), string([]rune(b))
		if got := decode(t, header.Get("X-Auth-Claim-Text")); !slices.Equal(got, []string{a}) {
			t.Errorf("text: got %q, want %q", got, a)
		}
		if got := decode(t, header.Get("X-Auth-Claim-List")); !slices.Equal(got, []string{a, b}) {
			t.Errorf("list: got %q, want %q and %q", got, a, b)
		}
		testkit.Diff(t, "number", strconv.FormatInt(number, 10), header.Get("X-Auth-Claim-Number"))
	})
}

// FuzzClaimHeaderPayload checks that no payload breaks a header.
func FuzzClaimHeaderPayload(f *testing.F) {
	f.Add([]byte(`{"a":"b","c":[null,"d"],"e":{"f":1}}`))
	f.Add([]byte(`{"a":"\ud800\r\n"}`))
	f.Add([]byte("{\"a\": \n1\n}"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		header := http.Header{}
		claimheaders.Set(header, "a c e", payload)
		for name, values := range header {
			if len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Fatalf("%s: %q", name, values)
			}
		}
	})
}

func decode(t *testing.T, value string) []string {
	t.Helper()
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		decoded := testkit.Value(url.PathUnescape(item))(t)
		items = append(items, decoded)
	}
	return items
}
