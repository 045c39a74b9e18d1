package api_test

import "strings"

const (
	clientIDRule     = "spec.clientID must have 1 to 255 printable ASCII characters except space, colon, percent sign, plus sign, and asterisk"
	clientIDReserved = "spec.clientID must not begin with wl/, which is reserved; choose another client ID"
	clientIDChange   = "spec.clientID is immutable (it cannot be changed, added, or removed); it is "
	realmNameRule    = "spec.realmRef.name must be a valid Realm name: at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	timePattern      = "spec.expirationTime in body should match"
	secretNameChange = "spec.secret.generated.secretName is immutable (it cannot be changed, added, or removed); it is "
	noAuthentication = "Required value: the client has no way to authenticate; set at least one of spec.secret, spec.publicKeys, and spec.identities, for example \"secret: {generated: {}}\" for a secret that the operator generates"
)

var apiClientValidations = map[string]validation{
	"minimal client": {},
	"no spec":        {noSpec: true, wantField: "spec", wantRule: "Required value"},

	// The default client ID contains the name, and the default credentials Secret has the same
	// name.
	"client name of 253 characters": {name: strings.Repeat("a", 253)},
	"client name with dots":         {name: "a.b.c"},
	"client name of a Helm release": {name: "sh.helm.release.v1.app.v2", wantField: "<nil>", wantRule: "metadata.name must not start with sh.helm.release., because Helm would treat a credentials Secret with this name as a release"},
	"client name like one of Helm":  {name: "sh.helm.releases"},

	"no realmRef":                    {spec: "realmRef: null", wantField: "spec.realmRef", wantRule: "Required value"},
	"realmRef without a name":        {spec: "realmRef: {}", wantField: "spec.realmRef.name", wantRule: "Required value"},
	"realmRef name of 63 characters": {spec: "realmRef: {name: " + strings.Repeat("a", 63) + "}"},
	"realmRef name of 64 characters": {spec: "realmRef: {name: " + strings.Repeat("a", 64) + "}", wantField: "spec.realmRef.name", wantRule: "may not be more than 63"},
	"empty realmRef name":            {spec: `realmRef: {name: ""}`, wantField: "spec.realmRef.name", wantRule: tooShort},
	"realmRef name with a dot":       {spec: "realmRef: {name: a.b}", wantField: "spec.realmRef.name", wantRule: `Invalid value: "a.b": ` + realmNameRule},
	"realmRef name with a slash":     {spec: "realmRef: {name: a/b}", wantField: "spec.realmRef.name", wantRule: realmNameRule},

	"clientID with all allowed characters": {spec: "clientID: 'Az09!\"#$&''(),-./;<=>?@[\\]^_`{|}~'"},
	"clientID of 255 characters":           {spec: "clientID: " + strings.Repeat("a", 255)},
	"clientID of 256 characters":           {spec: "clientID: " + strings.Repeat("a", 256), wantField: "spec.clientID", wantRule: "may not be more than 255"},
	"empty clientID":                       {spec: `clientID: ""`, wantField: "spec.clientID", wantRule: "should be at least 1 chars long"},
	"clientID with a dot":                  {spec: "clientID: acme-apps.billing"},
	"clientID with a space":                {spec: "clientID: a b", wantField: "spec.clientID", wantRule: `Invalid value: "a b": ` + clientIDRule},
	"clientID with a colon":                {spec: "clientID: 'a:b'", wantField: "spec.clientID", wantRule: clientIDRule},
	"clientID with a percent":              {spec: "clientID: a%20b", wantField: "spec.clientID", wantRule: clientIDRule},
	"clientID with a plus sign":            {spec: "clientID: a+b", wantField: "spec.clientID", wantRule: clientIDRule},
	"clientID with an asterisk":            {spec: "clientID: a*", wantField: "spec.clientID", wantRule: clientIDRule},
	"clientID with an umlaut":              {spec: "clientID: ä", wantField: "spec.clientID", wantRule: clientIDRule},
	"clientID with the reserved prefix":    {spec: "clientID: wl/billing", wantField: "spec.clientID", wantRule: `Invalid value: "wl/billing": ` + clientIDReserved},
	"clientID that is the reserved prefix": {spec: "clientID: wl/", wantField: "spec.clientID", wantRule: clientIDReserved},
	"clientIDs like the reserved prefix":   {spec: "clientID: a/wl/b"},
	"clientID with a line break":           {spec: `clientID: "a\n"`, wantField: "spec.clientID", wantRule: clientIDRule},

	"no way to authenticate": {spec: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},

	"description of 256 characters": {spec: "description: " + strings.Repeat("ä", 256)},
	"description of 257 characters": {spec: "description: " + strings.Repeat("ä", 257), wantField: "spec.description", wantRule: "may not be more than 256"},

	"suspend true":        {spec: "suspend: true"},
	"suspend as a string": {spec: `suspend: "yes"`, wantField: "spec.suspend", wantRule: "must be of type boolean"},

	"expirationTime in UTC":                       {spec: "expirationTime: '2031-12-31T23:59:59Z'"},
	"expirationTime with an offset":               {spec: "expirationTime: '2031-12-31T23:59:59.5+01:30'"},
	"expirationTime in the past":                  {spec: "expirationTime: '2001-01-01T00:00:00Z'"},
	"expirationTime as a date":                    {spec: "expirationTime: '2031-12-31'", wantField: "spec.expirationTime", wantRule: `must be of type date-time: "2031-12-31"`},
	"expirationTime on an invalid day":            {spec: "expirationTime: '2031-02-30T00:00:00Z'", wantField: "spec.expirationTime", wantRule: "must be of type date-time"},
	"expirationTime at an invalid minute":         {spec: "expirationTime: '2031-01-01T00:60:00Z'", wantField: "spec.expirationTime", wantRule: "must be of type date-time"},
	"expirationTime in year 1":                    {spec: "expirationTime: '0001-01-01T00:00:00Z'", wantField: "spec.expirationTime", wantRule: timePattern},
	"expirationTime in lowercase":                 {spec: "expirationTime: '2031-12-31t23:59:59z'", wantField: "spec.expirationTime", wantRule: timePattern},
	"expirationTime with trailing text":           {spec: "expirationTime: '2031-12-31T23:59:59Z and Tomorrow'", wantField: "spec.expirationTime", wantRule: timePattern},
	"expirationTime with an invalid offset":       {spec: "expirationTime: '2031-12-31T23:59:59+99:99'", wantField: "spec.expirationTime", wantRule: timePattern},
	"expirationTime with a comma":                 {spec: "expirationTime: '2031-12-31T23:59:59,5Z'", wantField: "spec.expirationTime", wantRule: timePattern},
	"expirationTime without an offset":            {spec: "expirationTime: '2031-12-31T23:59:59'", wantField: "spec.expirationTime", wantRule: timePattern},
	"expirationTime with too many decimal places": {spec: "expirationTime: '2031-12-31T23:59:59.1234567890Z'", wantField: "spec.expirationTime", wantRule: timePattern},

	"tokensValidAfterTime":              {spec: "tokensValidAfterTime: '2031-12-31T23:59:59.5+01:30'"},
	"tokensValidAfterTime in lowercase": {spec: "tokensValidAfterTime: '2031-12-31t23:59:59z'", wantField: "spec.tokensValidAfterTime", wantRule: "should match"},
	"tokensValidAfterTime as a date":    {spec: "tokensValidAfterTime: '2031-12-31'", wantField: "spec.tokensValidAfterTime", wantRule: "must be of type date-time"},
}

