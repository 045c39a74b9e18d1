package api_test

import (
	"strings"
)

var realmValidations = map[string]validation{
	"minimal realm": {},
	"no spec":       {noSpec: true, wantField: "spec", wantRule: "Required value"},

	"realm name of 63 characters":       {name: strings.Repeat("a", 63)},
	"realm name of one character":       {name: "a"},
	"realm name with digits":            {name: "0-acme-1"},
	"realm name of 64 characters":       {name: strings.Repeat("a", 64), wantField: "<nil>", wantRule: "metadata.name must be a DNS label (lowercase letters, digits, and hyphens, with a letter or digit at both ends, at most 63 characters), not aaa"},
	"realm name with a dot":             {name: "acme.example", wantField: "<nil>", wantRule: "metadata.name must be a DNS label (lowercase letters, digits, and hyphens, with a letter or digit at both ends, at most 63 characters), not acme.example"},
	"realm name in uppercase":           {name: "Acme", wantField: "<nil>", wantRule: "metadata.name must be a DNS label"},
	"realm name with a trailing hyphen": {name: "acme-", wantField: "<nil>", wantRule: "metadata.name must be a DNS label"},
	"realm name .well-known":            {name: ".well-known", wantField: "<nil>", wantRule: "metadata.name must be a DNS label"},

	"displayName of 128 characters": {spec: "displayName: " + strings.Repeat("ä", 128)},
	"empty displayName":             {spec: `displayName: ""`},
	"displayName of 129 characters": {spec: "displayName: " + strings.Repeat("ä", 129), wantField: "spec.displayName", wantRule: "may not be more than 128"},

	"empty signing":                   {spec: "signing: {}"},
	"signing with ES256":              {spec: "signing: {algorithm: ES256}"},
	"signing with ES384":              {spec: "signing: {algorithm: ES384}"},
	"signing with EdDSA":              {spec: "signing: {algorithm: EdDSA}"},
	"signing with RS256":              {spec: "signing: {algorithm: RS256}"},
	"signing with PS256":              {spec: "signing: {algorithm: PS256}"},
	"signing with a MAC":              {spec: "signing: {algorithm: HS256}", wantField: "spec.signing.algorithm", wantRule: `Unsupported value: "HS256": supported values: "ES256", "ES384", "EdDSA", "RS256", "PS256"`},
	"signing with none":               {spec: "signing: {algorithm: none}", wantField: "spec.signing.algorithm", wantRule: `Unsupported value: "none"`},
	"signing in lowercase":            {spec: "signing: {algorithm: es256}", wantField: "spec.signing.algorithm", wantRule: `Unsupported value: "es256"`},
	"signing with an empty algorithm": {spec: `signing: {algorithm: ""}`, wantField: "spec.signing.algorithm", wantRule: `Unsupported value: ""`},

	"empty statusList":                  {spec: "statusList: {}"},
	"statusList with a default ttl":     {spec: "statusList: {enabled: true}"},
	"statusList with a ttl of 5s":       {spec: "statusList: {enabled: true, ttl: 5s}"},
	"statusList with a ttl of 10m":      {spec: "statusList: {ttl: 10m}"},
	"statusList with a ttl of 4s":       {spec: "statusList: {enabled: true, ttl: 4s}", wantField: listTTLField, wantRule: `Invalid value: "4s": ` + listTTLRule},
	"statusList with a ttl of 10m1s":    {spec: "statusList: {ttl: 10m1s}", wantField: listTTLField, wantRule: listTTLRule},
	"statusList with a ttl in days":     {spec: "statusList: {ttl: 1d}", wantField: listTTLField, wantRule: `Invalid value: "1d": ` + durationRule},
	"statusList with an empty ttl":      {spec: `statusList: {ttl: ""}`, wantField: listTTLField, wantRule: durationRule},
	"statusList with a ttl as a number": {spec: "statusList: {ttl: 10}", wantField: listTTLField, wantRule: "must be of type string"},
	"statusList with a long ttl":        {spec: "statusList: {ttl: " + strings.Repeat("1s", 17) + "}", wantField: listTTLField, wantRule: "may not be more than 32"},

	"suspend true":                      {spec: "suspend: true"},
	"suspend false":                     {spec: "suspend: false"},
	"tokensValidAfterTime":              {spec: "tokensValidAfterTime: '2031-12-31T23:59:59.5+01:30'"},
	"tokensValidAfterTime in lowercase": {spec: "tokensValidAfterTime: '2031-12-31t23:59:59z'", wantField: "spec.tokensValidAfterTime", wantRule: "should match"},
	"tokensValidAfterTime as a date":    {spec: "tokensValidAfterTime: '2031-12-31'", wantField: "spec.tokensValidAfterTime", wantRule: "must be of type date-time"},

	"suspend as a string": {spec: `suspend: "yes"`, wantField: "spec.suspend", wantRule: "must be of type boolean"},
}

