package api_test

import "strings"

const (
	oneSecretRule  = "spec.secret must have exactly one of generated, provided, and hashed, but it has "
	secretKeyRule  = "a Secret data key must have only letters, digits, ., _, and -, and must not be . or begin with .."
	ownNameRule    = "spec.secret.generated.keys must result in a unique name for every key, including ca.crt and the keys that are not listed; conflicting key: "
	knownKeysRule  = "spec.secret.generated.keys can rename only client_id, client_secret, next_client_secret, token_url, cluster_token_url, issuer, jwks_url, and scope, not "
	keySyntax      = " (an optional DNS prefix and a slash, then at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends), not "
	foreignLabel   = "spec.secret.generated.template.labels must not have the key "
	onlyLabels     = "; other programs select Secrets by their labels, so only keys with the prefix app.kubernetes.io/ and the keys app, component, env, environment, project, team, and tier are allowed"
	foreignKey     = "spec.secret.generated.template.annotations must not have the key "
	onlyPrefix     = "; other programs act on annotations with a prefix, so only keys without a prefix and keys with the prefix app.kubernetes.io/ are allowed"
	annotationName = "spec.secret.generated.template.annotations must have valid annotation keys (after the prefix, at most 63 letters, digits, dots, underscores, and hyphens, with a letter or digit at both ends), not "
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

	"template labels":                            generated("template: {labels: {app.kubernetes.io/name: billing, team: Team_A.1, env: ''}}", "", ""),
	"every template label without a prefix":      generated("template: {labels: {app: a, component: a, env: a, environment: a, project: a, team: a, tier: a}}", "", ""),
	"16 template labels":                         generated("template: {labels: "+recommended(16)+"}", "", ""),
	"17 template labels":                         generated("template: {labels: "+recommended(17)+"}", ".template.labels", "must have at most 16 items"),
	"template label with another prefix":         generated("template: {labels: {team: a, argocd.argoproj.io/secret-type: cluster}}", ".template.labels", foreignLabel+"argocd.argoproj.io/secret-type"+onlyLabels),
	"template label with the reserved prefix":    generated("template: {labels: {auth.realmkeeper.dev/client-secret: generated}}", ".template.labels", foreignLabel+"auth.realmkeeper.dev/client-secret"+onlyLabels),
	"template label with a longer prefix":        generated("template: {labels: {x.app.kubernetes.io/name: a}}", ".template.labels", foreignLabel+"x.app.kubernetes.io/name"),
	"template label with a shorter prefix":       generated("template: {labels: {kubernetes.io/name: a}}", ".template.labels", foreignLabel+"kubernetes.io/name"),
	"template label with the prefix as its name": generated("template: {labels: {app.kubernetes.io: a}}", ".template.labels", foreignLabel+"app.kubernetes.io"),
	"template label of Helm":                     generated("template: {labels: {owner: helm}}", ".template.labels", foreignLabel+"owner"+onlyLabels),
	"template label in another case":             generated("template: {labels: {Team: a}}", ".template.labels", foreignLabel+"Team"),
	"template label with a longer name":          generated("template: {labels: {app.kubernetes.io/"+strings.Repeat("a", 64)+": a}}", ".template.labels", "must have valid label keys"+keySyntax+"app.kubernetes.io/a"),
	"template label with an invalid name":        generated("template: {labels: {team: b, app.kubernetes.io/a b: c}}", ".template.labels", "must have valid label keys"+keySyntax+"app.kubernetes.io/a b"),
	"template label with an invalid value":       generated("template: {labels: {team: b c}}", ".template.labels[team]", `Invalid value: "b c": `+labelValueRule),
	"template label with a long value":           generated("template: {labels: {team: "+strings.Repeat("b", 64)+"}}", ".template.labels.team", "may not be more than 63"),

	"template annotations":                                generated(`template: {annotations: {Note_1.a: "any text, in [any] form\nand ä", app.kubernetes.io/note: "", owner: a}}`, "", ""),
	"16 template annotations":                             generated("template: {annotations: "+labels(16)+"}", "", ""),
	"17 template annotations":                             generated("template: {annotations: "+labels(17)+"}", ".template.annotations", "must have at most 16 items"),
	"template annotation with another prefix":             generated("template: {annotations: {note: a, reloader.stakater.com/match: 'true'}}", ".template.annotations", foreignKey+"reloader.stakater.com/match"+onlyPrefix),
	"template annotation with the reserved prefix":        generated("template: {annotations: {auth.realmkeeper.dev/owner: a}}", ".template.annotations", foreignKey+"auth.realmkeeper.dev/owner"+onlyPrefix),
	"template annotation with a longer prefix":            generated("template: {annotations: {x.app.kubernetes.io/name: a}}", ".template.annotations", foreignKey+"x.app.kubernetes.io/name"),
	"template annotation with the prefix in uppercase":    generated("template: {annotations: {App.kubernetes.io/name: a}}", ".template.annotations", foreignKey+"App.kubernetes.io/name"),
	"template annotation with an empty prefix":            generated("template: {annotations: {/name: a}}", ".template.annotations", foreignKey+"/name"),
	"template annotation with an invalid key":             generated("template: {annotations: {a b: c}}", ".template.annotations", annotationName+"a b"),
	"template annotation with an empty name":              generated("template: {annotations: {app.kubernetes.io/: a}}", ".template.annotations", annotationName+"app.kubernetes.io/"),
	"template annotation with two slashes":                generated("template: {annotations: {app.kubernetes.io/a/b: a}}", ".template.annotations", annotationName+"app.kubernetes.io/a/b"),
	"template annotation with a name of 63 characters":    generated("template: {annotations: {app.kubernetes.io/"+strings.Repeat("a", 63)+": a}}", "", ""),
	"template annotation with a name of 64 characters":    generated("template: {annotations: {"+strings.Repeat("a", 64)+": a}}", ".template.annotations", annotationName+"aaa"),
	"template annotation with a value of 4096 characters": generated("template: {annotations: {a: "+strings.Repeat("b", 4096)+"}}", "", ""),
	"template annotation with a long value":               generated("template: {annotations: {a: "+strings.Repeat("b", 4097)+"}}", ".template.annotations.a", "may not be more than 4096"),

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

// recommended returns n labels with the prefix app.kubernetes.io/.
func recommended(n int) string {
	return strings.ReplaceAll(labels(n), "l", "app.kubernetes.io/l")
}
