package api_test

import "strings"

const (
	hashedIDRule      = "spec.secret.hashed.id must have 1 to 64 letters, digits, dots, underscores, and hyphens"
	hashedHashRule    = "spec.secret.hashed.hash must be a hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$..., and never a plaintext secret"
	providedNameField = "spec.secret.provided.secretRef.name"
	providedKeyField  = "spec.secret.provided.secretRef.key"
)

// providedSecretValidations covers provided and hashed secrets.
var providedSecretValidations = map[string]validation{
	"secret with two sources":   {spec: "secret: {generated: {}, provided: {secretRef: {name: a}}}", wantField: "spec.secret", wantRule: oneSecretRule},
	"secret with three sources": {spec: "secret: {generated: {}, provided: {secretRef: {name: a}}, hashed: [{id: a, hash: $a}]}", wantField: "spec.secret", wantRule: oneSecretRule},

	"provided":                             {spec: "secret: {provided: {secretRef: {name: a-1.b}}}"},
	"provided with all fields":             {spec: "secret: {provided: {secretRef: {name: a, key: .A_-.0.}, overlap: 1h30m}}"},
	"provided with a zero overlap":         {spec: "secret: {provided: {secretRef: {name: a}, overlap: 0s}}"},
	"provided without secretRef":           {spec: "secret: {provided: {}}", wantField: "spec.secret.provided.secretRef", wantRule: "Required value"},
	"provided without a name":              {spec: "secret: {provided: {secretRef: {}}}", wantField: providedNameField, wantRule: "Required value"},
	"provided with an empty name":          {spec: `secret: {provided: {secretRef: {name: ""}}}`, wantField: providedNameField, wantRule: tooShort},
	"provided name with a slash":           {spec: "secret: {provided: {secretRef: {name: other/a}}}", wantField: providedNameField, wantRule: `Invalid value: "other/a": ` + dnsSubdomainRule},
	"provided name in uppercase":           {spec: "secret: {provided: {secretRef: {name: A}}}", wantField: providedNameField, wantRule: dnsSubdomainRule},
	"provided with a long name":            {spec: "secret: {provided: {secretRef: {name: " + strings.Repeat("a", 254) + "}}}", wantField: providedNameField, wantRule: "may not be more than 253"},
	"provided with an empty key":           {spec: `secret: {provided: {secretRef: {name: a, key: ""}}}`, wantField: providedKeyField, wantRule: tooShort},
	"provided key with a slash":            {spec: "secret: {provided: {secretRef: {name: a, key: b/c}}}", wantField: providedKeyField, wantRule: secretKeyRule},
	"provided with a long key":             {spec: "secret: {provided: {secretRef: {name: a, key: " + strings.Repeat("a", 254) + "}}}", wantField: providedKeyField, wantRule: "may not be more than 253"},
	"provided with an overlap in days":     {spec: "secret: {provided: {secretRef: {name: a}, overlap: 1d}}", wantField: "spec.secret.provided.overlap", wantRule: `Invalid value: "1d": ` + durationRule},
	"provided with a long overlap":         {spec: "secret: {provided: {secretRef: {name: a}, overlap: " + strings.Repeat("1h", 17) + "}}", wantField: "spec.secret.provided.overlap", wantRule: "may not be more than 32"},
	"provided with an overlap as a number": {spec: "secret: {provided: {secretRef: {name: a}, overlap: 60}}", wantField: "spec.secret.provided.overlap", wantRule: "must be of type string"},

	"hashed":                                {spec: "secret: {hashed: [{id: A.0_-b, hash: $hmac-sha256$a$b}]}"},
	"two hashes":                            {spec: "secret: {hashed: [{id: a, hash: $a}, {id: b, hash: $b, expiresAt: '2031-12-31T23:59:59.5+01:00'}]}"},
	"hash of the longest length":            {spec: "secret: {hashed: [{id: " + strings.Repeat("a", 64) + ", hash: $" + strings.Repeat("a", 511) + "}]}"},
	"empty list of hashes":                  {spec: "secret: {hashed: []}", wantField: "spec.secret.hashed", wantRule: "should have at least 1 items"},
	"three hashes":                          {spec: "secret: {hashed: [{id: a, hash: $a}, {id: b, hash: $b}, {id: c, hash: $c}]}", wantField: "spec.secret.hashed", wantRule: "must have at most 2 items"},
	"hashes with a duplicate id":            {spec: "secret: {hashed: [{id: a, hash: $a}, {id: a, hash: $b}]}", wantField: "spec.secret.hashed[1]", wantRule: "Duplicate value"},
	"hash without an id":                    {spec: "secret: {hashed: [{hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: "Required value"},
	"empty hash":                            {spec: `secret: {hashed: [{id: a, hash: ""}]}`, wantField: "spec.secret.hashed[0].hash", wantRule: tooShort},
	"hash with an empty id":                 {spec: `secret: {hashed: [{id: "", hash: $a}]}`, wantField: "spec.secret.hashed[0].id", wantRule: tooShort},
	"hash with an invalid id":               {spec: "secret: {hashed: [{id: a b, hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: `Invalid value: "a b": ` + hashedIDRule},
	"hash with a long id":                   {spec: "secret: {hashed: [{id: " + strings.Repeat("a", 65) + ", hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: "may not be more than 64"},
	"hashed without a hash":                 {spec: "secret: {hashed: [{id: a}]}", wantField: "spec.secret.hashed[0].hash", wantRule: "Required value"},
	"hash that is a plaintext secret":       {spec: "secret: {hashed: [{id: a, hash: rk_secret}]}", wantField: "spec.secret.hashed[0].hash", wantRule: hashedHashRule},
	"hash that is too long":                 {spec: "secret: {hashed: [{id: a, hash: $" + strings.Repeat("a", 512) + "}]}", wantField: "spec.secret.hashed[0].hash", wantRule: "may not be more than 512"},
	"hash with a date as expiresAt":         {spec: "secret: {hashed: [{id: a, hash: $a, expiresAt: '2031-12-31'}]}", wantField: "spec.secret.hashed[0].expiresAt", wantRule: "in body should match"},
	"hash with an invalid day as expiresAt": {spec: "secret: {hashed: [{id: a, hash: $a, expiresAt: '2031-02-30T00:00:00Z'}]}", wantField: "spec.secret.hashed[0].expiresAt", wantRule: "must be of type date-time"},
}

// providedSecretTransitions covers changes between sources of the secret.
var providedSecretTransitions = map[string]transition{
	"generated to provided":           {before: "", after: "secret: {provided: {secretRef: {name: a}}}"},
	"provided to generated":           {before: "secret: {provided: {secretRef: {name: a}}}", after: "secret: {generated: {secretName: s}}"},
	"provided removed":                {before: "secret: {provided: {secretRef: {name: a}}}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
	"generated with a name to hashed": {before: "secret: {generated: {secretName: s}}", after: "secret: {hashed: [{id: a, hash: $a}]}"},
	"hashed to generated with a name": {before: "secret: {hashed: [{id: a, hash: $a}]}", after: "secret: {generated: {secretName: t}}"},
	"provided from another Secret":    {before: "secret: {provided: {secretRef: {name: a}}}", after: "secret: {provided: {secretRef: {name: b, key: c}, overlap: 1h}}"},
	"hashes changed":                  {before: "secret: {hashed: [{id: a, hash: $a}]}", after: "secret: {hashed: [{id: a, hash: $c}, {id: b, hash: $b}]}"},
}