var realmTransitions = map[string]transition{
	"all fields changed": {
		before: "{displayName: A, tokenLifetime: 5m, audiences: [a], scopes: [a], signing: {algorithm: ES256, rotationInterval: 24h, publishAhead: 1h, rotationRequestTime: '2026-03-01T12:00:00Z'}}",
		after:  "{displayName: B, tokenLifetime: 1h, audiences: [b], scopes: [b], signing: {algorithm: RS256, rotationInterval: 1h, publishAhead: 10m, rotationRequestTime: '2025-03-01T12:00:00Z'}, limits: {tokensPerSecondPerServer: 5}, statusList: {enabled: true, ttl: 30s}, suspend: true, tokensValidAfterTime: '2026-01-01T00:00:00Z', grants: [{name: b, namespaces: {names: [a]}, audiences: [b], issuers: [a]}], trustedIssuers: [{name: a, issuer: 'https://a.example.com'}], claims: [{name: a, string: b}], allowedClaims: [b]}",
	},
	"optional fields removed": {
		before: "{displayName: A, tokenLifetime: 5m, audiences: [a], scopes: [a], signing: {algorithm: ES256, rotationInterval: 1h, publishAhead: 10m, rotationRequestTime: '2026-03-01T12:00:00Z'}, limits: {tokensPerSecondPerServer: 5}, statusList: {enabled: true, ttl: 30s}, suspend: true, trustedIssuers: [{name: a, issuer: 'https://a.example.com'}], claims: [{name: a, string: b}], allowedClaims: [b]}",
		after:  "{}",
	},
}

const (
	intervalField = "spec.signing.rotationInterval"
	intervalRule  = "spec.signing.rotationInterval must be at least 1h"

	aheadField    = "spec.signing.publishAhead"
	aheadRule     = "spec.signing.publishAhead must be at least 10m"
	aheadHalfRule = "spec.signing.publishAhead must be at most half of spec.signing.rotationInterval, which is "

	rotateAfterField = "spec.signing.rotationRequestTime"

	listTTLField = "spec.statusList.ttl"
	listTTLRule  = "spec.statusList.ttl must be between 5s and 10m; use 10s unless verifiers get the list too often"
)

