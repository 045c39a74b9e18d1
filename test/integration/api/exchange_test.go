package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	exchangeNameRule      = "spec.exchanges.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	exchangeClientsRule   = "spec.exchanges clientIDs must contain exact client IDs: printable ASCII characters except space, colon, percent sign, plus sign, and asterisk"
	exchangeAudiencesRule = "audiences must contain exact audiences of the realm: only characters allowed by RFC 3986, without #, and not an asterisk alone"
	exchangeScopesRule    = "scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash, and not an asterisk alone"
	exchangeLifetimeRule  = "spec.exchanges.tokenLifetime must be between 10s and 24h"
	exchangeIssuerRule    = "must be the name of an issuer, not its URL: " + issuerNames
	deniedSubjectsRule    = "spec.exchanges.deniedSubjects must contain client IDs, or ext:, the name of a trusted issuer, a colon, and the subject"
	subjectsRule          = "must have exactly one of clients, for access tokens of this realm, and issuer, for tokens of a trusted issuer, but it has "
	subjectAudiencesRule  = "Required value: must list the audiences of the tokens that the actors can exchange; otherwise, an actor could use a token that was not issued for it"
	subjectMatchersRule   = "Forbidden: must not have audiences or scopes with an issuer, because spec.trustedIssuers defines the audience of its tokens"
	azpRule               = "Required value: must have the claim azp or client_id, which names the client of the issuer that got the token, for example matchClaims: [{name: azp, value: portal}]; to accept the tokens of every client of the issuer, set anyClient to true instead"
	issuerNames           = "at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"

	firstExchange = "spec.exchanges[0]"
	firstSubjects = firstExchange + ".subjects"
)

// exchange returns a spec with one rule, in which the given members replace those of the minimal one. The
// value "null" removes a member.
func exchange(members map[string]string) string {
	all := map[string]string{
		"name": "a", "actors": "{namespaces: {names: [b]}}", "subjects": "{clients: {namespaces: {names: [c]}}, audiences: [d]}", "audiences": "[e]", "scopes": "[f]",
	}
	maps.Copy(all, members)
	parts := make([]string, 0, len(all))
	for name, value := range all {
		if value != "null" {
			parts = append(parts, name+": "+value)
		}
	}
	return "exchanges: [{" + strings.Join(parts, ", ") + "}]"
}

// inExchange returns the case for a member of a rule. wantField is relative to the member.
func inExchange(member, yaml, wantField, wantRule string) validation {
	tc := validation{spec: exchange(map[string]string{member: yaml}), wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = firstExchange + "." + member + wantField
	}
	return tc
}

// fromIssuer returns a spec with a rule for the tokens of an issuer.
func fromIssuer(yaml string) string {
	return exchange(map[string]string{"subjects": "{issuer: " + yaml + "}"})
}

// denying returns a spec with a rule for the tokens of issuer "a" that denies a subject.
func denying(subject string) string {
	return exchange(map[string]string{"subjects": "{issuer: {name: a, anyClient: true}}", "deniedSubjects": "['" + subject + "']"})
}

func inIssuer(members, wantField, wantRule string) validation {
	tc := validation{spec: fromIssuer("{name: corporate, " + members + "}"), wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = firstSubjects + ".issuer" + wantField
	}
	return tc
}

