package api_test

import "strings"

const (
	namesRule     = "spec.allowedNamespaces.names must hold names of namespaces: lower-case letters, digits and inner hyphens"
	labelKeysRule = "spec.allowedNamespaces.selector.matchLabels must have label keys (an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -), not "
	labelKeyRule  = "spec.allowedNamespaces.selector.matchExpressions.key must be a label key: an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -"
	valuesRule    = "spec.allowedNamespaces.selector.matchExpressions.values must hold label values: at most 63 letters, digits and inner . _ -"
	operatorRule  = "spec.allowedNamespaces.selector.matchExpressions.values must be set when operator is In or NotIn, and only then; operator is "
	valueRule     = "the value of a label must be at most 63 letters, digits and inner . _ -"
)

var allowedNamespacesValidations = map[string]validation{
	"from All":      {spec: "allowedNamespaces: {from: All}"},
	"from Names":    {spec: "allowedNamespaces: {from: Names, names: [team-a, b1]}"},
	"from Selector": {spec: "allowedNamespaces: {from: Selector, selector: {matchLabels: {team: a}}}"},

	"no allowedNamespaces":    {spec: "allowedNamespaces: null", wantField: "spec.allowedNamespaces", wantRule: "Required value"},
	"no from":                 {spec: "allowedNamespaces: {}", wantField: "spec.allowedNamespaces.from", wantRule: "Required value"},
	"from Same":               {spec: "allowedNamespaces: {from: Same}", wantField: "spec.allowedNamespaces.from", wantRule: `Unsupported value: "Same": supported values: "All", "Names", "Selector"`},
	"from Names, no names":    {spec: "allowedNamespaces: {from: Names}", wantField: "spec.allowedNamespaces.names", wantRule: "spec.allowedNamespaces.names must be set when from is Names, and only then; from is Names"},
	"from All, names":         {spec: "allowedNamespaces: {from: All, names: [a]}", wantField: "spec.allowedNamespaces.names", wantRule: "spec.allowedNamespaces.names must be set when from is Names, and only then; from is All"},
	"from Selector, no one":   {spec: "allowedNamespaces: {from: Selector}", wantField: "spec.allowedNamespaces.selector", wantRule: "spec.allowedNamespaces.selector must be set when from is Selector, and only then; from is Selector"},
	"from All, selector":      {spec: "allowedNamespaces: {from: All, selector: {matchLabels: {a: b}}}", wantField: "spec.allowedNamespaces.selector", wantRule: "spec.allowedNamespaces.selector must be set when from is Selector, and only then; from is All"},
	"from Names, both":        {spec: "allowedNamespaces: {from: Names, names: [a], selector: {matchLabels: {a: b}}}", wantField: "spec.allowedNamespaces.selector", wantRule: "spec.allowedNamespaces.selector must be set when from is Selector, and only then; from is Names"},
	"from Selector and names": {spec: "allowedNamespaces: {from: Selector, names: [a], selector: {matchLabels: {a: b}}}", wantField: "spec.allowedNamespaces.names", wantRule: "spec.allowedNamespaces.names must be set when from is Names, and only then; from is Selector"},

	"names, 256 of them":     {spec: "allowedNamespaces: {from: Names, names: " + list("n", 256) + "}"},
	"names, 257 of them":     {spec: "allowedNamespaces: {from: Names, names: " + list("n", 257) + "}", wantField: "spec.allowedNamespaces.names", wantRule: "must have at most 256 items"},
	"names that are empty":   {spec: "allowedNamespaces: {from: Names, names: []}", wantField: "spec.allowedNamespaces.names", wantRule: "should have at least 1 items"},
	"names with one twice":   {spec: "allowedNamespaces: {from: Names, names: [a, a]}", wantField: "spec.allowedNamespaces.names[1]", wantRule: `Duplicate value: "a"`},
	"names with a dot":       {spec: "allowedNamespaces: {from: Names, names: [a, b.c]}", wantField: "spec.allowedNamespaces.names[1]", wantRule: `Invalid value: "b.c": ` + namesRule},
	"names with a wildcard":  {spec: "allowedNamespaces: {from: Names, names: ['*']}", wantField: "spec.allowedNamespaces.names[0]", wantRule: namesRule},
	"names in upper case":    {spec: "allowedNamespaces: {from: Names, names: [A]}", wantField: "spec.allowedNamespaces.names[0]", wantRule: namesRule},
	"names with empty one":   {spec: `allowedNamespaces: {from: Names, names: [""]}`, wantField: "spec.allowedNamespaces.names[0]", wantRule: "should be at least 1 chars long"},
	"name of 63 characters":  {spec: "allowedNamespaces: {from: Names, names: [" + strings.Repeat("a", 63) + "]}"},
	"name of 64 characters":  {spec: "allowedNamespaces: {from: Names, names: [" + strings.Repeat("a", 64) + "]}", wantField: "spec.allowedNamespaces.names[0]", wantRule: "may not be more than 63"},
	"selector that is empty": selector("{}", "", "spec.allowedNamespaces.selector must hold a label or an expression; every namespace is allowed with from: All"),
	"selector, empty lists":  selector("{matchLabels: {}, matchExpressions: []}", "", "spec.allowedNamespaces.selector must hold a label or an expression"),

	"labels, 16 of them":           selector("{matchLabels: "+labels(16)+"}", "", ""),
	"labels, 17 of them":           selector("{matchLabels: "+labels(17)+"}", ".matchLabels", "must have at most 16 items"),
	"label with prefix":            selector("{matchLabels: {kubernetes.io/metadata.name: team-a}}", "", ""),
	"label with longest key":       selector("{matchLabels: {"+longestLabelKey+": a}}", "", ""),
	"label without value":          selector(`{matchLabels: {team: ""}}`, "", ""),
	"label with odd characters":    selector("{matchLabels: {Team_A.b-c: Team_A.b-c}}", "", ""),
	"label with a space":           selector("{matchLabels: {a: b, 'a b': c}}", ".matchLabels", labelKeysRule+"a b"),
	"label with long name":         selector("{matchLabels: {"+strings.Repeat("a", 64)+": a}}", ".matchLabels", labelKeysRule),
	"label with long prefix":       selector("{matchLabels: {a"+longestLabelKey+": a}}", ".matchLabels", labelKeysRule),
	"label with broken prefix":     selector("{matchLabels: {a..b/c: d}}", ".matchLabels", labelKeysRule+"a..b/c"),
	"label with upper-case prefix": selector("{matchLabels: {A/b: c}}", ".matchLabels", labelKeysRule+"A/b"),
	"label with empty name":        selector("{matchLabels: {a/: b}}", ".matchLabels", labelKeysRule+"a/"),
	"label with two slashes":       selector("{matchLabels: {a/b/c: d}}", ".matchLabels", labelKeysRule+"a/b/c"),
	"label with empty key":         selector(`{matchLabels: {"": d}}`, ".matchLabels", strings.TrimSpace(labelKeysRule)),
	"label with wrong value":       selector("{matchLabels: {a: 'b c'}}", ".matchLabels[a]", `Invalid value: "b c": `+valueRule),
	"label with outer dot":         selector("{matchLabels: {a: b.}}", ".matchLabels[a]", valueRule),
	"label with long value":        selector("{matchLabels: {a: "+strings.Repeat("b", 64)+"}}", ".matchLabels.a", "may not be more than 63"),

	"expressions, all operators":     selector("{matchExpressions: [{key: a, operator: In, values: [b, '']}, {key: c/d, operator: NotIn, values: [e]}, {key: f, operator: Exists}, {key: g, operator: DoesNotExist, values: []}]}", "", ""),
	"expressions, 16 of them":        selector("{matchExpressions: "+expressions(16)+"}", "", ""),
	"expressions, 17 of them":        selector("{matchExpressions: "+expressions(17)+"}", ".matchExpressions", "must have at most 16 items"),
	"expression without key":         selector("{matchExpressions: [{operator: Exists}]}", ".matchExpressions[0].key", "Required value"),
	"expression without operator":    selector("{matchExpressions: [{key: a}]}", ".matchExpressions[0].operator", "Required value"),
	"expression with wrong operator": selector("{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}", ".matchExpressions[0].operator", `Unsupported value: "Gt"`),
	"expression with longest key":    selector("{matchExpressions: [{key: "+longestLabelKey+", operator: Exists}]}", "", ""),
	"expression with long key":       selector("{matchExpressions: [{key: a"+longestLabelKey+", operator: Exists}]}", ".matchExpressions[0].key", "may not be more than 317"),
	"expression with long prefix":    selector("{matchExpressions: [{key: "+strings.Repeat("a", 254)+"/b, operator: Exists}]}", ".matchExpressions[0].key", labelKeyRule),
	"expression with wrong key":      selector("{matchExpressions: [{key: 'a b', operator: Exists}]}", ".matchExpressions[0].key", `Invalid value: "a b": `+labelKeyRule),
	"expression In, no values":       selector("{matchExpressions: [{key: a, operator: In}]}", ".matchExpressions[0].values", operatorRule+"In"),
	"expression NotIn, empty values": selector("{matchExpressions: [{key: a, operator: NotIn, values: []}]}", ".matchExpressions[0].values", operatorRule+"NotIn"),
	"expression Exists, values":      selector("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}", ".matchExpressions[0].values", operatorRule+"Exists"),
	"expression, value wrong":        selector("{matchExpressions: [{key: a, operator: In, values: [b, -c]}]}", ".matchExpressions[0].values[1]", `Invalid value: "-c": `+valuesRule),
	"expression, value long":         selector("{matchExpressions: [{key: a, operator: In, values: ["+strings.Repeat("b", 64)+"]}]}", ".matchExpressions[0].values[0]", "may not be more than 63"),
	"expression, value twice":        selector("{matchExpressions: [{key: a, operator: In, values: [b, b]}]}", ".matchExpressions[0].values[1]", `Duplicate value: "b"`),
	"expression, 64 values":          selector("{matchExpressions: [{key: a, operator: In, values: "+list("v", 64)+"}]}", "", ""),
	"expression, 65 values":          selector("{matchExpressions: [{key: a, operator: In, values: "+list("v", 65)+"}]}", ".matchExpressions[0].values", "must have at most 64 items"),
}

// longestLabelKey has a prefix of 253 characters and a name of 63.
var longestLabelKey = strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)

// selector is the case of a Realm with this selector. It is accepted without a rule;
// with one, wantField stands below spec.allowedNamespaces.selector.
func selector(yaml, wantField, wantRule string) validation {
	tc := validation{spec: "allowedNamespaces: {from: Selector, selector: " + yaml + "}", wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = "spec.allowedNamespaces.selector" + wantField
	}
	return tc
}

// labels is a YAML map of n labels.
func labels(n int) string {
	return "{" + strings.NewReplacer("[", "", "]", "", ",", ": x,").Replace(list("l", n)) + ": x}"
}

func expressions(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("{key: a, operator: Exists}, ", n), ", ") + "]"
}