// rotationValidations covers the rotation schedule in spec.signing.
var rotationValidations = map[string]validation{
	"interval of 1h":                             {spec: "signing: {rotationInterval: 1h}"},
	"interval of 30 days":                        {spec: "signing: {rotationInterval: 720h}"},
	"interval of years":                          {spec: "signing: {rotationInterval: 99999h}"},
	"interval as formatted by Go":                {spec: "signing: {rotationInterval: 720h0m0s}"},
	"interval of 59m59s":                         {spec: "signing: {rotationInterval: 59m59s}", wantField: intervalField, wantRule: `Invalid value: "59m59s": ` + intervalRule},
	"interval of 0s":                             {spec: "signing: {rotationInterval: 0s}", wantField: intervalField, wantRule: intervalRule},
	"interval in days":                           {spec: "signing: {rotationInterval: 30d}", wantField: intervalField, wantRule: `Invalid value: "30d": ` + durationRule},
	"negative interval":                          {spec: "signing: {rotationInterval: -1h}", wantField: intervalField, wantRule: durationRule},
	"interval in milliseconds":                   {spec: "signing: {rotationInterval: 3600000ms}", wantField: intervalField, wantRule: durationRule},
	"empty interval":                             {spec: `signing: {rotationInterval: ""}`, wantField: intervalField, wantRule: durationRule},
	"interval as a number":                       {spec: "signing: {rotationInterval: 3600}", wantField: intervalField, wantRule: "must be of type string"},
	"long interval":                              {spec: "signing: {rotationInterval: " + strings.Repeat("1h", 17) + "}", wantField: intervalField, wantRule: "may not be more than 32"},
	"invalid interval with a valid publishAhead": {spec: "signing: {rotationInterval: 30d, publishAhead: 1h}", wantField: intervalField, wantRule: durationRule},

	"publishAhead of 10m":                        {spec: "signing: {publishAhead: 10m}"},
	"publishAhead of half the default interval":  {spec: "signing: {publishAhead: 360h}"},
	"publishAhead of half the shortest interval": {spec: "signing: {rotationInterval: 1h, publishAhead: 30m}"},
	"publishAhead of years":                      {spec: "signing: {rotationInterval: 99999h99999h99999h, publishAhead: 99999h}"},
	"publishAhead of 9m59s":                      {spec: "signing: {publishAhead: 9m59s}", wantField: aheadField, wantRule: `Invalid value: "9m59s": ` + aheadRule},
	"publishAhead of 0s":                         {spec: "signing: {publishAhead: 0s}", wantField: aheadField, wantRule: aheadRule},
	"publishAhead of more than half the interval": {
		spec: "signing: {rotationInterval: 1h, publishAhead: 30m1s}", wantField: aheadField, wantRule: aheadHalfRule + "1h",
	},
	"publishAhead of more than half the default interval": {
		spec: "signing: {publishAhead: 360h1s}", wantField: aheadField, wantRule: aheadHalfRule + "unset and defaults to 720h",
	},
	"longest publishAhead that the format allows": {spec: "signing: {publishAhead: 99999h99999h99999h}", wantField: aheadField, wantRule: aheadHalfRule},
	"publishAhead in days":                        {spec: "signing: {publishAhead: 1d}", wantField: aheadField, wantRule: `Invalid value: "1d": ` + durationRule},
	"publishAhead with a fraction":                {spec: "signing: {publishAhead: 1.5h}", wantField: aheadField, wantRule: durationRule},
	"empty publishAhead":                          {spec: `signing: {publishAhead: ""}`, wantField: aheadField, wantRule: durationRule},
	"publishAhead as a number":                    {spec: "signing: {publishAhead: 3600}", wantField: aheadField, wantRule: "must be of type string"},
	"long publishAhead":                           {spec: "signing: {publishAhead: " + strings.Repeat("1h", 17) + "}", wantField: aheadField, wantRule: "may not be more than 32"},

	"rotationRequestTime in UTC":                 {spec: "signing: {rotationRequestTime: '2026-03-01T12:00:00Z'}"},
	"rotationRequestTime with an offset":         {spec: "signing: {rotationRequestTime: '2026-03-01T12:00:00+01:00'}"},
	"rotationRequestTime with a fraction":        {spec: "signing: {rotationRequestTime: '2026-03-01T12:00:00.123456789Z'}"},
	"rotationRequestTime as a date":              {spec: "signing: {rotationRequestTime: '2026-03-01'}", wantField: rotateAfterField, wantRule: "in body should match"},
	"rotationRequestTime in lowercase":           {spec: "signing: {rotationRequestTime: '2026-03-01t12:00:00z'}", wantField: rotateAfterField, wantRule: "in body should match"},
	"rotationRequestTime with an invalid offset": {spec: "signing: {rotationRequestTime: '2026-03-01T12:00:00+99:99'}", wantField: rotateAfterField, wantRule: "in body should match"},
	"rotationRequestTime on an invalid day":      {spec: "signing: {rotationRequestTime: '2026-02-30T12:00:00Z'}", wantField: rotateAfterField, wantRule: "must be of type date-time"},
	"rotationRequestTime as a word":              {spec: "signing: {rotationRequestTime: now}", wantField: rotateAfterField, wantRule: "in body should match"},
}