var exchangeValidations = map[string]validation{
	"exchange between namespaces":     {spec: exchange(nil)},
	"empty list of exchanges":         {spec: "exchanges: []"},
	"6 exchanges":                     {spec: "exchanges: " + exchanges("abcdef")},
	"7 exchanges":                     {spec: "exchanges: " + exchanges("abcdefg"), wantField: "spec.exchanges", wantRule: "must have at most 6 items"},
	"two exchanges of a name":         {spec: "exchanges: " + exchanges("aa"), wantField: "spec.exchanges[1]", wantRule: "Duplicate value"},
	"exchange without a name":         inExchange("name", "null", "", "Required value"),
	"empty name of an exchange":       inExchange("name", `""`, "", tooShort),
	"exchange name with a dot":        inExchange("name", "a.b", "", `Invalid value: "a.b": `+exchangeNameRule),
	"exchange name in uppercase":      inExchange("name", "A", "", exchangeNameRule),
	"exchange name, line break":       inExchange("name", `"a\n"`, "", exchangeNameRule),
	"exchange name of 63 characters":  inExchange("name", strings.Repeat("a", 63), "", ""),
	"exchange name of 64 characters":  inExchange("name", strings.Repeat("a", 64), "", "may not be more than 63"),
	"exchange without actors":         inExchange("actors", "null", "", "Required value"),
	"actors without namespaces":       inExchange("actors", "{clientIDs: [a]}", ".namespaces", "Required value"),
	"exchange without subjects":       inExchange("subjects", "null", "", "Required value"),
	"exchange without audiences":      inExchange("audiences", "null", "", "Required value"),
	"exchange without scopes":         inExchange("scopes", "null", "", "Required value"),
	"exchange depth of 4":             inExchange("maxDepth", "4", "", ""),
	"exchange depth of 5":             inExchange("maxDepth", "5", "", "should be less than or equal to 4"),
	"exchange depth of 0":             inExchange("maxDepth", "0", "", "should be greater than or equal to 1"),
	"fractional exchange depth":       inExchange("maxDepth", "0.5", "", "must be of type int"),
	"exchange lifetime of 10s":        inExchange("tokenLifetime", "10s", "", ""),
	"exchange lifetime of 24h":        inExchange("tokenLifetime", "24h", "", ""),
	"exchange lifetime of 9s":         inExchange("tokenLifetime", "9s", "", `Invalid value: "9s": `+exchangeLifetimeRule),
	"exchange lifetime of 24h1s":      inExchange("tokenLifetime", "24h1s", "", exchangeLifetimeRule),
	"exchange lifetime in days":       inExchange("tokenLifetime", "1d", "", durationRule),
	"long exchange lifetime":          inExchange("tokenLifetime", strings.Repeat("1s", 17), "", "may not be more than 32"),
	"exchange with DPoP":              inExchange("senderConstraint", "DPoP", "", ""),
	"exchange with mutual TLS":        inExchange("senderConstraint", "MTLS", "", `Unsupported value: "MTLS": supported values: "DPoP"`),
	"denied client IDs":               inExchange("deniedSubjects", "[acme.orders, payments, wl/a]", "", ""),
	"denied external subjects":        inExchange("deniedSubjects", "['ext:corporate:alice%40example.com', 'ext:a:a-b.c_d~E', 'ext:a:%C3%A4']", "", ""),
	"empty list of denied subjects":   inExchange("deniedSubjects", "[]", "", ""),
	"8 denied subjects":               inExchange("deniedSubjects", list("c", 8), "", ""),
	"9 denied subjects":               inExchange("deniedSubjects", list("c", 9), "", "must have at most 8 items"),
	"empty denied subject":            inExchange("deniedSubjects", `[""]`, "[0]", tooShort),
	"denied email address":            inExchange("deniedSubjects", "['alice+x@example.com']", "[0]", deniedSubjectsRule),
	"denied subject, lowercase hex":   inExchange("deniedSubjects", "['ext:a:alice%c3%a4']", "[0]", deniedSubjectsRule),
	"denied subject, needless escape": inExchange("deniedSubjects", "['ext:a:%61lice']", "[0]", deniedSubjectsRule),
	"denied subject, not encoded":     inExchange("deniedSubjects", "['ext:a:alice@example.com']", "[0]", deniedSubjectsRule),
	"denied subject without a name":   inExchange("deniedSubjects", "['ext::alice']", "[0]", deniedSubjectsRule),
	"denied subject, only an issuer":  inExchange("deniedSubjects", "['ext:a']", "[0]", deniedSubjectsRule),
	"denied subject of an issuer URL": inExchange("deniedSubjects", "['https://a.example.com alice']", "[0]", deniedSubjectsRule),
	"denied subject, 512 characters":  inExchange("deniedSubjects", "["+strings.Repeat("a", 512)+"]", "", ""),
	"denied subject, 513 characters":  inExchange("deniedSubjects", "["+strings.Repeat("a", 513)+"]", "[0]", "may not be more than 512"),

	"no subjects":                      inExchange("subjects", "{audiences: [d]}", "", subjectsRule+"neither"),
	"clients and issuer":               inExchange("subjects", "{clients: {namespaces: {names: [c]}}, audiences: [d], issuer: {name: a, anyClient: true}}", "", subjectsRule+"both"),
	"clients without audiences":        inExchange("subjects", "{clients: {namespaces: {names: [c]}}}", ".audiences", subjectAudiencesRule),
	"subject clients, no namespaces":   inExchange("subjects", "{clients: {clientIDs: [a]}, audiences: [d]}", ".clients.namespaces", "Required value"),
	"issuer with audiences":            inExchange("subjects", "{issuer: {name: a, anyClient: true}, audiences: [d]}", "", subjectMatchersRule),
	"issuer with scopes":               inExchange("subjects", "{issuer: {name: a, anyClient: true}, scopes: [d]}", "", subjectMatchersRule),
	"clients and scopes":               inExchange("subjects", "{clients: {namespaces: {from: All}}, audiences: [d], scopes: [f]}", "", ""),
	"issuer and azp":                   inIssuer("matchClaims: [{name: azp, value: portal}, {name: tenant, value: a}]", "", ""),
	"issuer and client_id":             inIssuer("matchClaims: [{name: client_id, value: portal}]", "", ""),
	"issuer and any client":            inIssuer("anyClient: true", "", ""),
	"issuer, any client and a claim":   inIssuer("anyClient: true, matchClaims: [{name: tenant, value: a}]", "", ""),
	"issuer without a client":          {spec: fromIssuer("{name: corporate}"), wantField: firstSubjects + ".issuer.matchClaims", wantRule: azpRule},
	"issuer, other claims":             inIssuer("matchClaims: [{name: tenant, value: a}]", ".matchClaims", azpRule),
	"denied subject of the issuer":     {spec: denying("ext:a:alice")},
	"denied subject of another issuer": {spec: denying("ext:b:alice"), wantField: firstExchange + ".deniedSubjects", wantRule: "must contain only subjects of the issuer of the rule, which begin with ext:a:; list other subjects in a rule for their tokens"},
	"denied client of an issuer":       {spec: denying("alice"), wantField: firstExchange + ".deniedSubjects", wantRule: "must contain only subjects of the issuer of the rule"},
	"issuer of ID-JAGs":                inIssuer("use: IDJAG", "", ""),
	"issuer of ID-JAGs and a claim":    inIssuer("use: IDJAG, matchClaims: [{name: tenant, value: a}]", "", ""),
	"issuer of ID-JAGs, any client":    inIssuer("use: IDJAG, anyClient: true", ".anyClient", "must not be true with use: IDJAG, because an ID-JAG is only for the client that presents it"),
	"issuer of subject tokens":         inIssuer("use: Subject", ".matchClaims", azpRule),
	"issuer for clients":               inIssuer("use: ClientAuthentication, anyClient: true", ".use", "Unsupported value: \"ClientAuthentication\""),
	"issuer, not any client":           inIssuer("anyClient: false", ".matchClaims", azpRule),
	"issuer of a rule without a name":  {spec: fromIssuer("{anyClient: true}"), wantField: firstSubjects + ".issuer.name", wantRule: "Required value"},
	"issuer of a rule, empty name":     {spec: fromIssuer(`{name: "", anyClient: true}`), wantField: firstSubjects + ".issuer.name", wantRule: tooShort},
	"issuer of a rule, 64 characters":  {spec: fromIssuer("{name: " + strings.Repeat("a", 64) + ", anyClient: true}"), wantField: firstSubjects + ".issuer.name", wantRule: "may not be more than 63"},
	"issuer of a rule as a URL":        {spec: fromIssuer("{name: 'https://a.example.com', anyClient: true}"), wantField: firstSubjects + ".issuer.name", wantRule: exchangeIssuerRule},
	"issuer of a rule in uppercase":    {spec: fromIssuer("{name: A, anyClient: true}"), wantField: firstSubjects + ".issuer.name", wantRule: exchangeIssuerRule},
	"issuer of a rule, several claims": inIssuer("anyClient: true, matchClaims: "+each("{name: c%d, value: a}", 8), "", ""),
	"issuer of a rule, 9 claims":       inIssuer("anyClient: true, matchClaims: "+each("{name: c%d, value: a}", 9), ".matchClaims", "must have at most 8 items"),
}

