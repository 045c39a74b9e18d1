package api_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

const (
	claimTypeRule     = "a claim must have exactly one of: string, integer, strings"
	claimNameRule     = "a claim name must begin with an ASCII letter and have only ASCII letters, digits, and characters from _.:/-"
	claimReservedRule = "a claim must not have a reserved name, regardless of case, as "
	claimNamesRule    = "claims must have names that differ in more than case, because many verifiers ignore the case of names"
	claimSizeRule     = "claims must have at most 2048 characters in all names and values together, because they are part of every token"
	claimAllowedRule  = "spec.allowedClaims must not list a claim, in any case, that spec.claims sets for every client"
	firstClaim        = "spec.claims[0]"
)

// claim returns a spec with one claim.
func claim(members string) string { return "claims: [{" + members + "}]" }

func claimNamed(name string) string { return fmt.Sprintf("claims: [{name: %q, string: a}]", name) }

// claimValidations covers spec.claims of both kinds.
var claimValidations = map[string]validation{
	"claims of all types":               {spec: "claims: [{name: tenant, string: acme}, {name: seats, integer: 25}, {name: regions, strings: [eu, us]}]"},
	"empty list of claims":              {spec: "claims: []"},
	"16 claims":                         {spec: "claims: " + each("{name: c%d, integer: 0}", 16)},
	"17 claims":                         {spec: "claims: " + each("{name: c%d, integer: 0}", 17), wantField: "spec.claims", wantRule: "must have at most 16 items"},
	"claim with zero":                   {spec: claim("name: a, integer: 0")},
	"claim with the largest integer":    {spec: claim("name: a, integer: 9007199254740991")},
	"claim with the smallest integer":   {spec: claim("name: a, integer: -9007199254740991")},
	"claim with an integer of 54 bits":  {spec: claim("name: a, integer: 9007199254740992"), wantField: firstClaim + ".integer", wantRule: "should be less than or equal to 9007199254740991"},
	"claim with an integer of -54 bits": {spec: claim("name: a, integer: -9007199254740992"), wantField: firstClaim + ".integer", wantRule: "should be greater than or equal to -9007199254740991"},
	"claim with a fraction":             {spec: claim("name: a, integer: 1.5"), wantField: firstClaim + ".integer", wantRule: "must be of type int"},
	"claim with a number as a text":     {spec: claim("name: a, integer: '1'"), wantField: firstClaim + ".integer", wantRule: "must be of type integer"},
	"claim with any text":               {spec: claim(`name: a, string: "\r\n\"\\ä\u2028\U0001F600"`)},
	"claim with a text of 512":          {spec: claim("name: a, string: " + strings.Repeat("ä", 512))},
	"claim with a text of 513":          {spec: claim("name: a, string: " + strings.Repeat("a", 513)), wantField: firstClaim + ".string", wantRule: "may not be more than 512"},
	"claim with an empty text":          {spec: claim(`name: a, string: ""`), wantField: firstClaim + ".string", wantRule: tooShort},
	"claim with an object as a text":    {spec: claim("name: a, string: {b: c}"), wantField: firstClaim + ".string", wantRule: "must be of type string"},
	"claim with 16 texts":               {spec: claim("name: a, strings: " + list("s", 16))},
	"claim with 17 texts":               {spec: claim("name: a, strings: " + list("s", 17)), wantField: firstClaim + ".strings", wantRule: "must have at most 16 items"},
	"claim with an empty list":          {spec: claim("name: a, strings: []"), wantField: firstClaim + ".strings", wantRule: "should have at least 1 items"},
	"claim with an empty text in list":  {spec: claim(`name: a, strings: [""]`), wantField: firstClaim + ".strings[0]", wantRule: tooShort},
	"claim with 256 in a list":          {spec: claim("name: a, strings: [" + strings.Repeat("a", 256) + "]")},
	"claim with 257 in a list":          {spec: claim("name: a, strings: [" + strings.Repeat("a", 257) + "]"), wantField: firstClaim + ".strings[0]", wantRule: "may not be more than 256"},
	"claim without a value":             {spec: claim("name: a"), wantField: firstClaim, wantRule: claimTypeRule},
	"claim with two values":             {spec: claim("name: a, string: b, integer: 1"), wantField: firstClaim, wantRule: claimTypeRule},
	"claim with three values":           {spec: claim("name: a, string: b, integer: 1, strings: [c]"), wantField: firstClaim, wantRule: claimTypeRule},

	"claim without a name":               {spec: claim("string: a"), wantField: firstClaim + ".name", wantRule: "Required value"},
	"name of a claim with 64 characters": {spec: claimNamed(strings.Repeat("a", 64))},
	"name of a claim with 65 characters": {spec: claimNamed(strings.Repeat("a", 65)), wantField: firstClaim + ".name", wantRule: "may not be more than 64"},
	"empty name of a claim":              {spec: claimNamed(""), wantField: firstClaim + ".name", wantRule: tooShort},
	"name of a claim as a URL":           {spec: claimNamed("https://acme.example/Plan_1.2-a")},
	"name of a claim with a quote":       {spec: claimNamed(`a"`), wantField: firstClaim + ".name", wantRule: claimNameRule},
	"name of a claim with a backslash":   {spec: claimNamed(`a\`), wantField: firstClaim + ".name", wantRule: claimNameRule},
	"name of a claim with a space":       {spec: claimNamed("a b"), wantField: firstClaim + ".name", wantRule: `Invalid value: "a b": ` + claimNameRule},
	"name of a claim with a line break":  {spec: claimNamed("a\n"), wantField: firstClaim + ".name", wantRule: claimNameRule},
	"name of a claim with an underscore": {spec: claimNamed("_a"), wantField: firstClaim + ".name", wantRule: claimNameRule},
	// encoding/json takes these characters for "s" and "k".
	"name of a claim with a long s":       {spec: claimNamed("i\u017F\u017F"), wantField: firstClaim + ".name", wantRule: claimNameRule},
	"name of a claim with a Kelvin sign":  {spec: claimNamed("\u212A"), wantField: firstClaim + ".name", wantRule: claimNameRule},
	"name like a reserved one":            {spec: "claims: [{name: issuer, string: a}, {name: sub2, string: a}, {name: role, string: a}, {name: client-id, string: a}]"},
	"two claims with the same name":       {spec: "claims: [{name: a, string: b}, {name: a, string: c}]", wantField: "spec.claims[1]", wantRule: "Duplicate value"},
	"two claims that differ in case":      {spec: "claims: [{name: tenant, string: b}, {name: Tenant, string: c}]", wantField: "spec.claims", wantRule: claimNamesRule},
	"claims of 2048 characters":           {spec: claimsOf(2048)},
	"claims of 2049 characters":           {spec: claimsOf(2049), wantField: "spec.claims", wantRule: claimSizeRule},
	"claims of 2049 characters in a list": {spec: "claims: [{name: a, strings: " + each(strings.Repeat("a", 126)+"%02d", 16) + "}]", wantField: "spec.claims", wantRule: claimSizeRule},
}

// claimsOf returns a spec with claims whose names and values have n characters.
func claimsOf(n int) string {
	var claims []string
	for i := 0; n > 0; i++ {
		size := min(n, 500)
		claims = append(claims, fmt.Sprintf("{name: %c, string: %s}", 'a'+i, strings.Repeat("a", size-1)))
		n -= size
	}
	return "claims: [" + strings.Join(claims, ", ") + "]"
}

// reservedClaimValidations covers each reserved name in three spellings.
var reservedClaimValidations = func() map[string]validation {
	cases := map[string]validation{}
	for _, name := range v1beta1.ReservedClaims {
		for _, spelling := range []string{name, strings.ToUpper(name), name[:len(name)-1] + strings.ToUpper(name[len(name)-1:])} {
			want := `Invalid value: "` + spelling + `": ` + claimReservedRule + spelling
			if strings.HasPrefix(name, "_") {
				want = claimNameRule
			}
			cases["reserved claim "+spelling] = validation{spec: claimNamed(spelling), wantField: firstClaim + ".name", wantRule: want}
		}
	}
	return cases
}()

// allowedClaimValidations covers spec.allowedClaims.
var allowedClaimValidations = map[string]validation{
	"allowed claims":               {spec: "allowedClaims: [tenant, plan]"},
	"empty list of allowed claims": {spec: "allowedClaims: []"},
	"64 allowed claims":            {spec: "allowedClaims: " + list("c", 64)},
	"65 allowed claims":            {spec: "allowedClaims: " + list("c", 65), wantField: "spec.allowedClaims", wantRule: "must have at most 64 items"},
	"claim allowed twice":          {spec: "allowedClaims: [a, a]", wantField: "spec.allowedClaims[1]", wantRule: `Duplicate value: "a"`},
	"empty allowed claim":          {spec: `allowedClaims: [""]`, wantField: "spec.allowedClaims[0]", wantRule: tooShort},
	"long allowed claim":           {spec: "allowedClaims: [" + strings.Repeat("a", 65) + "]", wantField: "spec.allowedClaims[0]", wantRule: "may not be more than 64"},
	"every claim allowed":          {spec: `allowedClaims: ["*"]`, wantField: "spec.allowedClaims[0]", wantRule: claimNameRule},
	"reserved claim allowed":       {spec: "allowedClaims: [a, Scope]", wantField: "spec.allowedClaims[1]", wantRule: claimReservedRule + "Scope"},
	"claim set and another one":    {spec: "{allowedClaims: [a], claims: [{name: b, string: c}]}"},
	"claim set and allowed":        {spec: "{allowedClaims: [a], claims: [{name: a, string: c}]}", wantField: "spec.allowedClaims", wantRule: claimAllowedRule},
	"claim set and allowed, case":  {spec: "{allowedClaims: [Plan], claims: [{name: pLAN, string: c}]}", wantField: "spec.allowedClaims", wantRule: claimAllowedRule},
}

// TestReservedClaims checks that each rule for the names of claims has the names that Go code uses.
func TestReservedClaims(t *testing.T) {
	quoted := regexp.MustCompile(`'([^']+)'`)
	for _, kind := range kinds {
		found := 0
		for _, n := range walk("", schemaOf(t, kind)) {
			for _, rule := range n.schema.XValidations {
				if !strings.HasPrefix(rule.Rule, "!(self.lowerAscii() in [") {
					continue
				}
				found++
				var names []string
				for _, match := range quoted.FindAllStringSubmatch(rule.Rule, -1) {
					names = append(names, match[1])
				}
				if !slices.Equal(names, v1beta1.ReservedClaims) {
					t.Errorf("%s, %s: got %v, want %v", kind.name, n.path, names, v1beta1.ReservedClaims)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no rule for the names of claims", kind.name)
		}
	}
	for i, name := range v1beta1.ReservedClaims {
		if name != strings.ToLower(name) || slices.Contains(v1beta1.ReservedClaims[:i], name) {
			t.Errorf("%q must be in lowercase and listed once", name)
		}
	}
}
