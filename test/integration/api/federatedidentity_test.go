package api_test

import (
	"fmt"
	"strings"
)

const (
	identityRule     = "Required value: spec.federatedIdentities must have exactly one of subject, which is the exact subject of a token, and claims, which a token must have with exactly these values"
	identityIssuer   = "spec.federatedIdentities.issuer must be the name of an issuer, not its URL: at most 63 lowercase letters, digits, and inner hyphens"
	identitySubject  = "spec.federatedIdentities.subject must be an exact subject without wildcards and control characters; to match some tokens of an issuer, use claims"
	identityLocal    = "spec.federatedIdentities with the issuer kubernetes, which is this cluster, must have a subject system:serviceaccount:<namespace>:<name>"
	firstIdentity    = "spec.federatedIdentities[0]"
	grantIssuersRule = "spec.grants.issuers must contain names of issuers, not URLs: at most 63 lowercase letters, digits, and inner hyphens"
)

// identity returns a spec with one federated identity.
func identity(members string) string { return "federatedIdentities: [{" + members + "}]" }

func identityWithSubject(subject string) string {
	return identity(fmt.Sprintf("issuer: a, subject: %q", subject))
}

func identityWithClaims(claims string) string { return identity("issuer: a, claims: " + claims) }

var federatedIdentityValidations = map[string]validation{
	"identity with a subject":           {spec: identityWithSubject("repo:acme/shop:environment:production")},
	"identity with claims":              {spec: identityWithClaims("{repository: acme/shop, environment: production}")},
	"identity without a secret":         {spec: "{secret: null, " + identity("issuer: a, subject: b") + "}"},
	"two identities of an issuer":       {spec: "federatedIdentities: [{issuer: a, subject: b}, {issuer: a, subject: c}]"},
	"8 identities":                      {spec: "federatedIdentities: " + each("{issuer: a, subject: s%d}", 8)},
	"9 identities":                      {spec: "federatedIdentities: " + each("{issuer: a, subject: s%d}", 9), wantField: "spec.federatedIdentities", wantRule: "must have at most 8 items"},
	"empty list of identities":          {spec: "federatedIdentities: []", wantField: "spec.federatedIdentities", wantRule: "should have at least 1 items"},
	"identity with an empty matcher":    {spec: identity("issuer: a"), wantField: firstIdentity, wantRule: identityRule},
	"identity with two matchers":        {spec: identity("issuer: a, subject: b, claims: {c: d}"), wantField: firstIdentity, wantRule: identityRule},
	"identity without an issuer":        {spec: identity("subject: b"), wantField: firstIdentity + ".issuer", wantRule: "Required value"},
	"identity with an empty issuer":     {spec: identity(`issuer: "", subject: b`), wantField: firstIdentity + ".issuer", wantRule: tooShort},
	"identity with the URL of issuer":   {spec: identity("issuer: 'https://issuer.example.com', subject: b"), wantField: firstIdentity + ".issuer", wantRule: identityIssuer},
	"identity with a long issuer":       {spec: identity("issuer: " + strings.Repeat("a", 64) + ", subject: b"), wantField: firstIdentity + ".issuer", wantRule: "may not be more than 63"},
	"identity with an empty subject":    {spec: identityWithSubject(""), wantField: firstIdentity + ".subject", wantRule: tooShort},
	"identity with a subject of 512":    {spec: identityWithSubject(strings.Repeat("ä", 512))},
	"identity with a subject of 513":    {spec: identityWithSubject(strings.Repeat("a", 513)), wantField: firstIdentity + ".subject", wantRule: "may not be more than 512"},
	"identity with spaces":              {spec: identityWithSubject("CN=a b,O=c")},
	"identity with a wildcard":          {spec: identityWithSubject("repo:acme/*"), wantField: firstIdentity + ".subject", wantRule: `Invalid value: "repo:acme/*": ` + identitySubject},
	"identity with only a wildcard":     {spec: identityWithSubject("*"), wantField: firstIdentity + ".subject", wantRule: identitySubject},
	"identity with a line break":        {spec: identityWithSubject("a\n"), wantField: firstIdentity + ".subject", wantRule: identitySubject},
	"identity with a delete character":  {spec: identityWithSubject("a\x7f"), wantField: firstIdentity + ".subject", wantRule: identitySubject},
	"identity of this cluster":          {spec: identity("issuer: kubernetes, subject: 'system:serviceaccount:a:b'")},
	"identity of another cluster":       {spec: identity("issuer: edge, subject: 'system:serviceaccount:a:default'")},
	"identity of this cluster, no pod":  {spec: identity("issuer: kubernetes, subject: 'system:node:a'"), wantField: firstIdentity + ".subject", wantRule: identityLocal},
	"identity of this cluster by claim": {spec: identity("issuer: kubernetes, claims: {a: b}"), wantField: firstIdentity + ".subject", wantRule: identityLocal},

	"client that requires DPoP":       {spec: "senderConstraint: DPoP"},
	"client with mutual TLS":          {spec: "senderConstraint: MTLS", wantField: "spec.senderConstraint", wantRule: `Unsupported value: "MTLS": supported values: "DPoP"`},
	"client with an empty constraint": {spec: `senderConstraint: ""`, wantField: "spec.senderConstraint", wantRule: `Unsupported value: ""`},
}

