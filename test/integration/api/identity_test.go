package api_test

import (
	"fmt"
	"strings"
)

const (
	identityRule      = "spec.identities must have exactly one of serviceAccount, which is a service account in the namespace of the client, and issuer, which is the name of an issuer in spec.trustedIssuers of the realm"
	identityMatcher   = "spec.identities with an issuer must have exactly one of subject, which is the exact subject of a token, and matchClaims, which a token must have with exactly these values"
	identityAccount   = "spec.identities with a serviceAccount must not have subject or matchClaims"
	identityName      = "spec.identities.name must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	identityIssuer    = "spec.identities.issuer must be the name of an issuer, not its URL: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	identityCluster   = "spec.identities.issuer must not be kubernetes; for a service account of this cluster, set serviceAccount instead"
	identitySubject   = "spec.identities.subject must be an exact subject without wildcards and control characters; to match some tokens of an issuer, use matchClaims"
	accountDefault    = "spec.identities.serviceAccount.name must not be default, which Pods use unless they specify another service account; create a service account for this workload"
	accountTwice      = "spec.identities must not have two entries with the same serviceAccount"
	firstIdentity     = "spec.identities[0]"
	firstAccountField = firstIdentity + ".serviceAccount.name"
)

// identity returns a spec with one identity.
func identity(members string) string { return "identities: [{name: i, " + members + "}]" }

func account(name string) string { return identity("serviceAccount: {name: " + name + "}") }

func identityWithSubject(subject string) string {
	return identity(fmt.Sprintf("issuer: a, subject: %q", subject))
}

func identityWithClaims(claims string) string { return identity("issuer: a, matchClaims: " + claims) }

