package api_test

import "strings"

const (
	namesRule     = "spec.allowedNamespaces.names must contain namespace names: lowercase letters, digits, and inner hyphens"
	labelKeysRule = "spec.allowedNamespaces.selector.matchLabels must have valid label keys (an optional DNS prefix and a slash, then at most 63 letters, digits, and inner . _ -), not "
	labelKeyRule  = "spec.allowedNamespaces.selector.matchExpressions.key must be a valid label key: an optional DNS prefix and a slash, then at most 63 letters, digits, and inner . _ -"
	valuesRule    = "spec.allowedNamespaces.selector.matchExpressions.values must contain valid label values: at most 63 letters, digits, and inner . _ -"
	operatorRule  = "spec.allowedNamespaces.selector.matchExpressions.values must be set if and only if operator is In or NotIn; operator is "
	valueRule     = "a label value must have at most 63 letters, digits, and inner . _ -"
)

var allowedNamespacesValidations = map[string]validation{
	"from All":      {spec: "allowedNamespaces: {from: All}"},
	"from Names":    {spec: "allowedNamespaces: {from: Names, names: [team-a, b1]}"},
	"from Selector": {spec: "allowedNamespaces: {from: Selector, selector: {matchLabels: {team: a}}}"},

	"no allowedNamespaces":              {spec: "allowedNamespaces: null", wantField: "spec.allowedNamespaces", wantRule: "Required value"},
	"no from":                           {spec: "allowedNamespaces: {}", wantField: "spec.allowedNamespaces.from", wantRule: "Required value"},
	"from Same":                         {spec: "allowedNamespaces: {from: Same}", wantField: "spec.allowedNamespaces.from", wantRule: `Unsupported value: "Same": supported values: "All", "Names", "Selector"`},
	"from Names, no names":              {spec: "allowedNamespaces: {from: Names}", wantField: "spec.allowedNamespaces.names", wantRule: "spec.allowedNamespaces.names must be set if and only if from is Names; from is Names"},
	"from All, names":                   {spec: "allowedNamespaces: {from: All, names: [a]}", wantField: "spec.allowedNamespaces.names", wantRule: "spec.allowedNamespaces.names must be set if and only if from is Names; from is All"},
	"from Selector, no selector":        {spec: "allowedNamespaces: {from: Selector}", wantField: "spec.allowedNamespaces.selector", wantRule: "spec.allowedNamespaces.selector must be set if and only if from is Selector; from is Selector"},
	"from All, selector":                {spec: "allowedNamespaces: {from: All, selector: {matchLabels: {a: b}}}", wantField: "spec.allowedNamespaces.selector", wantRule: "spec.allowedNamespaces.selector must be set if and only if from is Selector; from is All"},
	"from Names, names and selector":    {spec: "allowedNamespaces: {from: Names, names: [a], selector: {matchLabels: {a: b}}}", wantField: "spec.allowedNamespaces.selector", wantRule: "spec.allowedNamespaces.selector must be set if and only if from is Selector; from is Names"},
	"from Selector, names and selector": {spec: "allowedNamespaces: {from: Selector, names: [a], selector: {matchLabels: {a: b}}}", wantField: "spec.allowedNamespaces.names", wantRule: "spec.allowedNamespaces.names must be set if and only if from is Names; from is Selector"},

	"256 names":                 {spec: "allowedNamespaces: {from: Names, names: " + list("n", 256) + "}"},
	"257 names":                 {spec: "allowedNamespaces: {from: Names, names: " + list("n", 257) + "}", wantField: "spec.allowedNamespaces.names", wantRule: "must have at most 256 items"},
	"empty list of names":       {spec: "allowedNamespaces: {from: Names, names: []}", wantField: "spec.allowedNamespaces.names", wantRule: "should have at least 1 items"},
	"duplicate name":            {spec: "allowedNamespaces: {from: Names, names: [a, a]}", wantField: "spec.allowedNamespaces.names[1]", wantRule: `Duplicate value: "a"`},
	"name with a dot":           {spec: "allowedNamespaces: {from: Names, names: [a, b.c]}", wantField: "spec.allowedNamespaces.names[1]", wantRule: `Invalid value: "b.c": ` + namesRule},
	"name with a wildcard":      {spec: "allowedNamespaces: {from: Names, names: ['*']}", wantField: "spec.allowedNamespaces.names[0]", wantRule: namesRule},
	"name in uppercase":         {spec: "allowedNamespaces: {from: Names, names: [A]}", wantField: "spec.allowedNamespaces.names[0]", wantRule: namesRule},
	"empty name":                {spec: `allowedNamespaces: {from: Names, names: [""]}`, wantField: "spec.allowedNamespaces.names[0]", wantRule: "should be at least 1 chars long"},
	"name of 63 characters":     {spec: "allowedNamespaces: {from: Names, names: [" + strings.Repeat("a", 63) + "]}"},
	"name of 64 characters":     {spec: "allowedNamespaces: {from: Names, names: [" + strings.Repeat("a", 64) + "]}", wantField: "spec.allowedNamespaces.names[0]", wantRule: "may not be more than 63"},
	"empty selector":            selector("{}", "", "spec.allowedNamespaces.selector must have at least one label or expression; to allow every namespace, set from to All"),
	"selector with empty lists": selector("{matchLabels: {}, matchExpressions: []}", "", "spec.allowedNamespaces.selector must have at least one label or expression"),

	"16 labels":                         selector("{matchLabels: "+labels(16)+"}", "", ""),
	"17 labels":                         selector("{matchLabels: "+labels(17)+"}", ".matchLabels", "must have at most 16 items"),
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
	"label with an invalid value":       selector("{matchLabels: {a: 'b c'}}", ".matchLabels[a]", `Invalid value: "b c": `+valueRule),
	"label value with a trailing dot":   selector("{matchLabels: {a: b.}}", ".matchLabels[a]", valueRule),
	"label with a long value":           selector("{matchLabels: {a: "+strings.Repeat("b", 64)+"}}", ".matchLabels.a", "may not be more than 63"),

	"expressions with all operators":          selector("{matchExpressions: [{key: a, operator: In, values: [b, '']}, {key: c/d, operator: NotIn, values: [e]}, {key: f, operator: Exists}, {key: g, operator: DoesNotExist, values: []}]}", "", ""),
	"16 expressions":                          selector("{matchExpressions: "+expressions(16)+"}", "", ""),
	"17 expressions":                          selector("{matchExpressions: "+expressions(17)+"}", ".matchExpressions", "must have at most 16 items"),
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
	"expression with an invalid value":        selector("{matchExpressions: [{key: a, operator: In, values: [b, -c]}]}", ".matchExpressions[0].values[1]", `Invalid value: "-c": `+valuesRule),
	"expression with a long value":            selector("{matchExpressions: [{key: a, operator: In, values: ["+strings.Repeat("b", 64)+"]}]}", ".matchExpressions[0].values[0]", "may not be more than 63"),
	"expression with a duplicate value":       selector("{matchExpressions: [{key: a, operator: In, values: [b, b]}]}", ".matchExpressions[0].values[1]", `Duplicate value: "b"`),
	"expression with 64 values":               selector("{matchExpressions: [{key: a, operator: In, values: "+list("v", 64)+"}]}", "", ""),
	"expression with 65 values":               selector("{matchExpressions: [{key: a, operator: In, values: "+list("v", 65)+"}]}", ".matchExpressions[0].values", "must have at most 64 items"),
}

// longestLabelKey has a prefix of 253 characters and a name of 63 characters.
var longestLabelKey = strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63)

// selector returns the case for a Realm with the given selector. If wantRule is empty, the API
// server must accept it. wantField is relative to spec.allowedNamespaces.selector.
func selector(yaml, wantField, wantRule string) validation {
	tc := validation{spec: "allowedNamespaces: {from: Selector, selector: " + yaml + "}", wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = "spec.allowedNamespaces.selector" + wantField
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