// usesValidations covers spec.trustedIssuers.uses.
var usesValidations = map[string]validation{
	"subject tokens and ID-JAGs":   {spec: trusting("uses: [Subject, IDJAG]")},
	"clients and ID-JAGs":          {spec: trusting("uses: [ClientAuthentication, IDJAG]")},
	"clients and subject tokens":   {spec: trusting("uses: [ClientAuthentication, Subject]"), wantField: firstIssuer + ".uses", wantRule: "must not contain both ClientAuthentication and Subject"},
	"no uses":                      {spec: trusting("uses: []"), wantField: firstIssuer + ".uses", wantRule: "should have at least 1 items"},
	"four uses":                    {spec: trusting("uses: [Subject, IDJAG, Subject, IDJAG]"), wantField: firstIssuer + ".uses", wantRule: "must have at most 2 items"},
	"a use twice":                  {spec: trusting("uses: [Subject, Subject]"), wantField: firstIssuer + ".uses[1]", wantRule: "Duplicate value"},
	"unknown use":                  {spec: trusting("uses: [Exchange]"), wantField: firstIssuer + ".uses[0]", wantRule: `Unsupported value: "Exchange": supported values: "ClientAuthentication", "Subject", "IDJAG"`},
	"ID-JAGs of a trust domain":    {spec: "trustedIssuers: [{name: a, issuer: 'spiffe://example.org', uses: [IDJAG], keys: {jwksURI: 'https://spire.example.org/bundle'}}]", wantField: firstIssuer + ".uses", wantRule: "must not contain IDJAG for a SPIFFE trust domain, because an ID-JAG has the HTTPS URL of its issuer"},
	"subjects of a trust domain":   {spec: "trustedIssuers: [{name: a, issuer: 'spiffe://example.org', uses: [Subject], keys: {jwksURI: 'https://spire.example.org/bundle'}}]"},
	"ID-JAGs of two audiences":     {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com', uses: [IDJAG]}, {name: b, issuer: 'https://a.example.com', audience: b, uses: [Subject, IDJAG]}]", wantField: "spec.trustedIssuers", wantRule: "spec.trustedIssuers must not have two entries with the same issuer and IDJAG in uses"},
	"ID-JAGs of one of two":        {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com', uses: [IDJAG]}, {name: b, issuer: 'https://a.example.com', audience: b, uses: [Subject]}]"},
	"ID-JAGs of different issuers": {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com', uses: [IDJAG]}, {name: b, issuer: 'https://b.example.com', uses: [IDJAG]}]"},
}

// delegatedScopeValidations covers spec.delegatedScopes of ApiClients.
var delegatedScopeValidations = func() map[string]validation {
	cases := map[string]validation{
		"64 delegated scopes":        {spec: "delegatedScopes: " + list("s", 64)},
		"65 delegated scopes":        {spec: "delegatedScopes: " + list("s", 65), wantField: "spec.delegatedScopes", wantRule: "must have at most 64 items"},
		"scope in both lists":        {spec: "{scopes: [a], delegatedScopes: [a]}"},
		"asterisk, delegated":        {spec: "delegatedScopes: ['*']", wantField: "spec.delegatedScopes[0]", wantRule: `Invalid value: "*": scopes must not contain an asterisk alone, which stands for every scope in a grant`},
		"delegated scope twice":      {spec: "delegatedScopes: [a, a]", wantField: "spec.delegatedScopes[1]", wantRule: `Duplicate value: "a"`},
		"delegated scope in a grant": {spec: "delegatedScopes: ['orders:*']"},
	}
	for name, tc := range scopeValidations {
		tc.spec, tc.wantField = strings.Replace(tc.spec, "scopes:", "delegatedScopes:", 1), strings.Replace(tc.wantField, "spec.scopes", "spec.delegatedScopes", 1)
		cases["delegated: "+name] = tc
	}
	return cases
}()

// exchangeListValidations covers the lists of clients, audiences, and scopes, of which a rule has several.
var exchangeListValidations = func() map[string]validation {
	cases := map[string]validation{}
	put := func(path string, wrap func(string) map[string]string, tests map[string]validation) {
		for name, tc := range tests {
			if tc.wantRule != "" {
				tc.wantField = firstExchange + path + tc.wantField
			}
			tc.spec = exchange(wrap(tc.spec))
			cases[path+": "+name] = tc
		}
	}
	member := func(name string) func(string) map[string]string {
		return func(yaml string) map[string]string { return map[string]string{name: yaml} }
	}
	subjects := func(members string) func(string) map[string]string {
		return func(yaml string) map[string]string {
			return map[string]string{"subjects": "{clients: {namespaces: {from: All}}, " + strings.Replace(members, "X", yaml, 1) + "}"}
		}
	}
	put(".audiences", member("audiences"), exactAudiences)
	put(".scopes", member("scopes"), exactScopes)
	put(".subjects.audiences", subjects("audiences: X"), exactAudiences)
	put(".subjects.scopes", subjects("audiences: [a], scopes: X"), exactScopes)
	put(".actors.clientIDs", func(yaml string) map[string]string {
		return map[string]string{"actors": "{namespaces: {from: All}, clientIDs: " + yaml + "}"}
	}, exactClientIDs)
	put(".subjects.clients.clientIDs", func(yaml string) map[string]string {
		return map[string]string{"subjects": "{clients: {namespaces: {from: All}, clientIDs: " + yaml + "}, audiences: [a]}"}
	}, exactClientIDs)
	return cases
}()

var exactAudiences = map[string]validation{
	"4":            {spec: list("a", 4)},
	"5":            {spec: list("a", 5), wantRule: "must have at most 4 items"},
	"none":         {spec: "[]", wantRule: "should have at least 1 items"},
	"URL":          {spec: "['https://api.example.com:8443/v1?x=y']"},
	"empty":        {spec: `[""]`, wantField: "[0]", wantRule: tooShort},
	"256":          {spec: "[" + strings.Repeat("a", 256) + "]"},
	"257":          {spec: "[" + strings.Repeat("a", 257) + "]", wantField: "[0]", wantRule: "may not be more than 256"},
	"asterisk":     {spec: "['*']", wantField: "[0]", wantRule: `Invalid value: "*": ` + exchangeAudiencesRule},
	"space":        {spec: "['a b']", wantField: "[0]", wantRule: exchangeAudiencesRule},
	"fragment":     {spec: "['https://api.example.com/#a']", wantField: "[0]", wantRule: exchangeAudiencesRule},
	"line break":   {spec: `["a\n"]`, wantField: "[0]", wantRule: exchangeAudiencesRule},
	"not a string": {spec: "[1]", wantField: "[0]", wantRule: "must be of type string"},
}

var exactScopes = map[string]validation{
	"16":         {spec: list("s", 16)},
	"17":         {spec: list("s", 17), wantRule: "must have at most 16 items"},
	"none":       {spec: "[]", wantRule: "should have at least 1 items"},
	"empty":      {spec: `[""]`, wantField: "[0]", wantRule: tooShort},
	"129":        {spec: "[" + strings.Repeat("a", 129) + "]", wantField: "[0]", wantRule: "may not be more than 128"},
	"asterisk":   {spec: "['*']", wantField: "[0]", wantRule: `Invalid value: "*": ` + exchangeScopesRule},
	"two in one": {spec: "['a b']", wantField: "[0]", wantRule: exchangeScopesRule},
	"prefix":     {spec: "['orders:*']"},
}

var exactClientIDs = map[string]validation{
	"4":          {spec: list("c", 4)},
	"5":          {spec: list("c", 5), wantRule: "must have at most 4 items"},
	"none":       {spec: "[]"},
	"empty":      {spec: `[""]`, wantField: "[0]", wantRule: tooShort},
	"317":        {spec: "[" + strings.Repeat("a", 317) + "]"},
	"318":        {spec: "[" + strings.Repeat("a", 318) + "]", wantField: "[0]", wantRule: "may not be more than 317"},
	"asterisk":   {spec: "['*']", wantField: "[0]", wantRule: `Invalid value: "*": ` + exchangeClientsRule},
	"prefix":     {spec: "['a*']", wantField: "[0]", wantRule: exchangeClientsRule},
	"external":   {spec: "['ext:a:b']", wantField: "[0]", wantRule: exchangeClientsRule},
	"space":      {spec: "['a b']", wantField: "[0]", wantRule: exchangeClientsRule},
	"line break": {spec: `["a\n"]`, wantField: "[0]", wantRule: exchangeClientsRule},
}

// exchangeNamespaceValidations puts the namespaces of the grants in grantValidations into both places of a rule.
var exchangeNamespaceValidations = func() map[string]validation {
	const granted = "spec.grants[0].namespaces"
	cases := map[string]validation{}
	add := func(name, namespaces, wantField string, tc validation) {
		for path, members := range map[string]map[string]string{
			firstExchange + ".actors.namespaces":  {"actors": "{namespaces: " + namespaces + "}"},
			firstSubjects + ".clients.namespaces": {"subjects": "{clients: {namespaces: " + namespaces + "}, audiences: [d]}"},
		} {
			if tc.spec = exchange(members); tc.wantRule != "" {
				tc.wantField = path + wantField
			}
			cases[path+": "+name] = tc
		}
	}
	add("17 names", "{names: "+list("n", 17)+"}", ".names", validation{wantRule: "must have at most 16 items"})
	add("no labels", "{selector: {matchLabels: {}}}", ".selector.matchLabels", validation{wantRule: "must have at least one label; to select every namespace, use from: All"})
	add("selector without labels", "{selector: {}}", ".selector.matchLabels", validation{wantRule: "Required value"})
	for name, tc := range grantValidations {
		grant := firstGrant(tc.spec)
		namespaces, _ := grant["namespaces"].(map[string]any)
		if tc.wantField != "" && !strings.HasPrefix(tc.wantField, granted) || namespaces == nil || beyondExchanges(namespaces) {
			continue
		}
		encoded, err := json.Marshal(namespaces)
		if err != nil {
			panic(err)
		}
		add(name, string(encoded), strings.TrimPrefix(tc.wantField, granted), tc)
	}
	return cases
}()

// beyondExchanges reports whether namespaces of a grant have more names than a rule for exchanges can have, or a
// selector with more than labels, or none.
func beyondExchanges(namespaces map[string]any) bool {
	names, _ := namespaces["names"].([]any)
	selector, selects := namespaces["selector"].(map[string]any)
	return len(names) > 16 || selects && selector["matchLabels"] == nil || selector["matchExpressions"] != nil
}

// firstGrant returns the first grant of a spec.
func firstGrant(spec string) map[string]any {
	var parsed struct {
		Grants []map[string]any `json:"grants"`
	}
	if err := yaml.Unmarshal([]byte(spec), &parsed); err != nil || len(parsed.Grants) == 0 {
		return nil
	}
	return parsed.Grants[0]
}

// exchanges returns a YAML list of rules, each with a name of one letter.
func exchanges(names string) string {
	rules := make([]string, 0, len(names))
	for _, name := range names {
		rules = append(rules, fmt.Sprintf("{name: %c, actors: {namespaces: {names: [b]}}, subjects: {issuer: {name: c, anyClient: true}}, audiences: [e], scopes: [f]}", name))
	}
	return "[" + strings.Join(rules, ", ") + "]"
}

func fromAnyClient(match string) string {
	return fromIssuer("{name: corporate, anyClient: true, matchClaims: " + match + "}")
}
