package api_test

import "strings"

const (
	providedNameRule  = "spec.secret.provided.secretRef.name must be the name of a Secret: lower-case letters, digits, and inner hyphens and dots"
	providedOverlap   = "spec.secret.provided.overlap must be a duration in hours, minutes and whole seconds, such as 1h"
	hashedIDRule      = "spec.secret.hashed.id must be 1 to 64 letters, digits, dots, underscores and hyphens"
	hashedHashRule    = "spec.secret.hashed.hash must be a hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$..., and never a secret in plain text"
	providedNameField = "spec.secret.provided.secretRef.name"
	providedKeyField  = "spec.secret.provided.secretRef.key"
)

// broughtSecretValidations are for secrets that the operator doesn't make.
var broughtSecretValidations = map[string]validation{
	"secrets of two kinds":   {spec: "secret: {generated: {}, provided: {secretRef: {name: a}}}", wantField: "spec.secret", wantRule: oneSecretRule},
	"secrets of three kinds": {spec: "secret: {generated: {}, provided: {secretRef: {name: a}}, hashed: [{id: a, hash: $a}]}", wantField: "spec.secret", wantRule: oneSecretRule},

	"provided":                    {spec: "secret: {provided: {secretRef: {name: a-1.b}}}"},
	"provided with all":           {spec: "secret: {provided: {secretRef: {name: a, key: .A_-.0.}, overlap: 1h30m}}"},
	"provided without overlap":    {spec: "secret: {provided: {secretRef: {name: a}, overlap: 0s}}"},
	"provided by nothing":         {spec: "secret: {provided: {}}", wantField: "spec.secret.provided.secretRef", wantRule: "Required value"},
	"provided by no name":         {spec: "secret: {provided: {secretRef: {}}}", wantField: providedNameField, wantRule: "Required value"},
	"provided by an empty name":   {spec: `secret: {provided: {secretRef: {name: ""}}}`, wantField: providedNameField, wantRule: providedNameRule},
	"provided from elsewhere":     {spec: "secret: {provided: {secretRef: {name: other/a}}}", wantField: providedNameField, wantRule: `Invalid value: "other/a": ` + providedNameRule},
	"provided by a name in upper": {spec: "secret: {provided: {secretRef: {name: A}}}", wantField: providedNameField, wantRule: providedNameRule},
	"provided by a long name":     {spec: "secret: {provided: {secretRef: {name: " + strings.Repeat("a", 254) + "}}}", wantField: providedNameField, wantRule: "may not be more than 253"},
	"provided under an empty key": {spec: `secret: {provided: {secretRef: {name: a, key: ""}}}`, wantField: providedKeyField, wantRule: secretKeyRule},
	"provided under a path":       {spec: "secret: {provided: {secretRef: {name: a, key: b/c}}}", wantField: providedKeyField, wantRule: secretKeyRule},
	"provided under a long key":   {spec: "secret: {provided: {secretRef: {name: a, key: " + strings.Repeat("a", 254) + "}}}", wantField: providedKeyField, wantRule: "may not be more than 253"},
	"provided, overlap in days":   {spec: "secret: {provided: {secretRef: {name: a}, overlap: 1d}}", wantField: "spec.secret.provided.overlap", wantRule: `Invalid value: "1d": ` + providedOverlap},
	"provided, overlap too long":  {spec: "secret: {provided: {secretRef: {name: a}, overlap: " + strings.Repeat("1h", 17) + "}}", wantField: "spec.secret.provided.overlap", wantRule: "may not be more than 32"},
	"provided, overlap, a number": {spec: "secret: {provided: {secretRef: {name: a}, overlap: 60}}", wantField: "spec.secret.provided.overlap", wantRule: "must be of type string"},

	"hashed":                 {spec: "secret: {hashed: [{id: A.0_-b, hash: $hmac-sha256$a$b}]}"},
	"hashed, two of them":    {spec: "secret: {hashed: [{id: a, hash: $a}, {id: b, hash: $b, expiresAt: '2031-12-31T23:59:59.5+01:00'}]}"},
	"hashed, longest":        {spec: "secret: {hashed: [{id: " + strings.Repeat("a", 64) + ", hash: $" + strings.Repeat("a", 511) + "}]}"},
	"hashed, none of them":   {spec: "secret: {hashed: []}", wantField: "spec.secret.hashed", wantRule: "should have at least 1 items"},
	"hashed, three of them":  {spec: "secret: {hashed: [{id: a, hash: $a}, {id: b, hash: $b}, {id: c, hash: $c}]}", wantField: "spec.secret.hashed", wantRule: "must have at most 2 items"},
	"hashed, one id for two": {spec: "secret: {hashed: [{id: a, hash: $a}, {id: a, hash: $b}]}", wantField: "spec.secret.hashed[1]", wantRule: "Duplicate value"},
	"hashed without id":      {spec: "secret: {hashed: [{hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: "Required value"},
	"hashed with empty id":   {spec: `secret: {hashed: [{id: "", hash: $a}]}`, wantField: "spec.secret.hashed[0].id", wantRule: hashedIDRule},
	"hashed with wrong id":   {spec: "secret: {hashed: [{id: a b, hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: `Invalid value: "a b": ` + hashedIDRule},
	"hashed with long id":    {spec: "secret: {hashed: [{id: " + strings.Repeat("a", 65) + ", hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: "may not be more than 64"},
	"hashed without hash":    {spec: "secret: {hashed: [{id: a}]}", wantField: "spec.secret.hashed[0].hash", wantRule: "Required value"},
	"hashed in plain text":   {spec: "secret: {hashed: [{id: a, hash: rk_secret}]}", wantField: "spec.secret.hashed[0].hash", wantRule: hashedHashRule},
	"hashed at length":       {spec: "secret: {hashed: [{id: a, hash: $" + strings.Repeat("a", 512) + "}]}", wantField: "spec.secret.hashed[0].hash", wantRule: "may not be more than 512"},
	"hashed with a date":     {spec: "secret: {hashed: [{id: a, hash: $a, expiresAt: '2031-12-31'}]}", wantField: "spec.secret.hashed[0].expiresAt", wantRule: "in body should match"},
	"hashed with no day":     {spec: "secret: {hashed: [{id: a, hash: $a, expiresAt: '2031-02-30T00:00:00Z'}]}", wantField: "spec.secret.hashed[0].expiresAt", wantRule: "must be of type date-time"},
}

// broughtSecretTransitions are changes from one kind of secret to another.
var broughtSecretTransitions = map[string]transition{
	"generated to provided":  {before: "", after: "secret: {provided: {secretRef: {name: a}}}"},
	"provided to generated":  {before: "secret: {provided: {secretRef: {name: a}}}", after: "secret: {generated: {secretName: s}}"},
	"provided to nothing":    {before: "secret: {provided: {secretRef: {name: a}}}", after: ""},
	"generated name to hash": {before: "secret: {generated: {secretName: s}}", after: "secret: {hashed: [{id: a, hash: $a}]}"},
	"hashed to a new name":   {before: "secret: {hashed: [{id: a, hash: $a}]}", after: "secret: {generated: {secretName: t}}"},
	"provided by another":    {before: "secret: {provided: {secretRef: {name: a}}}", after: "secret: {provided: {secretRef: {name: b, key: c}, overlap: 1h}}"},
	"hashed to other hashes": {before: "secret: {hashed: [{id: a, hash: $a}]}", after: "secret: {hashed: [{id: a, hash: $c}, {id: b, hash: $b}]}"},
}
