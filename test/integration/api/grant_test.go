package api_test

import (
	"fmt"
	"strings"
)

const (
	namesRule    = "must contain namespace names: lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	operatorRule = "must be set if and only if operator is In or NotIn; operator is "
)

const (
	unionRule = "must have exactly one of from, names, and selector, for example names: [acme-apps] or from: All, but it has "
)

const (
	grantNameRule    = "spec.grants.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	grantIssuersRule = "spec.grants.issuers must contain names of issuers, not URLs: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	grantClientsRule = "spec.grants.clientIDs must contain client IDs or prefixes"
)

var grantValidations = map[string]validation{
	"32 grants":             {spec: "grants: " + grants(32)},
	"33 grants":             {spec: "grants: " + grants(33), wantField: "spec.grants", wantRule: "must have at most 32 items"},
	"two grants of a name":  {spec: "grants: [{name: a, namespaces: {from: All}, audiences: [a]}, {name: a, namespaces: {names: [b]}, audiences: [a]}]", wantField: "spec.grants[1]", wantRule: "Duplicate value"},
	"grant without a name":  {spec: "grants: [{namespaces: {from: All}, audiences: [a]}]", wantField: "spec.grants[0].name", wantRule: "Required value"},
	"grant name with a dot": {spec: "grants: [{name: a.b, namespaces: {from: All}, audiences: [a]}]", wantField: "spec.grants[0].name", wantRule: `Invalid value: "a.b": ` + grantNameRule},
	"empty grant name":      {spec: `grants: [{name: "", namespaces: {from: All}, audiences: [a]}]`, wantField: "spec.grants[0].name", wantRule: tooShort},
	"long grant name":       {spec: "grants: [{name: " + strings.Repeat("a", 64) + ", namespaces: {from: All}, audiences: [a]}]", wantField: "spec.grants[0].name", wantRule: "may not be more than 63"},

	"client IDs and prefixes":     {spec: inGrant(`clientIDs: [a, "b*", "*", a.b, "c/d=*"]`)},
	"16 client IDs":               {spec: inGrant("clientIDs: " + list("c", 16))},
	"17 client IDs":               {spec: inGrant("clientIDs: " + list("c", 17)), wantField: "spec.grants[0].clientIDs", wantRule: "must have at most 16 items"},
	"empty client ID":             {spec: inGrant(`clientIDs: [""]`), wantField: "spec.grants[0].clientIDs[0]", wantRule: tooShort},
	"prefix of 256 characters":    {spec: inGrant(`clientIDs: ["` + strings.Repeat("a", 255) + `*"]`)},
	"prefix of 257 characters":    {spec: inGrant(`clientIDs: ["` + strings.Repeat("a", 256) + `*"]`), wantField: "spec.grants[0].clientIDs[0]", wantRule: "may not be more than 256"},
	"asterisk inside a client ID": {spec: inGrant(`clientIDs: ["a*b"]`), wantField: "spec.grants[0].clientIDs[0]", wantRule: `Invalid value: "a*b": ` + grantClientsRule},
	"two asterisks":               {spec: inGrant(`clientIDs: ["a**"]`), wantField: "spec.grants[0].clientIDs[0]", wantRule: grantClientsRule},
	"granted client ID, colon":    {spec: inGrant(`clientIDs: ["a:b"]`), wantField: "spec.grants[0].clientIDs[0]", wantRule: grantClientsRule},
	"granted client ID, space":    {spec: inGrant(`clientIDs: ["a b"]`), wantField: "spec.grants[0].clientIDs[0]", wantRule: grantClientsRule},
	"32 scopes in a grant":        {spec: inGrant("scopes: " + list("s", 32))},
	"33 scopes in a grant":        {spec: inGrant("scopes: " + list("s", 33)), wantField: "spec.grants[0].scopes", wantRule: "must have at most 32 items"},
	"scope with a space in grant": {spec: inGrant("scopes: ['a b']"), wantField: "spec.grants[0].scopes[0]", wantRule: `Invalid value: "a b": scopes must contain scope tokens`},
	"grant without audiences":     {spec: "grants: [{name: a, namespaces: {from: All}}]", wantField: "spec.grants[0].audiences", wantRule: "Required value"},
	"grant with empty audiences":  {spec: "grants: [{name: a, namespaces: {from: All}, audiences: []}]", wantField: "spec.grants[0].audiences", wantRule: "should have at least 1 items"},
	"grant with a bad audience":   {spec: "grants: [{name: a, namespaces: {from: All}, audiences: ['a:']}]", wantField: "spec.grants[0].audiences[0]", wantRule: `Invalid value: "a:": audiences must contain absolute URIs`},
	"every scope":                 {spec: inGrant(`scopes: ["*"]`)},

	"all namespaces":      {spec: "grants: [{name: all, namespaces: {from: All}, audiences: [a]}]"},
	"named namespaces":    {spec: "grants: [{name: acme, namespaces: {names: [team-a, b1]}, audiences: [a]}]"},
	"selected namespaces": {spec: "grants: [{name: acme, namespaces: {selector: {matchLabels: {team: a}}}, audiences: [a]}]"},

	"no grants":          {spec: "grants: null", wantField: "spec.grants", wantRule: "Required value"},
	"empty grants":       {spec: "grants: []", wantField: "spec.grants", wantRule: "spec.grants must have at least one grant; to stop every client of the realm, set spec.suspend to true"},
	"no namespaces":      {spec: "grants: [{name: a, audiences: [a]}]", wantField: "spec.grants[0].namespaces", wantRule: "Required value"},
	"other namespaces":   {spec: "grants: [{name: a, namespaces: {from: Same}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.from", wantRule: `Unsupported value: "Same": supported values: "All"`},
	"empty namespaces":   {spec: "grants: [{name: a, namespaces: {}, audiences: [a]}]", wantField: "spec.grants[0].namespaces", wantRule: unionRule},
	"names and from":     {spec: "grants: [{name: a, namespaces: {names: [b], from: All}, audiences: [a]}]", wantField: "spec.grants[0].namespaces", wantRule: unionRule},
	"names and selector": {spec: "grants: [{name: a, namespaces: {names: [b], selector: {matchLabels: {a: b}}}, audiences: [a]}]", wantField: "spec.grants[0].namespaces", wantRule: unionRule},

	"64 names":                  {spec: "grants: [{name: a, namespaces: {names: " + list("n", 64) + "}, audiences: [a]}]"},
	"65 names":                  {spec: "grants: [{name: a, namespaces: {names: " + list("n", 65) + "}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.names", wantRule: "must have at most 64 items"},
	"empty list of names":       {spec: "grants: [{name: a, namespaces: {names: []}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.names", wantRule: "should have at least 1 items"},
	"name with a dot":           {spec: "grants: [{name: a, namespaces: {names: [a, b.c]}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.names[1]", wantRule: `Invalid value: "b.c": ` + namesRule},
	"name with a wildcard":      {spec: "grants: [{name: a, namespaces: {names: ['*']}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.names[0]", wantRule: namesRule},
	"name in uppercase":         {spec: "grants: [{name: a, namespaces: {names: [A]}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.names[0]", wantRule: namesRule},
	"empty name":                {spec: `grants: [{name: a, namespaces: {names: [""]}, audiences: [a]}]`, wantField: "spec.grants[0].namespaces.names[0]", wantRule: tooShort},
	"name of 63 characters":     {spec: "grants: [{name: a, namespaces: {names: [" + strings.Repeat("a", 63) + "]}, audiences: [a]}]"},
	"name of 64 characters":     {spec: "grants: [{name: a, namespaces: {names: [" + strings.Repeat("a", 64) + "]}, audiences: [a]}]", wantField: "spec.grants[0].namespaces.names[0]", wantRule: "may not be more than 63"},
	"empty selector":            selector("{}", "", "must have at least one label or expression; to select every namespace, use from: All"),
	"selector with empty lists": selector("{matchLabels: {}, matchExpressions: []}", "", "must have at least one label or expression"),

	"4 labels":                          selector("{matchLabels: "+labels(4)+"}", "", ""),
	"5 labels":                          selector("{matchLabels: "+labels(5)+"}", ".matchLabels", "must have at most 4 items"),
	"label with a prefix":               selector("{matchLabels: {kubernetes.io/metadata.name: team-a}}", "", ""),
	"label with the longest key":        selector("{matchLabels: {"+longestLabelKey+": a}}", "", ""),
	"label without a value":             selector(`{matchLabels: {team: ""}}`, "", ""),
	"label with all allowed characters": selector("{matchLabels: {Team_A.b-c: Team_A.b-c}}", "", ""),
	"label with a space":                selector("{matchLabels: {a: b, 'a b': c}}", ".matchLabels", labelKeysRule+"a b"),
	"label with a long name":            selector("{matchLabels: {"+strings.Repeat("a", 64)+": a}}", ".matchLabels", labelKeysRule),
	"label with a long prefix":          selector("{matchLabels: {a"+longestLabelKey+": a}}", ".matchLabels", labelKeysRule),
	"label with an invalid prefix":      selector("{matchLabels: {a..b/c: d}}", ".matchLabels", labelKeysRule+"a..b/c"),
	"label with an uppercase prefix":    selector("{matchLabels: {A/b: c}}", ".matchLabels", labelKeysRule+"A/b"),
	"label with an empty name":          selector("{matchLabels: {a/: b}}", ".matchLabels", labelKeysRule+"a/"),
	"label with two slashes":            selector("{matchLabels: {a/b/c: d}}", ".matchLabels", labelKeysRule+"a/b/c"),
	"label with an empty key":           selector(`{matchLabels: {"": d}}`, ".matchLabels", strings.TrimSpace(labelKeysRule)),
	"label with an invalid value":       selector("{matchLabels: {a: 'b c'}}", ".matchLabels[a]", `Invalid value: "b c": `+labelValueRule),
	"label value with a trailing dot":   selector("{matchLabels: {a: b.}}", ".matchLabels[a]", labelValueRule),
	"label with a long value":           selector("{matchLabels: {a: "+strings.Repeat("b", 64)+"}}", ".matchLabels.a", "may not be more than 63"),

	"expressions with all operators":          selector("{matchExpressions: [{key: a, operator: In, values: [b, '']}, {key: c/d, operator: NotIn, values: [e]}, {key: f, operator: Exists}, {key: g, operator: DoesNotExist, values: []}]}", "", ""),
	"expression with an empty key":            selector(`{matchExpressions: [{key: "", operator: Exists}]}`, ".matchExpressions[0].key", tooShort),
	"4 expressions":                           selector("{matchExpressions: "+expressions(4)+"}", "", ""),
	"5 expressions":                           selector("{matchExpressions: "+expressions(5)+"}", ".matchExpressions", "must have at most 4 items"),
	"expression without a key":                selector("{matchExpressions: [{operator: Exists}]}", ".matchExpressions[0].key", "Required value"),
	"expression without an operator":          selector("{matchExpressions: [{key: a}]}", ".matchExpressions[0].operator", "Required value"),
	"expression with an unsupported operator": selector("{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}", ".matchExpressions[0].operator", `Unsupported value: "Gt"`),
	"expression with the longest key":         selector("{matchExpressions: [{key: "+longestLabelKey+", operator: Exists}]}", "", ""),
	"expression with a long key":              selector("{matchExpressions: [{key: a"+longestLabelKey+", operator: Exists}]}", ".matchExpressions[0].key", "may not be more than 317"),
	"expression with a long prefix":           selector("{matchExpressions: [{key: "+strings.Repeat("a", 254)+"/b, operator: Exists}]}", ".matchExpressions[0].key", labelKeyRule),
	"expression with an invalid key":          selector("{matchExpressions: [{key: 'a b', operator: Exists}]}", ".matchExpressions[0].key", `Invalid value: "a b": `+labelKeyRule),
	"expression In without values":            selector("{matchExpressions: [{key: a, operator: In}]}", ".matchExpressions[0].values", operatorRule+"In"),
	"expression NotIn with empty values":      selector("{matchExpressions: [{key: a, operator: NotIn, values: []}]}", ".matchExpressions[0].values", operatorRule+"NotIn"),
	"expression Exists with values":           selector("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}", ".matchExpressions[0].values", operatorRule+"Exists"),
	"expression with an invalid value":        selector("{matchExpressions: [{key: a, operator: In, values: [b, -c]}]}", ".matchExpressions[0].values[1]", `Invalid value: "-c": `+labelValueRule),
	"expression with a long value":            selector("{matchExpressions: [{key: a, operator: In, values: ["+strings.Repeat("b", 64)+"]}]}", ".matchExpressions[0].values[0]", "may not be more than 63"),
	"expression with a duplicate value":       selector("{matchExpressions: [{key: a, operator: In, values: [b, b]}]}", ".matchExpressions[0].values[1]", `Duplicate value: "b"`),
	"expression with 8 values":                selector("{matchExpressions: [{key: a, operator: In, values: "+list("v", 8)+"}]}", "", ""),
	"expression with 9 values":                selector("{matchExpressions: [{key: a, operator: In, values: "+list("v", 9)+"}]}", ".matchExpressions[0].values", "must have at most 8 items"),
}

