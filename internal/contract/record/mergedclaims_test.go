package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
)

func TestMergeClaims(t *testing.T) {
	realm := v1beta1.Claims{{Name: "tier", String: "gold"}, {Name: "Zone", Strings: []string{"eu", `a"b`}}}
	client := v1beta1.Claims{{Name: "seats", Integer: new(int64)}, {Name: "limit", Integer: new(int64(-9007199254740991))}}
	for name, test := range map[string]struct {
		lists []v1beta1.Claims
		want  string
	}{
		"both":            {[]v1beta1.Claims{realm, client}, `,"Zone":["eu","a\"b"],"limit":-9007199254740991,"seats":0,"tier":"gold"`},
		"in either order": {[]v1beta1.Claims{client, realm}, `,"Zone":["eu","a\"b"],"limit":-9007199254740991,"seats":0,"tier":"gold"`},
		"reserved names": {[]v1beta1.Claims{
			{{Name: "status", String: "gold"}, {Name: "Status_List", String: "a"}, {Name: "TTL", Integer: new(int64)}, {Name: "tier", String: "gold"}},
			{{Name: "act", String: "a"}, {Name: "may_act", String: "a"}, {Name: "sub_id", String: "a"}, {Name: "sub_uid", String: "a"}, {Name: "rule", String: "a"}},
		}, `,"tier":"gold"`},
		"special characters": {
			[]v1beta1.Claims{{{Name: "a", String: "\r\n\x00\u2028\",\"sub\":\"root"}}},
			`,"a":"\r\n\u0000\u2028\",\"sub\":\"root"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "claims", test.want, string(record.EncodeClaims(record.MergeClaims(test.lists...))))
		})
	}
}

func TestDescribeExcessClaims(t *testing.T) {
	numbered := func(n int) v1beta1.Claims {
		var list v1beta1.Claims
		for i := range n {
			list = append(list, v1beta1.Claim{Name: v1beta1.ClaimName(fmt.Sprintf("c%d", i)), Integer: new(int64)})
		}
		return list
	}
	text := func(s string) v1beta1.Claims { return v1beta1.Claims{{Name: "a", String: s}} }
	const members = len(`,"a":""`)
	for name, test := range map[string]struct {
		claims v1beta1.Claims
		want   string
	}{
		"16 claims":                   {numbered(16), ""},
		"17 claims":                   {numbered(17), "17 claims with 126 bytes as JSON, but tokens can have 16 with 2048 bytes"},
		"2048 bytes":                  {text(strings.Repeat("a", 2048-members)), ""},
		"2049 bytes":                  {text(strings.Repeat("a", 2049-members)), "1 claims with 2049 bytes as JSON, but tokens can have 16 with 2048 bytes"},
		"characters of several bytes": {text(strings.Repeat("ä", 1024)), "1 claims with 2055 bytes as JSON, but tokens can have 16 with 2048 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := record.DescribeExcessClaims(record.MergeClaims(test.claims)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
