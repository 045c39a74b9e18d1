package api_test

import "strings"

const (
	oneSecretRule  = "spec.secret must hold exactly one of: generated, provided, hashed"
	secretNameRule = "spec.secret.generated.secretName must be the name of a Secret: lower-case letters, digits, and inner hyphens and dots"
	secretKeyRule  = "a data key of a Secret must be letters, digits, . _ and -, but not . or a leading .."
	ownNameRule    = "spec.secret.generated.keys must give every key a name of its own, those left out counted in; not so "
	knownKeysRule  = "spec.secret.generated.keys can rename client_id, client_secret, token_url, cluster_token_url, issuer, jwks_url, scope and ca.crt, not "
	keySyntax      = " (an optional DNS prefix and a slash, then at most 63 letters, digits and inner . _ -), not "
	ownLabels      = "spec.secret.generated.template.labels must not use the prefix auth.realmkeeper.dev/, which is the operator's own, as in "
	ownAnnotations = "spec.secret.generated.template.annotations must not use the prefix auth.realmkeeper.dev/, which is the operator's own, as in "
)

var generatedSecretValidations = map[string]validation{
	"secret that is generated":  {spec: "secret: {generated: {}}"},
	"secret that is nothing":    {spec: "secret: {}", wantField: "spec.secret", wantRule: oneSecretRule},
	"secret with null as value": {spec: "secret: {generated: null}", wantField: "spec.secret", wantRule: oneSecretRule},

	"secretName of 253 characters":  generated("secretName: "+strings.Repeat("a", 253), "", ""),
	"secretName with dots":          generated("secretName: a-1.b", "", ""),
	"secretName of 254 characters":  generated("secretName: "+strings.Repeat("a", 254), ".secretName", "may not be more than 253"),
	"secretName that is empty":      generated(`secretName: ""`, ".secretName", secretNameRule),
	"secretName in upper case":      generated("secretName: A", ".secretName", `Invalid value: "A": `+secretNameRule),
	"secretName with a slash":       generated("secretName: other/a", ".secretName", secretNameRule),
	"secretName with two dots":      generated("secretName: a..b", ".secretName", secretNameRule),
	"secretName with outer hyphen":  generated("secretName: a-", ".secretName", secretNameRule),
	"secretName with an underscore": generated("secretName: a_b", ".secretName", secretNameRule),

	"template that is empty": generated("template: {}", "", ""),

	"template labels":                   generated("template: {labels: {app.kubernetes.io/name: billing, team: Team_A.1, empty: ''}}", "", ""),
	"template labels, 16 of them":       generated("template: {labels: "+labels(16)+"}", "", ""),
	"template labels, 17 of them":       generated("template: {labels: "+labels(17)+"}", ".template.labels", "must have at most 16 items"),
	"template label, longest key":       generated("template: {labels: {"+longestLabelKey+": a}}", "", ""),
	"template label, long prefix":       generated("template: {labels: {a"+longestLabelKey+": a}}", ".template.labels", "must have label keys"),
	"template label, broken prefix":     generated("template: {labels: {a..b/c: d}}", ".template.labels", "spec.secret.generated.template.labels must have label keys"+keySyntax+"a..b/c"),
	"template label, upper-case prefix": generated("template: {labels: {A.b/c: d}}", ".template.labels", "must have label keys"+keySyntax+"A.b/c"),
	"template label, wrong name":        generated("template: {labels: {a: b, a b: c}}", ".template.labels", "must have label keys"+keySyntax+"a b"),
	"template label, wrong value":       generated("template: {labels: {a: b c}}", ".template.labels[a]", `Invalid value: "b c": `+valueRule),
	"template label, long value":        generated("template: {labels: {a: "+strings.Repeat("b", 64)+"}}", ".template.labels.a", "may not be more than 63"),
	"template label of ours":            generated("template: {labels: {auth.realmkeeper.dev/client-secret: generated}}", ".template.labels", ownLabels+"auth.realmkeeper.dev/client-secret"),
	"template label near ours":          generated("template: {labels: {x.auth.realmkeeper.dev/a: b, auth.realmkeeper.dev: c}}", "", ""),

	"template annotations":                   generated(`template: {annotations: {reloader.example.com/match: "any text, in [any] form\nand ä"}}`, "", ""),
	"template annotations, 16 of them":       generated("template: {annotations: "+labels(16)+"}", "", ""),
	"template annotations, 17 of them":       generated("template: {annotations: "+labels(17)+"}", ".template.annotations", "must have at most 16 items"),
	"template annotation, upper-case prefix": generated("template: {annotations: {Example.com/Key: d}}", "", ""),
	"template annotation, wrong key":         generated("template: {annotations: {a b: c}}", ".template.annotations", "spec.secret.generated.template.annotations must have annotation keys"+keySyntax+"a b"),
	"template annotation, long prefix":       generated("template: {annotations: {a"+longestLabelKey+": a}}", ".template.annotations", "must have annotation keys"),
	"template annotation of ours":            generated("template: {annotations: {auth.realmkeeper.dev/owner: a}}", ".template.annotations", ownAnnotations+"auth.realmkeeper.dev/owner"),
	"template annotation of ours, case":      generated("template: {annotations: {Auth.Realmkeeper.dev/owner: a}}", ".template.annotations", ownAnnotations+"Auth.Realmkeeper.dev/owner"),
	"template annotation, long value":        generated("template: {annotations: {a: "+strings.Repeat("b", 4097)+"}}", ".template.annotations.a", "may not be more than 4096"),

	"keys that are empty":        generated("keys: {}", "", ""),
	"keys, all renamed":          generated("keys: {client_id: a, client_secret: b, token_url: c, cluster_token_url: d, issuer: e, jwks_url: f, scope: g, ca.crt: h}", "", ""),
	"keys that swap names":       generated("keys: {client_id: client_secret, client_secret: client_id}", "", ""),
	"keys that take a free name": generated("keys: {client_id: scope, scope: SCOPE}", "", ""),
	"keys that keep their name":  generated("keys: {client_id: client_id}", "", ""),
	"key of 253 characters":      generated("keys: {client_id: "+strings.Repeat("a", 253)+"}", "", ""),
	"key of odd characters":      generated("keys: {client_id: .A_-.0.}", "", ""),
	"key that is unknown":        generated("keys: {scope: s, clientId: a}", ".keys", knownKeysRule+"clientId"),
	"keys, nine of them":         generated("keys: "+labels(9), ".keys", "must have at most 8 items"),
	"keys with the same name":    generated("keys: {client_id: a, issuer: a}", ".keys", ownNameRule+"client_id"),
	"keys with a default name":   generated("keys: {token_url: issuer}", ".keys", ownNameRule+"token_url"),
	"keys with the name ca.crt":  generated("keys: {issuer: ca.crt}", ".keys", ownNameRule+"issuer"),
	"key of 254 characters":      generated("keys: {client_id: "+strings.Repeat("a", 254)+"}", ".keys.client_id", "may not be more than 253"),
	"key that is empty":          generated(`keys: {client_id: ""}`, ".keys[client_id]", secretKeyRule),
	"key with a slash":           generated("keys: {client_id: a/b}", ".keys[client_id]", `Invalid value: "a/b": `+secretKeyRule),
	"key that is a dot":          generated("keys: {client_id: .}", ".keys[client_id]", secretKeyRule),
	"key with two leading dots":  generated("keys: {client_id: ..data}", ".keys[client_id]", secretKeyRule),
}

// generated is the case of an ApiClient with these members of spec.secret.generated. It
// is accepted without a rule; with one, wantField stands below that.
func generated(yaml, wantField, wantRule string) validation {
	tc := validation{spec: "secret: {generated: {" + yaml + "}}", wantRule: wantRule}
	if wantRule != "" {
		tc.wantField = "spec.secret.generated" + wantField
	}
	return tc
}
