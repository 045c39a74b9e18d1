package api_test

import "strings"

const (
	hashOrRefRule     = "spec.secret.hashed must have exactly one of hash, which everyone who can read the ApiClient can see, and hashSecretRef, which is the name of a Secret with the hash"
	hashedIDRule      = "spec.secret.hashed.id must have 1 to 64 letters, digits, dots, underscores, and hyphens"
	hashedHashRule    = "spec.secret.hashed.hash must be a hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$..., and never a plaintext secret"
	argon2idRule      = "spec.secret.hashed.hash must not use less memory with Argon2id than OWASP recommends, which is m=47104 with t=1, m=19456 with t=2, m=12288 with t=3, or m=9216 with t=4; hash the secret again, for example with kubectl realmkeeper hash, or use a generated secret"
	pbkdf2Rule        = "spec.secret.hashed.hash must use PBKDF2 only with SHA-256 or SHA-512 and 10000 to 1000000 iterations; hash the secret again with Argon2id, for example with kubectl realmkeeper hash, or use a generated secret"
	bcryptRule        = "spec.secret.hashed.hash must use bcrypt only as 2a, 2b, or 2y with a cost from 08 to 12; hash the secret again with Argon2id, for example with kubectl realmkeeper hash, or use a generated secret"
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

	"hashed":                                     {spec: "secret: {hashed: [{id: A.0_-b, hash: $hmac-sha256$a$b}]}"},
	"two hashes":                                 {spec: "secret: {hashed: [{id: a, hash: $a}, {id: b, hash: $b, expirationTime: '2031-12-31T23:59:59.5+01:00'}]}"},
	"hash of the longest length":                 {spec: "secret: {hashed: [{id: " + strings.Repeat("a", 64) + ", hash: $" + strings.Repeat("a", 511) + "}]}"},
	"empty list of hashes":                       {spec: "secret: {hashed: []}", wantField: "spec.secret.hashed", wantRule: "should have at least 1 items"},
	"three hashes":                               {spec: "secret: {hashed: [{id: a, hash: $a}, {id: b, hash: $b}, {id: c, hash: $c}]}", wantField: "spec.secret.hashed", wantRule: "must have at most 2 items"},
	"hashes with a duplicate id":                 {spec: "secret: {hashed: [{id: a, hash: $a}, {id: a, hash: $b}]}", wantField: "spec.secret.hashed[1]", wantRule: "Duplicate value"},
	"hash without an id":                         {spec: "secret: {hashed: [{hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: "Required value"},
	"empty hash":                                 {spec: `secret: {hashed: [{id: a, hash: ""}]}`, wantField: "spec.secret.hashed[0].hash", wantRule: tooShort},
	"hash with an empty id":                      {spec: `secret: {hashed: [{id: "", hash: $a}]}`, wantField: "spec.secret.hashed[0].id", wantRule: tooShort},
	"hash with an invalid id":                    {spec: "secret: {hashed: [{id: a b, hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: `Invalid value: "a b": ` + hashedIDRule},
	"hash with a long id":                        {spec: "secret: {hashed: [{id: " + strings.Repeat("a", 65) + ", hash: $a}]}", wantField: "spec.secret.hashed[0].id", wantRule: "may not be more than 64"},
	"hashed without a hash":                      {spec: "secret: {hashed: [{id: a}]}", wantField: "spec.secret.hashed[0]", wantRule: hashOrRefRule},
	"hash in a Secret":                           {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: b}}, {id: c, hashSecretRef: {name: b, key: c}}]}"},
	"hash twice":                                 {spec: "secret: {hashed: [{id: a, hash: $a, hashSecretRef: {name: b}}]}", wantField: "spec.secret.hashed[0]", wantRule: hashOrRefRule},
	"hash in a Secret without a name":            {spec: "secret: {hashed: [{id: a, hashSecretRef: {key: b}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.name", wantRule: "Required value"},
	"hash in a Secret with an empty name":        {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: ''}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.name", wantRule: tooShort},
	"hash in a Secret with a long name":          {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: " + strings.Repeat("b", 254) + "}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.name", wantRule: "may not be more than 253"},
	"hash in a Secret of another namespace":      {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: b/c}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.name", wantRule: dnsSubdomainRule},
	"hash in a Secret with an invalid key":       {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: b, key: a b}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.key", wantRule: secretKeyRule},
	"hash in a Secret with an empty key":         {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: b, key: ''}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.key", wantRule: tooShort},
	"hash in a Secret with a long key":           {spec: "secret: {hashed: [{id: a, hashSecretRef: {name: b, key: " + strings.Repeat("k", 254) + "}}]}", wantField: "spec.secret.hashed[0].hashSecretRef.key", wantRule: "may not be more than 253"},
	"hash that is a plaintext secret":            {spec: "secret: {hashed: [{id: a, hash: rk_secret}]}", wantField: "spec.secret.hashed[0].hash", wantRule: hashedHashRule},
	"hash that is too long":                      {spec: "secret: {hashed: [{id: a, hash: $" + strings.Repeat("a", 512) + "}]}", wantField: "spec.secret.hashed[0].hash", wantRule: "may not be more than 512"},
	"hash with a date as expirationTime":         {spec: "secret: {hashed: [{id: a, hash: $a, expirationTime: '2031-12-31'}]}", wantField: "spec.secret.hashed[0].expirationTime", wantRule: "in body should match"},
	"hash with an invalid day as expirationTime": {spec: "secret: {hashed: [{id: a, hash: $a, expirationTime: '2031-02-30T00:00:00Z'}]}", wantField: "spec.secret.hashed[0].expirationTime", wantRule: "must be of type date-time"},
}