// lifetimeValidations covers spec.tokenLifetime of both kinds.
var lifetimeValidations = map[string]validation{
	"lifetime of 10s":                                 {spec: "tokenLifetime: 10s"},
	"lifetime of 24h":                                 {spec: "tokenLifetime: 24h"},
	"lifetime as formatted by Go":                     {spec: "tokenLifetime: 1h0m0s"},
	"lifetime in seconds":                             {spec: "tokenLifetime: 86400s"},
	"lifetime in hours and minutes":                   {spec: "tokenLifetime: 1h30m"},
	"lifetime of 9s":                                  {spec: "tokenLifetime: 9s", wantField: "spec.tokenLifetime", wantRule: `Invalid value: "9s": spec.tokenLifetime must be between 10s and 24h`},
	"lifetime of 0s":                                  {spec: "tokenLifetime: 0s", wantField: "spec.tokenLifetime", wantRule: "spec.tokenLifetime must be between 10s and 24h"},
	"lifetime of 24h1s":                               {spec: "tokenLifetime: 24h1s", wantField: "spec.tokenLifetime", wantRule: "spec.tokenLifetime must be between 10s and 24h"},
	"lifetime of 1440 minutes and 1s":                 {spec: "tokenLifetime: 1440m1s", wantField: "spec.tokenLifetime", wantRule: "spec.tokenLifetime must be between 10s and 24h"},
	"lifetime of many years":                          {spec: "tokenLifetime: 99999h99999h99999h", wantField: "spec.tokenLifetime", wantRule: "spec.tokenLifetime must be between 10s and 24h"},
	"lifetime longer than the longest duration in Go": {spec: "tokenLifetime: 9999999h", wantField: "spec.tokenLifetime", wantRule: `Invalid value: "9999999h": ` + durationRule},
	"lifetime with milliseconds":                      {spec: "tokenLifetime: 1m500ms", wantField: "spec.tokenLifetime", wantRule: `Invalid value: "1m500ms": ` + durationRule},
	"lifetime in milliseconds":                        {spec: "tokenLifetime: 60000ms", wantField: "spec.tokenLifetime", wantRule: durationRule},
	"lifetime in microseconds":                        {spec: "tokenLifetime: 60000000us", wantField: "spec.tokenLifetime", wantRule: durationRule},
	"lifetime with a fraction":                        {spec: "tokenLifetime: 1.5h", wantField: "spec.tokenLifetime", wantRule: durationRule},
	"negative lifetime":                               {spec: "tokenLifetime: -5m", wantField: "spec.tokenLifetime", wantRule: durationRule},
	"lifetime in days":                                {spec: "tokenLifetime: 1d", wantField: "spec.tokenLifetime", wantRule: durationRule},
	"empty lifetime":                                  {spec: `tokenLifetime: ""`, wantField: "spec.tokenLifetime", wantRule: durationRule},
	"lifetime with a line break":                      {spec: `tokenLifetime: "5m\n"`, wantField: "spec.tokenLifetime", wantRule: durationRule},
	"lifetime as a number":                            {spec: "tokenLifetime: 60", wantField: "spec.tokenLifetime", wantRule: "must be of type string"},
	"long lifetime":                                   {spec: "tokenLifetime: " + strings.Repeat("1s", 17), wantField: "spec.tokenLifetime", wantRule: "may not be more than 32"},
}

const (
	scopeRule           = "scopes must contain scope tokens (RFC 6749, section 3.3): printable ASCII characters except space, double quote, and backslash; list each scope as an entry of its own"
	audienceCharsRule   = "audiences must contain absolute URIs without a fragment, or names: only characters allowed by RFC 3986, without #"
	audienceColonRule   = "audiences must contain absolute URIs or names: a value with a colon must be an absolute URI"
	firstScopeField     = "spec.scopes[0]"
	firstAudiencesField = "spec.audiences[0]"
)

// scopeValidations covers spec.scopes of both kinds.
var scopeValidations = map[string]validation{
	"empty list of scopes":              {spec: "scopes: []"},
	"scope of 128 characters":           {spec: "scopes: [" + strings.Repeat("a", 128) + "]"},
	"scope of 129 characters":           {spec: "scopes: [" + strings.Repeat("a", 129) + "]", wantField: firstScopeField, wantRule: "may not be more than 128"},
	"empty scope":                       {spec: `scopes: [""]`, wantField: firstScopeField, wantRule: "should be at least 1 chars long"},
	"scope as a URI":                    {spec: "scopes: ['https://example.com/scopes/a.b?c#d']"},
	"scope with all allowed characters": {spec: `scopes: ["!#$%&'()*+,-./0123456789:;<=>?@AZ[]^_` + "`" + `az{|}~"]`},
	"scope with a space":                {spec: "scopes: ['a b']", wantField: firstScopeField, wantRule: `Invalid value: "a b": ` + scopeRule},
	"scope with a double quote":         {spec: `scopes: ['a"b']`, wantField: firstScopeField, wantRule: scopeRule},
	"scope with a backslash":            {spec: `scopes: ['a\b']`, wantField: firstScopeField, wantRule: scopeRule},
	"scope with a control character":    {spec: `scopes: ["a\u0007"]`, wantField: firstScopeField, wantRule: scopeRule},
	"scope with a delete character":     {spec: `scopes: ["a\u007f"]`, wantField: firstScopeField, wantRule: scopeRule},
	"scope with a line break":           {spec: `scopes: ["a\n"]`, wantField: firstScopeField, wantRule: scopeRule},
	"scope with an umlaut":              {spec: "scopes: [ä]", wantField: firstScopeField, wantRule: scopeRule},
	"second scope invalid":              {spec: "scopes: [a, 'b c']", wantField: "spec.scopes[1]", wantRule: `Invalid value: "b c": ` + scopeRule},
}