// federatedIdentityTransitions covers changes between a secret and federated identities.
var federatedIdentityTransitions = map[string]transition{
	"identity replaced":                 {before: identityWithSubject("a"), after: identityWithSubject("b")},
	"secret to an identity":             {before: "", after: "{secret: null, " + identity("issuer: a, subject: b") + "}"},
	"identities removed, secret left":   {before: identityWithSubject("a"), after: ""},
	"identities removed, nothing left":  {before: "{secret: null, " + identity("issuer: a, subject: b") + "}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
	"constraint, claims added":          {before: "", after: "{senderConstraint: DPoP, claims: [{name: a, string: b}]}"},
	"constraint, claims removed":        {before: "{senderConstraint: DPoP, claims: [{name: a, string: b}]}", after: ""},
	"type and case of a claim's change": {before: "claims: [{name: a, string: b}]", after: "claims: [{name: A, integer: 1}]"},
}

// grantIssuerValidations covers the members of a grant for federation.
var grantIssuerValidations = map[string]validation{
	"granted issuers":               {spec: inGrant("issuers: [github, kubernetes]")},
	"17 granted issuers":            {spec: inGrant("issuers: " + list("i", 17))},
	"18 granted issuers":            {spec: inGrant("issuers: " + list("i", 18)), wantField: "spec.grants[0].issuers", wantRule: "must have at most 17 items"},
	"empty list of granted issuers": {spec: inGrant("issuers: []"), wantField: "spec.grants[0].issuers", wantRule: "should have at least 1 items"},
	"issuer granted twice":          {spec: inGrant("issuers: [a, a]"), wantField: "spec.grants[0].issuers[1]", wantRule: `Duplicate value: "a"`},
	"empty granted issuer":          {spec: inGrant(`issuers: [""]`), wantField: "spec.grants[0].issuers[0]", wantRule: tooShort},
	"every granted issuer":          {spec: inGrant(`issuers: ["*"]`), wantField: "spec.grants[0].issuers[0]", wantRule: grantIssuersRule},
	"granted URL of an issuer":      {spec: inGrant("issuers: ['https://issuer.example.com']"), wantField: "spec.grants[0].issuers[0]", wantRule: grantIssuersRule},
	"long granted issuer":           {spec: inGrant("issuers: [" + strings.Repeat("a", 64) + "]"), wantField: "spec.grants[0].issuers[0]", wantRule: "may not be more than 63"},

	"grant that requires DPoP":       {spec: inGrant("senderConstraint: DPoP")},
	"grant with mutual TLS":          {spec: inGrant("senderConstraint: MTLS"), wantField: "spec.grants[0].senderConstraint", wantRule: `Unsupported value: "MTLS": supported values: "DPoP"`},
	"grant with an empty constraint": {spec: inGrant(`senderConstraint: ""`), wantField: "spec.grants[0].senderConstraint", wantRule: `Unsupported value: ""`},
}