// hashParameterValidations covers the parameters of hashes.
var hashParameterValidations = func() map[string]validation {
	const (
		tail       = "$c2FsdHNhbHRzYWx0c2FsdA$dGFndGFndGFndGFndGFndGFndGFndGFndGFndGFndGE"
		bcryptTail = "$Io1.7xr5VRC/AFN7flWJ2.QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG"
	)
	validations := map[string]validation{}
	add := func(rule string, hashes ...string) {
		for _, hash := range hashes {
			v := validation{spec: "secret: {hashed: [{id: a, hash: '" + hash + "'}]}", wantRule: rule}
			if rule != "" {
				v.wantField = "spec.secret.hashed[0].hash"
			}
			validations["hash "+hash] = v
		}
	}
	argon2id := func(parameters string) string { return "$argon2id$v=19$" + parameters + tail }
	add("", argon2id("m=47104,t=1,p=1"), argon2id("m=19456,t=2,p=1"), argon2id("m=12288,t=3,p=1"), argon2id("m=9216,t=4,p=4"),
		argon2id("m=65536,t=4,p=4"), argon2id("m=100000,t=1,p=1"),
		// The operator rejects these with the reason HashNotSupported.
		argon2id("m=8,t=5,p=1"), argon2id("t=2,m=8,p=1"), argon2id("m=,t=2,p=1"), argon2id("m=99999999999999999999,t=2,p=1"), "$argon2id$v=19$", "$argon2id")
	add(argon2idRule, argon2id("m=47103,t=1,p=1"), argon2id("m=19455,t=2,p=1"), argon2id("m=12287,t=3,p=1"), argon2id("m=9215,t=4,p=1"),
		argon2id("m=9215,t=4,p=4"), argon2id("m=0,t=1,p=1"), argon2id("m=8,t=4,p=1"), argon2id("m=9999,t=2,p=1"), argon2id("m=019455,t=2,p=1"),
		"$argon2id$v=19$m=8,t=1,")
	add("", "$pbkdf2-sha256$i=10000,l=32"+tail, "$pbkdf2-sha512$i=1000000,l=32"+tail, "$pbkdf2-sha256$i=25000"+tail, "$pbkdf2-sha512$310000"+tail, "$pbkdf2-sha256$99999"+tail)
	add(pbkdf2Rule, "$pbkdf2-sha256$i=9999,l=32"+tail, "$pbkdf2-sha512$i=1000001,l=32"+tail, "$pbkdf2-sha256$i=010000"+tail, "$pbkdf2-sha256$9999"+tail,
		"$pbkdf2-sha512$10000000"+tail, "$pbkdf2-sha1$i=25000,l=32"+tail, "$pbkdf2$131000"+tail, "$pbkdf2-sha384$25000"+tail, "$pbkdf2-sha256$l=32,i=25000"+tail, "$pbkdf2-sha256$")
	add("", "$2a$08"+bcryptTail, "$2b$10"+bcryptTail, "$2y$12"+bcryptTail)
	add(bcryptRule, "$2b$07"+bcryptTail, "$2a$04"+bcryptTail, "$2y$13"+bcryptTail, "$2b$31"+bcryptTail, "$2b$8"+bcryptTail, "$2x$10"+bcryptTail, "$2$10"+bcryptTail, "$2b$")
	return validations
}()

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