// inGrant returns a spec whose only grant has the given members.
func inGrant(members string) string {
	if !strings.HasPrefix(members, "audiences:") {
		members = "audiences: ['*'], " + members
	}
	return "grants: [{name: a, namespaces: {from: All}, " + members + "}]"
}

// nested returns the cases for a field in another place: wrap puts the YAML of the field there, and
// path replaces "spec." at the beginning of wantField.
func nested(cases map[string]validation, wrap func(string) string, path string) map[string]validation {
	moved := make(map[string]validation, len(cases))
	for name, tc := range cases {
		tc.spec = wrap(tc.spec)
		if tc.wantField != "" {
			tc.wantField = path + strings.TrimPrefix(tc.wantField, "spec.")
		}
		moved[path+" "+name] = tc
	}
	return moved
}

func inIntrospection(members string) string { return "introspection: {" + members + "}" }

// grants returns a YAML list of n grants.
func grants(n int) string { return each("{name: g%d, namespaces: {from: All}, audiences: [a]}", n) }

// each returns a YAML list of n items with their numbers.
func each(format string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// longestLabelKey has a prefix of 253 characters and a name of 63 characters.
var longestLabelKey = strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)

// selector returns the case for a Realm with the given selector. If wantRule is empty, the API
// server must accept it. wantField is relative to spec.grants[0].namespaces.selector.
func selector(yaml, wantField, wantRule string) validation {
	tc := validation{spec: "grants: [{name: a, namespaces: {selector: " + yaml + "}, audiences: [a]}]", wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = "spec.grants[0].namespaces.selector" + wantField
	}
	return tc
}