var identityValidations = map[string]validation{
	"identity with a subject":          {spec: identityWithSubject("repo:acme/shop:environment:production")},
	"identity with claims":             {spec: identityWithClaims("[{name: repository, value: acme/shop}, {name: environment, value: production}]")},
	"8 claims":                         {spec: identityWithClaims(each("{name: c%d, value: a}", 8))},
	"9 claims":                         {spec: identityWithClaims(each("{name: c%d, value: a}", 9)), wantField: firstIdentity + ".matchClaims", wantRule: "must have at most 8 items"},
	"identity without a secret":        {spec: "{secret: null, " + identity("issuer: a, subject: b") + "}"},
	"two identities of an issuer":      {spec: "identities: [{name: i, issuer: a, subject: b}, {name: j, issuer: a, subject: c}]"},
	"16 identities":                    {spec: "identities: " + each("{name: i%[1]d, issuer: a, subject: s%[1]d}", 16)},
	"17 identities":                    {spec: "identities: " + each("{name: i%[1]d, issuer: a, subject: s%[1]d}", 17), wantField: "spec.identities", wantRule: "must have at most 16 items"},
	"empty list of identities":         {spec: "identities: []", wantField: "spec.identities", wantRule: "should have at least 1 items"},
	"two identities with one name":     {spec: "identities: [{name: i, issuer: a, subject: b}, {name: i, issuer: a, subject: c}]", wantField: "spec.identities[1]", wantRule: "Duplicate value"},
	"identity without a name":          {spec: "identities: [{issuer: a, subject: b}]", wantField: firstIdentity + ".name", wantRule: "Required value"},
	"identity with a name in capitals": {spec: "identities: [{name: I, issuer: a, subject: b}]", wantField: firstIdentity + ".name", wantRule: `Invalid value: "I": ` + identityName},
	"identity with a long name":        {spec: "identities: [{name: " + strings.Repeat("a", 64) + ", issuer: a, subject: b}]", wantField: firstIdentity + ".name", wantRule: "may not be more than 63"},
	"identity with an empty name":      {spec: "identities: [{name: '', issuer: a, subject: b}]", wantField: firstIdentity + ".name", wantRule: tooShort},
	"identity with only a name":        {spec: "identities: [{name: i}]", wantField: firstIdentity, wantRule: identityRule},
	"identity with both kinds":         {spec: identity("issuer: a, subject: b, serviceAccount: {name: a}"), wantField: firstIdentity, wantRule: identityRule},
	"identity with only a subject":     {spec: identity("subject: b"), wantField: firstIdentity, wantRule: identityRule},
	"identity with an empty matcher":   {spec: identity("issuer: a"), wantField: firstIdentity, wantRule: identityMatcher},
	"identity with two matchers":       {spec: identity("issuer: a, subject: b, matchClaims: [{name: c, value: d}]"), wantField: firstIdentity, wantRule: identityMatcher},
	"identity with an empty issuer":    {spec: identity(`issuer: "", subject: b`), wantField: firstIdentity + ".issuer", wantRule: tooShort},
	"identity with the URL of issuer":  {spec: identity("issuer: 'https://issuer.example.com', subject: b"), wantField: firstIdentity + ".issuer", wantRule: identityIssuer},
	"identity with a long issuer":      {spec: identity("issuer: " + strings.Repeat("a", 64) + ", subject: b"), wantField: firstIdentity + ".issuer", wantRule: "may not be more than 63"},
	"identity with an empty subject":   {spec: identityWithSubject(""), wantField: firstIdentity + ".subject", wantRule: tooShort},
	"identity with a subject of 512":   {spec: identityWithSubject(strings.Repeat("ä", 512))},
	"identity with a subject of 513":   {spec: identityWithSubject(strings.Repeat("a", 513)), wantField: firstIdentity + ".subject", wantRule: "may not be more than 512"},
	"identity with spaces":             {spec: identityWithSubject("CN=a b,O=c")},
	"identity with a wildcard":         {spec: identityWithSubject("repo:acme/*"), wantField: firstIdentity + ".subject", wantRule: `Invalid value: "repo:acme/*": ` + identitySubject},
	"identity with only a wildcard":    {spec: identityWithSubject("*"), wantField: firstIdentity + ".subject", wantRule: identitySubject},
	"identity with a line break":       {spec: identityWithSubject("a\n"), wantField: firstIdentity + ".subject", wantRule: identitySubject},
	"identity with a delete character": {spec: identityWithSubject("a\x7f"), wantField: firstIdentity + ".subject", wantRule: identitySubject},
	"identity of another cluster":      {spec: identity("issuer: edge, subject: 'system:serviceaccount:a:default'")},
	"identity of this cluster by name": {spec: identity("issuer: kubernetes, subject: 'system:serviceaccount:a:b'"), wantField: firstIdentity + ".issuer", wantRule: identityCluster},

	"one account":                           {spec: account("a-1.b")},
	"16 accounts":                           {spec: "identities: " + each("{name: i%[1]d, serviceAccount: {name: a%[1]d}}", 16)},
	"account with a long name":              {spec: account(strings.Repeat("a", 253))},
	"account with a name like default":      {spec: account("default2")},
	"account without a secret":              {spec: "{secret: null, " + account("a") + "}"},
	"account with a key and a secret":       {spec: "{" + account("a") + ", publicKeys: [" + ecKey("a") + "], secret: {generated: {}}}"},
	"account in two identities":             {spec: "identities: [{name: i, serviceAccount: {name: a}}, {name: j, serviceAccount: {name: a}}]", wantField: "spec.identities", wantRule: accountTwice},
	"account with a subject":                {spec: identity("serviceAccount: {name: a}, subject: b"), wantField: firstIdentity, wantRule: identityAccount},
	"account with claims":                   {spec: identity("serviceAccount: {name: a}, matchClaims: [{name: c, value: d}]"), wantField: firstIdentity, wantRule: identityAccount},
	"account without a name":                {spec: identity("serviceAccount: {}"), wantField: firstAccountField, wantRule: "Required value"},
	"account with an empty name":            {spec: account(`""`), wantField: firstAccountField, wantRule: tooShort},
	"account default":                       {spec: account("default"), wantField: firstAccountField, wantRule: `Invalid value: "default": ` + accountDefault},
	"account name with a slash":             {spec: account("other/a"), wantField: firstAccountField, wantRule: dnsSubdomainRule},
	"account name in uppercase":             {spec: account("Billing"), wantField: firstAccountField, wantRule: dnsSubdomainRule},
	"account with a name of 254 characters": {spec: account(strings.Repeat("a", 254)), wantField: firstAccountField, wantRule: "may not be more than 253"},

	"client that requires DPoP":       {spec: "senderConstraint: DPoP"},
	"client with mutual TLS":          {spec: "senderConstraint: MTLS", wantField: "spec.senderConstraint", wantRule: `Unsupported value: "MTLS": supported values: "DPoP"`},
	"client with an empty constraint": {spec: `senderConstraint: ""`, wantField: "spec.senderConstraint", wantRule: `Unsupported value: ""`},
}

// identityTransitions covers changes between a secret and identities.
var identityTransitions = map[string]transition{
	"identity replaced":                    {before: identityWithSubject("a"), after: identityWithSubject("b")},
	"account to an identity of an issuer":  {before: account("a"), after: identityWithSubject("b")},
	"secret to an identity":                {before: "", after: "{secret: null, " + identity("issuer: a, subject: b") + "}"},
	"generated with a name to accounts":    {before: "secret: {generated: {secretName: s}}", after: "{secret: null, " + account("a") + "}"},
	"secret with a name added to accounts": {before: "{secret: null, " + account("a") + "}", after: "{" + account("a") + ", secret: {generated: {secretName: s}}}"},
	"identities removed, secret left":      {before: identityWithSubject("a"), after: ""},
	"identities removed, nothing left":     {before: "{secret: null, " + account("a") + "}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
	"constraint, claims added":             {before: "", after: "{senderConstraint: DPoP, claims: [{name: a, string: b}]}"},
	"constraint, claims removed":           {before: "{senderConstraint: DPoP, claims: [{name: a, string: b}]}", after: ""},
	"type and case of a claim's change":    {before: "claims: [{name: a, string: b}]", after: "claims: [{name: A, integer: 1}]"},
}
