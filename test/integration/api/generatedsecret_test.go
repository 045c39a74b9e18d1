package api_test

import "strings"

const (
	oneSecretRule  = "spec.secret must have exactly one of: generated, provided, hashed"
	secretKeyRule  = "a Secret data key must have only letters, digits, ., _, and -, and must not be . or begin with .."
	ownNameRule    = "spec.secret.generated.keys must result in a unique name for every key, including ca.crt and the keys that are not listed; conflicting key: "
	knownKeysRule  = "spec.secret.generated.keys can rename only client_id, client_secret, next_client_secret, token_url, cluster_token_url, issuer, jwks_url, and scope, not "
	keySyntax      = " (an optional DNS prefix and a slash, then at most 63 letters, digits, and inner . _ -), not "
	ownLabels      = "spec.secret.generated.template.labels must not use the prefix auth.realmkeeper.dev/, which is reserved for the operator, as in "
	ownAnnotations = "spec.secret.generated.template.annotations must not use the prefix auth.realmkeeper.dev/, which is reserved for the operator, as in "
)

var generatedSecretValidations = map[string]validation{
	"generated secret":          {spec: "secret: {generated: {}}"},
	"empty secret":              {spec: "secret: {}", wantField: "spec.secret", wantRule: oneSecretRule},
	"secret with a null source": {spec: "secret: {generated: null}", wantField: "spec.secret", wantRule: oneSecretRule},

	"secretName of 253 characters":      generated("secretName: "+strings.Repeat("a", 253), "", ""),
	"secretName with dots":              generated("secretName: a-1.b", "", ""),
	"secretName of 254 characters":      generated("secretName: "+strings.Repeat("a", 254), ".secretName", "may not be more than 253"),
	"empty secretName":                  generated(`secretName: ""`, ".secretName", tooShort),
	"secretName in uppercase":           generated("secretName: A", ".secretName", `Invalid value: "A": `+dnsSubdomainRule),
	"secretName with a slash":           generated("secretName: other/a", ".secretName", dnsSubdomainRule),
	"secretName with two dots":          generated("secretName: a..b", ".secretName", dnsSubdomainRule),
	"secretName with a trailing hyphen": generated("secretName: a-", ".secretName", dnsSubdomainRule),
	"secretName with an underscore":     generated("secretName: a_b", ".secretName", dnsSubdomainRule),
	"secretName of a Helm release":      generated("secretName: sh.helm.release.v1.app.v2", ".secretName", "spec.secret.generated.secretName must not start with sh.helm.release., because Helm would treat the Secret as a release"),

	"empty template": generated("template: {}", "", ""),

	"template labels":                         generated("template: {labels: {app.kubernetes.io/name: billing, team: Team_A.1, empty: ''}}", "", ""),
	"16 template labels":                      generated("template: {labels: "+labels(16)+"}", "", ""),
	"17 template labels":                      generated("template: {labels: "+labels(17)+"}", ".template.labels", "must have at most 16 items"),
	"template label with the longest key":     generated("template: {labels: {"+longestLabelKey+": a}}", "", ""),
	"template label with a long prefix":       generated("template: {labels: {a"+longestLabelKey+": a}}", ".template.labels", "must have valid label keys"),
	"template label with an invalid prefix":   generated("template: {labels: {a..b/c: d}}", ".template.labels", "must have valid label keys"+keySyntax+"a..b/c"),
	"template label with an uppercase prefix": generated("template: {labels: {A.b/c: d}}", ".template.labels", "must have valid label keys"+keySyntax+"A.b/c"),
	"template label with an invalid name":     generated("template: {labels: {a: b, a b: c}}", ".template.labels", "must have valid label keys"+keySyntax+"a b"),
	"template label with an invalid value":    generated("template: {labels: {a: b c}}", ".template.labels[a]", `Invalid value: "b c": `+labelValueRule),
	"template label with a long value":        generated("template: {labels: {a: "+strings.Repeat("b", 64)+"}}", ".template.labels.a", "may not be more than 63"),
	"template label with the reserved prefix": generated("template: {labels: {auth.realmkeeper.dev/client-secret: generated}}", ".template.labels", ownLabels+"auth.realmkeeper.dev/client-secret"),
	"template label with a similar prefix":    generated("template: {labels: {x.auth.realmkeeper.dev/a: b, auth.realmkeeper.dev: c}}", "", ""),

	"template annotations":                                         generated(`template: {annotations: {reloader.example.com/match: "any text, in [any] form\nand ä"}}`, "", ""),
	"16 template annotations":                                      generated("template: {annotations: "+labels(16)+"}", "", ""),
	"17 template annotations":                                      generated("template: {annotations: "+labels(17)+"}", ".template.annotations", "must have at most 16 items"),
	"template annotation with an uppercase prefix":                 generated("template: {annotations: {Example.com/Key: d}}", "", ""),
	"template annotation with an invalid key":                      generated("template: {annotations: {a b: c}}", ".template.annotations", "spec.secret.generated.template.annotations must have valid annotation keys"+keySyntax+"a b"),
	"template annotation with a long prefix":                       generated("template: {annotations: {a"+longestLabelKey+": a}}", ".template.annotations", "must have valid annotation keys"),
	"template annotation with the reserved prefix":                 generated("template: {annotations: {auth.realmkeeper.dev/owner: a}}", ".template.annotations", ownAnnotations+"auth.realmkeeper.dev/owner"),
	"template annotation with the reserved prefix in another case": generated("template: {annotations: {Auth.Realmkeeper.dev/owner: a}}", ".template.annotations", ownAnnotations+"Auth.Realmkeeper.dev/owner"),
	"template annotation with a long value":                        generated("template: {annotations: {a: "+strings.Repeat("b", 4097)+"}}", ".template.annotations.a", "may not be more than 4096"),

	"empty keys":              generated("keys: {}", "", ""),
	"all keys renamed":        generated("keys: {client_id: a, client_secret: b, next_client_secret: c, token_url: d, cluster_token_url: e, issuer: f, jwks_url: g, scope: h}", "", ""),
	"keys with swapped names": generated("keys: {client_id: client_secret, client_secret: client_id}", "", ""),
	"key renamed to the default name of a renamed key": generated("keys: {client_id: scope, scope: SCOPE}", "", ""),
	"key renamed to its default name":                  generated("keys: {client_id: client_id}", "", ""),
	"key name of 253 characters":                       generated("keys: {client_id: "+strings.Repeat("a", 253)+"}", "", ""),
	"key name with all allowed characters":             generated("keys: {client_id: .A_-.0.}", "", ""),
	"unknown key":                                      generated("keys: {scope: s, clientID: a}", ".keys", knownKeysRule+"clientID"),
	"renamed ca.crt":                                   generated("keys: {ca.crt: CA}", ".keys", knownKeysRule+"ca.crt"),
	"ca.crt renamed to its default name":               generated("keys: {ca.crt: ca.crt}", ".keys", knownKeysRule+"ca.crt"),
	"nine keys":                                        generated("keys: "+labels(9), ".keys", "must have at most 8 items"),
	"two keys with the same name":                      generated("keys: {client_id: a, issuer: a}", ".keys", ownNameRule+"client_id"),
	"key renamed to the default name of another key":   generated("keys: {token_url: issuer}", ".keys", ownNameRule+"token_url"),
	"key renamed to ca.crt":                            generated("keys: {issuer: ca.crt}", ".keys", ownNameRule+"issuer"),
	"key name of 254 characters":                       generated("keys: {client_id: "+strings.Repeat("a", 254)+"}", ".keys.client_id", "may not be more than 253"),
	"empty key name":                                   generated(`keys: {client_id: ""}`, ".keys.client_id", tooShort),
	"key name with a slash":                            generated("keys: {client_id: a/b}", ".keys[client_id]", `Invalid value: "a/b": `+secretKeyRule),
	"key name that is a dot":                           generated("keys: {client_id: .}", ".keys[client_id]", secretKeyRule),
	"key name with two leading dots":                   generated("keys: {client_id: ..data}", ".keys[client_id]", secretKeyRule),
}

// generated returns the case for an ApiClient with the given fields in spec.secret.generated. If
// wantRule is empty, the API server must accept it. wantField is relative to spec.secret.generated.
func generated(yaml, wantField, wantRule string) validation {
	tc := validation{spec: "secret: {generated: {" + yaml + "}}", wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = "spec.secret.generated" + wantField
	}
	return tc
}