// labels returns a YAML map of n labels.
func labels(n int) string {
	return "{" + strings.NewReplacer("[", "", "]", "", ",", ": x,").Replace(list("l", n)) + ": x}"
}

func expressions(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("{key: a, operator: Exists}, ", n), ", ") + "]"
}

// grantIssuerValidations covers the members of a grant for federation.
var grantIssuerValidations = map[string]validation{
	"granted issuers":               {spec: inGrant("issuers: [github, kubernetes]")},
	"17 granted issuers":            {spec: inGrant("issuers: " + list("i", 17))},
	"18 granted issuers":            {spec: inGrant("issuers: " + list("i", 18)), wantField: "spec.grants[0].issuers", wantRule: "must have at most 17 items"},
	"empty list of granted issuers": {spec: inGrant("issuers: []")},
	"empty granted issuer":          {spec: inGrant(`issuers: [""]`), wantField: "spec.grants[0].issuers[0]", wantRule: tooShort},
	"every granted issuer":          {spec: inGrant(`issuers: ["*"]`)},
	"prefix of a granted issuer":    {spec: inGrant(`issuers: ["a*"]`), wantField: "spec.grants[0].issuers[0]", wantRule: grantIssuersRule},
	"granted URL of an issuer":      {spec: inGrant("issuers: ['https://issuer.example.com']"), wantField: "spec.grants[0].issuers[0]", wantRule: grantIssuersRule},
	"long granted issuer":           {spec: inGrant("issuers: [" + strings.Repeat("a", 64) + "]"), wantField: "spec.grants[0].issuers[0]", wantRule: "may not be more than 63"},

	"grant that requires DPoP":       {spec: inGrant("senderConstraint: DPoP")},
	"grant with mutual TLS":          {spec: inGrant("senderConstraint: MTLS"), wantField: "spec.grants[0].senderConstraint", wantRule: `Unsupported value: "MTLS": supported values: "DPoP"`},
	"grant with an empty constraint": {spec: inGrant(`senderConstraint: ""`), wantField: "spec.grants[0].senderConstraint", wantRule: `Unsupported value: ""`},
}