// audienceValidations covers spec.audiences of both kinds.
var audienceValidations = map[string]validation{
	"16 audiences":                                    {spec: "audiences: " + list("a", 16)},
	"17 audiences":                                    {spec: "audiences: " + list("a", 17), wantField: "spec.audiences", wantRule: "must have at most 16 items"},
	"audience of 256 characters":                      {spec: "audiences: [" + strings.Repeat("a", 256) + "]"},
	"audience of 257 characters":                      {spec: "audiences: [" + strings.Repeat("a", 257) + "]", wantField: firstAudiencesField, wantRule: "may not be more than 256"},
	"empty audience":                                  {spec: `audiences: [""]`, wantField: firstAudiencesField, wantRule: "should be at least 1 chars long"},
	"audience as a URL":                               {spec: "audiences: ['https://api.example.com:8443/v1?x=y']"},
	"audience as a URN":                               {spec: "audiences: ['urn:example:orders']"},
	"audience as a name":                              {spec: "audiences: [orders-v1.internal]"},
	"audience as a path":                              {spec: "audiences: [/orders]"},
	"audience with a space":                           {spec: "audiences: ['a b']", wantField: firstAudiencesField, wantRule: `Invalid value: "a b": ` + audienceCharsRule},
	"audience with a line break":                      {spec: `audiences: ["a\n"]`, wantField: firstAudiencesField, wantRule: audienceCharsRule},
	"audience with a control character":               {spec: `audiences: ["a\u0000"]`, wantField: firstAudiencesField, wantRule: audienceCharsRule},
	"audience with an umlaut":                         {spec: "audiences: [ä]", wantField: firstAudiencesField, wantRule: audienceCharsRule},
	"audience with a fragment":                        {spec: "audiences: ['https://example.com/#a']", wantField: firstAudiencesField, wantRule: audienceCharsRule},
	"audience with an empty scheme":                   {spec: "audiences: ['://example.com']", wantField: firstAudiencesField, wantRule: `Invalid value: "://example.com": ` + audienceColonRule},
	"audience with a scheme that begins with a digit": {spec: "audiences: ['1a:b']", wantField: firstAudiencesField, wantRule: audienceColonRule},
	"audience that is only a scheme":                  {spec: "audiences: ['https:']", wantField: firstAudiencesField, wantRule: audienceColonRule},
	"audience with an invalid address":                {spec: "audiences: ['https://[::1']", wantField: firstAudiencesField, wantRule: audienceColonRule},
}

// list returns a YAML list of n different strings.
func list(prefix string, n int) string { return each(prefix+"%d", n) }

// scopeSetValidations and audienceSetValidations cover what differs from the lists of a grant: "*" has no
// meaning, and no value is listed twice.
var scopeSetValidations = map[string]validation{
	"256 scopes":             {spec: "scopes: " + list("s", 256)},
	"257 scopes":             {spec: "scopes: " + list("s", 257), wantField: "spec.scopes", wantRule: "must have at most 256 items"},
	"duplicate scope":        {spec: "scopes: [a, b, a]", wantField: "spec.scopes[2]", wantRule: `Duplicate value: "a"`},
	"asterisk as a scope":    {spec: "scopes: ['*']", wantField: "spec.scopes[0]", wantRule: `Invalid value: "*": scopes must not contain an asterisk alone, which stands for every scope in a grant`},
	"scope with an asterisk": {spec: "scopes: ['orders:*']"},
}

var audienceSetValidations = map[string]validation{
	"empty list of audiences": {spec: "audiences: []"},
	"duplicate audience":      {spec: "audiences: [a, a]", wantField: "spec.audiences[1]", wantRule: `Duplicate value: "a"`},
	"asterisk as an audience": {spec: "audiences: ['*']", wantField: "spec.audiences[0]", wantRule: `Invalid value: "*": audiences must not contain an asterisk alone, which stands for every audience in a grant`},
}