var apiClientTransitions = map[string]transition{
	"mutable fields changed": {
		before: "{description: a, scopes: [a], audiences: [a], tokenLifetime: 5m, limits: {tokensPerSecondPerServer: 5}, secret: {generated: {keys: {scope: s}, template: {labels: {team: b}, annotations: {a: b}}, rotation: {interval: 1h}}}}",
		after:  "{description: b, scopes: [b], audiences: [b], tokenLifetime: 1h, limits: {tokensPerSecondPerServer: 6}, suspend: true, expirationTime: '2031-01-01T00:00:00Z', tokensValidAfterTime: '2026-01-01T00:00:00Z', secret: {generated: {keys: {issuer: i}, template: {labels: {env: d}}, rotation: {interval: 48h, overlap: 1h, rotationRequestTime: '2026-03-01T12:00:00Z'}}}}",
	},
	"optional fields removed": {
		before: "{description: a, scopes: [a], audiences: [a], tokenLifetime: 5m, limits: {tokensPerSecondPerServer: 5}, suspend: true, expirationTime: '2031-01-01T00:00:00Z', tokensValidAfterTime: '2026-01-01T00:00:00Z', secret: {generated: {keys: {scope: s}}}}",
		after:  "{}",
	},

	"realmRef kept":    {before: "realmRef: {name: acme}", after: "realmRef: {name: acme}"},
	"realmRef changed": {before: "realmRef: {name: acme}", after: "realmRef: {name: other}", wantField: "spec.realmRef.name", wantRule: `Invalid value: "other": spec.realmRef.name is immutable; it is acme; create another ApiClient instead`},

	"clientID kept":    {before: "clientID: a", after: "{clientID: a, suspend: true}"},
	"clientID changed": {before: "clientID: a", after: "clientID: b", wantField: "spec.clientID", wantRule: clientIDChange + "a"},
	"clientID added":   {before: "", after: "clientID: a", wantField: "spec.clientID", wantRule: clientIDChange + "unset"},
	"clientID removed": {before: "clientID: a", after: "", wantField: "spec.clientID", wantRule: clientIDChange + "a"},

	"secretName kept":          {before: "secret: {generated: {secretName: s}}", after: "{suspend: true, secret: {generated: {secretName: s}}}"},
	"secretName changed":       {before: "secret: {generated: {secretName: s}}", after: "secret: {generated: {secretName: t}}", wantField: "spec.secret.generated.secretName", wantRule: secretNameChange + "s; create another ApiClient instead"},
	"secretName added":         {before: "secret: {generated: {}}", after: "secret: {generated: {secretName: s}}", wantField: "spec.secret.generated.secretName", wantRule: secretNameChange + "unset"},
	"secretName removed":       {before: "secret: {generated: {secretName: s}}", after: "secret: {generated: {}}", wantField: "spec.secret.generated.secretName", wantRule: secretNameChange + "s"},
	"generated secret removed": {before: "secret: {generated: {secretName: s}}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
}
