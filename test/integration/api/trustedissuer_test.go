package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

const (
	issuerNameRule  = "must have at most 63 lowercase letters, digits, and hyphens, with a letter or digit at both ends"
	issuerTaken     = "spec.trustedIssuers.name must not be kubernetes, which is the built-in issuer for the service accounts of this cluster, or self; choose another name"
	issuerURLRule   = "spec.trustedIssuers.issuer must be an HTTPS URL without user information, query, and fragment, such as https://issuer.example.com, or a SPIFFE trust domain, such as spiffe://example.org"
	issuerTwice     = "spec.trustedIssuers must not have two entries with the same issuer and audience"
	issuerShared    = "Required value: this issuer signs tokens for everyone, so spec.trustedIssuers.requiredClaims must limit them to your organization, for example requiredClaims: [{name: repository_owner_id, value: \"4711\"}] for GitHub or requiredClaims: [{name: namespace_id, value: \"4711\"}] for GitLab"
	issuerAudience  = "spec.trustedIssuers.audience must be an absolute URI without a fragment, or a name without a colon: only characters allowed by RFC 3986"
	issuerKeysRule  = "spec.trustedIssuers.keys must have jwks alone, or jwksURI, caBundle, or both; to discover the keys with public certificate authorities, leave keys unset"
	spiffeKeysRule  = "Required value: the keys of a SPIFFE trust domain cannot be discovered; set spec.trustedIssuers.keys.jwks or spec.trustedIssuers.keys.jwksURI"
	jwksURIRule     = "spec.trustedIssuers.keys.jwksURI must be an HTTPS URL without user information and fragment, such as https://issuer.example.com/keys"
	jwksRule        = "Forbidden: spec.trustedIssuers.keys.jwks must be a JSON Web Key Set as a string, such as '{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"a\",\"x\":\"...\"}]}'"
	jwksPrivate     = "Forbidden: spec.trustedIssuers.keys.jwks must not contain private or symmetric keys, but a key has a private member (d, p, q, dp, dq, qi, oth, or k); treat it as compromised, generate another key, and list only its public members"
	bundleRule      = "Forbidden: spec.trustedIssuers.keys.caBundle must contain certificates in PEM format"
	bundlePrivate   = "Forbidden: spec.trustedIssuers.keys.caBundle must not contain private keys, but this value has one; treat it as compromised, generate another key, and list only certificates"
	emptyClaimMatch = "must list at least one claim; an empty list matches every token of the issuer"
	claimMatchRule  = "must have 1 to 64 letters, digits, and characters from _.:/-, and must not be iss, sub, aud, exp, nbf, iat, or jti, which are checked separately"

	firstIssuer     = "spec.trustedIssuers[0]"
	certificate     = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	publicKeySet    = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"d","x":"AAAA"}]}`
	githubIssuer    = "https://token.actions.githubusercontent.com"
	sharedIssuerIDs = `requiredClaims: [{name: repository_owner_id, value: "4711"}]`
)

// trusting returns a spec with one issuer, which has the given members in addition to its name and
// URL.
func trusting(members string) string {
	return "trustedIssuers: [{name: a, issuer: 'https://issuer.example.com', " + members + "}]"
}

func trustingURL(url string) string {
	return fmt.Sprintf("trustedIssuers: [{name: a, issuer: %q}]", url)
}

func trustingName(name string) string {
	return fmt.Sprintf("trustedIssuers: [{name: %q, issuer: 'https://issuer.example.com'}]", name)
}

func trustingKeys(member, value string) string {
	return trusting(fmt.Sprintf("keys: {%s: %q}", member, value))
}

var trustedIssuerValidations = map[string]validation{
	"issuer whose keys are discovered": {spec: trustingURL("https://issuer.example.com")},
	"16 issuers":                       {spec: "trustedIssuers: " + each("{name: i%[1]d, issuer: 'https://i%[1]d.example.com'}", 16)},
	"17 issuers":                       {spec: "trustedIssuers: " + each("{name: i%[1]d, issuer: 'https://i%[1]d.example.com'}", 17), wantField: "spec.trustedIssuers", wantRule: "must have at most 16 items"},
	"two issuers with the same name":   {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com'}, {name: a, issuer: 'https://b.example.com'}]", wantField: "spec.trustedIssuers[1]", wantRule: "Duplicate value"},
	"5 required claims":                {spec: requiring(each("{name: c%d, value: a}", 5)), wantField: firstIssuer + ".requiredClaims", wantRule: "must have at most 4 items"},
	"an issuer with two audiences":     {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com'}, {name: b, issuer: 'https://a.example.com', audience: b}]"},
	"an issuer and audience twice":     {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com', audience: b}, {name: b, issuer: 'https://a.example.com', audience: b}]", wantField: "spec.trustedIssuers", wantRule: issuerTwice},
	"the same issuer twice":            {spec: "trustedIssuers: [{name: a, issuer: 'https://a.example.com'}, {name: b, issuer: 'https://a.example.com'}]", wantField: "spec.trustedIssuers", wantRule: issuerTwice},

	"issuer without a name":             {spec: "trustedIssuers: [{issuer: 'https://a.example.com'}]", wantField: firstIssuer + ".name", wantRule: "Required value"},
	"issuer with an empty name":         {spec: trustingName(""), wantField: firstIssuer + ".name", wantRule: tooShort},
	"issuer named like a URL":           {spec: trustingName("https://a"), wantField: firstIssuer + ".name", wantRule: "spec.trustedIssuers.name " + issuerNameRule},
	"issuer name of 63 characters":      {spec: trustingName(strings.Repeat("a", 63))},
	"issuer name of 64 characters":      {spec: trustingName(strings.Repeat("a", 64)), wantField: firstIssuer + ".name", wantRule: "may not be more than 63"},
	"issuer named kubernetes":           {spec: trustingName("kubernetes"), wantField: firstIssuer + ".name", wantRule: `Invalid value: "kubernetes": ` + issuerTaken},
	"issuer named self":                 {spec: trustingName("self"), wantField: firstIssuer + ".name", wantRule: `Invalid value: "self": ` + issuerTaken},
	"issuer named like kubernetes":      {spec: trustingName("kubernetes2")},
	"issuer without a URL":              {spec: "trustedIssuers: [{name: a}]", wantField: firstIssuer + ".issuer", wantRule: "Required value"},
	"issuer with an empty URL":          {spec: trustingURL(""), wantField: firstIssuer + ".issuer", wantRule: tooShort},
	"issuer of another cluster":         {spec: trustingURL("https://kubernetes.default.svc.cluster.local")},
	"issuer with a port and path":       {spec: trustingURL("https://issuer.example.com:8443/id/A1~_-%41/")},
	"issuer with an IPv6 address":       {spec: trustingURL("https://[2001:db8::1]:6443")},
	"issuer with a trailing slash":      {spec: trustingURL("https://issuer.example.com/")},
	"issuer of 256 characters":          {spec: trustingURL("https://a/" + strings.Repeat("a", 246))},
	"issuer of 257 characters":          {spec: trustingURL("https://a/" + strings.Repeat("a", 247)), wantField: firstIssuer + ".issuer", wantRule: "may not be more than 256"},
	"issuer without HTTPS":              {spec: trustingURL("http://issuer.example.com"), wantField: firstIssuer + ".issuer", wantRule: "Forbidden: " + issuerURLRule},
	"issuer with HTTPS in uppercase":    {spec: trustingURL("HTTPS://issuer.example.com"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer as a host":                  {spec: trustingURL("issuer.example.com"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer without a host":             {spec: trustingURL("https:///issuer"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a user":                {spec: trustingURL("https://a@issuer.example.com"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a password":            {spec: trustingURL("https://a:b@issuer.example.com"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a query":               {spec: trustingURL("https://issuer.example.com?a=b"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a query after a path":  {spec: trustingURL("https://issuer.example.com/?a=b"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a fragment":            {spec: trustingURL("https://issuer.example.com/#a"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a space":               {spec: trustingURL("https://issuer.example.com/a b"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with a line break":          {spec: trustingURL("https://issuer.example.com\n"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with an umlaut":             {spec: trustingURL("https://issuer.example.com/ä"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with an invalid escape":     {spec: trustingURL("https://issuer.example.com/%zz"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer with an open bracket":       {spec: trustingURL("https://[::1"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"issuer file":                       {spec: trustingURL("file:///etc/passwd"), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},
	"SPIFFE trust domain with its keys": {spec: fmt.Sprintf("trustedIssuers: [{name: a, issuer: 'spiffe://example.org', keys: {jwks: %q}}]", publicKeySet)},
	"SPIFFE trust domain with a bundle": {spec: "trustedIssuers: [{name: a, issuer: 'spiffe://example.org', keys: {jwksURI: 'https://spire.example.org/bundle'}}]"},
	"SPIFFE trust domain without keys":  {spec: trustingURL("spiffe://example.org"), wantField: firstIssuer + ".keys", wantRule: spiffeKeysRule},
	"SPIFFE trust domain, discovered":   {spec: fmt.Sprintf("trustedIssuers: [{name: a, issuer: 'spiffe://example.org', keys: {caBundle: %q}}]", certificate), wantField: firstIssuer + ".keys", wantRule: spiffeKeysRule},
	"SPIFFE ID":                         {spec: fmt.Sprintf("trustedIssuers: [{name: a, issuer: 'spiffe://example.org/billing', keys: {jwks: %q}}]", publicKeySet), wantField: firstIssuer + ".issuer", wantRule: issuerURLRule},

	"GitHub with a bound":        {spec: "trustedIssuers: [{name: a, issuer: '" + githubIssuer + "', " + sharedIssuerIDs + "}]"},
	"GitHub without a bound":     {spec: trustingURL(githubIssuer), wantField: firstIssuer + ".requiredClaims", wantRule: issuerShared},
	"GitHub with an empty bound": {spec: "trustedIssuers: [{name: a, issuer: '" + githubIssuer + "', requiredClaims: []}]", wantField: firstIssuer + ".requiredClaims", wantRule: emptyClaimMatch},
	"GitLab without a bound":     {spec: trustingURL("https://gitlab.com"), wantField: firstIssuer + ".requiredClaims", wantRule: issuerShared},
	"own GitLab without a bound": {spec: trustingURL("https://gitlab.example.com")},
	"Buildkite without a bound":  {spec: trustingURL("https://agent.buildkite.com"), wantField: firstIssuer + ".requiredClaims", wantRule: issuerShared},
	"Terraform without a bound":  {spec: trustingURL("https://app.terraform.io"), wantField: firstIssuer + ".requiredClaims", wantRule: issuerShared},

	"audience of an issuer as a URL":       {spec: trusting("audience: 'https://api.example.com/acme?x=y'")},
	"audience of an issuer as a URN":       {spec: trusting("audience: 'urn:example:acme'")},
	"audience of an issuer as a name":      {spec: trusting("audience: sts.amazonaws.com")},
	"empty audience of an issuer":          {spec: trusting(`audience: ""`), wantField: firstIssuer + ".audience", wantRule: tooShort},
	"audience of an issuer, 256":           {spec: trusting("audience: " + strings.Repeat("a", 256))},
	"audience of an issuer, 257":           {spec: trusting("audience: " + strings.Repeat("a", 257)), wantField: firstIssuer + ".audience", wantRule: "may not be more than 256"},
	"audience of an issuer, fragment":      {spec: trusting("audience: 'https://api.example.com/#a'"), wantField: firstIssuer + ".audience", wantRule: issuerAudience},
	"audience of an issuer, space":         {spec: trusting("audience: 'a b'"), wantField: firstIssuer + ".audience", wantRule: issuerAudience},
	"audience of an issuer, asterisk":      {spec: trusting("audience: '*'"), wantField: firstIssuer + ".audience", wantRule: "spec.trustedIssuers.audience must not be an asterisk"},
	"audience of an issuer, only a scheme": {spec: trusting("audience: 'https:'"), wantField: firstIssuer + ".audience", wantRule: issuerAudience},
	"several audiences of an issuer":       {spec: trusting("audience: [a, b]"), wantField: firstIssuer + ".audience", wantRule: "must be of type string"},
}

// issuerKeysValidations covers spec.trustedIssuers.keys. The operator, not the API server, decodes
// key sets and certificates.
var issuerKeysValidations = map[string]validation{
	"key set":                           {spec: trustingKeys("jwks", publicKeySet)},
	"key set with line breaks":          {spec: trustingKeys("jwks", "\n{\n  \"keys\" :\n[\n]\n}\n")},
	"key set of 12288 characters":       {spec: trustingKeys("jwks", `{"keys":[`+strings.Repeat(" ", 12288-11)+"]}")},
	"key set of 12289 characters":       {spec: trustingKeys("jwks", `{"keys":[`+strings.Repeat(" ", 12289-11)+"]}"), wantField: firstIssuer + ".keys.jwks", wantRule: "may not be more than 12288"},
	"URL of keys":                       {spec: trustingKeys("jwksURI", "https://issuer.example.com:8443/keys?v=1")},
	"URL of keys without a path":        {spec: trustingKeys("jwksURI", "https://issuer.example.com")},
	"URL of keys of 512 characters":     {spec: trustingKeys("jwksURI", "https://a/"+strings.Repeat("a", 502))},
	"URL of keys of 513 characters":     {spec: trustingKeys("jwksURI", "https://a/"+strings.Repeat("a", 503)), wantField: firstIssuer + ".keys.jwksURI", wantRule: "may not be more than 512"},
	"certificates":                      {spec: trustingKeys("caBundle", certificate+certificate)},
	"URL of keys and certificates":      {spec: trusting(fmt.Sprintf("keys: {jwksURI: 'https://a.example.com', caBundle: %q}", certificate))},
	"no keys":                           {spec: trusting("keys: {}"), wantField: firstIssuer + ".keys", wantRule: issuerKeysRule},
	"key set and URL of keys":           {spec: trusting(fmt.Sprintf("keys: {jwks: %q, jwksURI: 'https://a.example.com'}", publicKeySet)), wantField: firstIssuer + ".keys", wantRule: issuerKeysRule},
	"key set and certificates":          {spec: trusting(fmt.Sprintf("keys: {jwks: %q, caBundle: %q}", publicKeySet, certificate)), wantField: firstIssuer + ".keys", wantRule: issuerKeysRule},
	"empty key set":                     {spec: trustingKeys("jwks", ""), wantField: firstIssuer + ".keys.jwks", wantRule: tooShort},
	"key set as a YAML object":          {spec: trusting("keys: {jwks: {keys: []}}"), wantField: firstIssuer + ".keys.jwks", wantRule: "must be of type string"},
	"key without a set":                 {spec: trustingKeys("jwks", `{"kty":"OKP"}`), wantField: firstIssuer + ".keys.jwks", wantRule: jwksRule},
	"keys without a set":                {spec: trustingKeys("jwks", `[{"keys":[]}]`), wantField: firstIssuer + ".keys.jwks", wantRule: jwksRule},
	"URL in place of a key set":         {spec: trustingKeys("jwks", "https://issuer.example.com/keys"), wantField: firstIssuer + ".keys.jwks", wantRule: jwksRule},
	"private PEM in place of a key set": {spec: trustingKeys("jwks", "-----BEGIN EC PRIVATE KEY-----"), wantField: firstIssuer + ".keys.jwks", wantRule: jwksPrivate},
	"empty URL of keys":                 {spec: trustingKeys("jwksURI", ""), wantField: firstIssuer + ".keys.jwksURI", wantRule: tooShort},
	"URL of keys without HTTPS":         {spec: trustingKeys("jwksURI", "http://issuer.example.com/keys"), wantField: firstIssuer + ".keys.jwksURI", wantRule: "Forbidden: " + jwksURIRule},
	"URL of keys with a user":           {spec: trustingKeys("jwksURI", "https://a@issuer.example.com/keys"), wantField: firstIssuer + ".keys.jwksURI", wantRule: jwksURIRule},
	"URL of keys with a fragment":       {spec: trustingKeys("jwksURI", "https://issuer.example.com/keys#a"), wantField: firstIssuer + ".keys.jwksURI", wantRule: jwksURIRule},
	"URL of keys with a line break":     {spec: trustingKeys("jwksURI", "https://issuer.example.com/keys\n"), wantField: firstIssuer + ".keys.jwksURI", wantRule: jwksURIRule},
	"URL of keys with a bad escape":     {spec: trustingKeys("jwksURI", "https://issuer.example.com/%zz"), wantField: firstIssuer + ".keys.jwksURI", wantRule: jwksURIRule},
	"empty certificates":                {spec: trustingKeys("caBundle", ""), wantField: firstIssuer + ".keys.caBundle", wantRule: tooShort},
	"text in place of certificates":     {spec: trustingKeys("caBundle", "ca.crt"), wantField: firstIssuer + ".keys.caBundle", wantRule: bundleRule},
	"certificate with its private key":  {spec: trustingKeys("caBundle", certificate+"-----BEGIN PRIVATE KEY-----"), wantField: firstIssuer + ".keys.caBundle", wantRule: bundlePrivate},
	"certificates of 12289 characters":  {spec: trustingKeys("caBundle", certificate+strings.Repeat("\n", 12289-len(certificate))), wantField: firstIssuer + ".keys.caBundle", wantRule: "may not be more than 12288"},
}

// privateKeySetValidations covers key sets with a member that only private and symmetric keys have.
var privateKeySetValidations = func() map[string]validation {
	cases := map[string]validation{}
	for _, member := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		set := `{"keys":[{"kty":"EC","` + member + `" : "A"}]}`
		cases["key set with "+member] = validation{spec: trustingKeys("jwks", set), wantField: firstIssuer + ".keys.jwks", wantRule: jwksPrivate}
	}
	return cases
}()

// claimMatchValidations covers a matcher called "match" in the spec. The tables for the kinds put it
// where a matcher is.
var claimMatchValidations = map[string]validation{
	"one claim":                   {spec: "[{name: repository, value: acme/shop}]"},
	"4 claims":                    {spec: each("{name: c%d, value: a}", 4)},
	"claim with all characters":   {spec: "[{name: 'https://aA09_.:/-', value: ä}]"},
	"claim name of 64 characters": {spec: matchOf(strings.Repeat("a", 64))},
	"claim of 256 characters":     {spec: "[{name: a, value: " + strings.Repeat("ä", 256) + "}]"},
	"no claims":                   {spec: "[]", wantField: "spec.match", wantRule: emptyClaimMatch},
	"claims as a map":             {spec: "{a: b}", wantField: "spec.match", wantRule: "must be of type array"},
	"claim twice":                 {spec: "[{name: a, value: b}, {name: a, value: c}]", wantField: "spec.match[1]", wantRule: "Duplicate value"},
	"claim without a name":        {spec: "[{value: a}]", wantField: "spec.match[0].name", wantRule: "Required value"},
	"claim without a value":       {spec: "[{name: a}]", wantField: "spec.match[0].value", wantRule: "Required value"},
	"claim name of 65 characters": {spec: matchOf(strings.Repeat("a", 65)), wantField: "spec.match[0].name", wantRule: "may not be more than 64"},
	"empty claim name":            {spec: matchOf(`""`), wantField: "spec.match[0].name", wantRule: tooShort},
	"claim name with a space":     {spec: matchOf("a b"), wantField: "spec.match[0].name", wantRule: `Invalid value: "a b": ` + claimMatchRule},
	"claim name with an umlaut":   {spec: matchOf("ä"), wantField: "spec.match[0].name", wantRule: claimMatchRule},
	"issuer as a claim":           {spec: matchOf("iss"), wantField: "spec.match[0].name", wantRule: `Invalid value: "iss": ` + claimMatchRule},
	"subject as a claim":          {spec: "[{name: a, value: b}, {name: sub, value: a}]", wantField: "spec.match[1].name", wantRule: claimMatchRule},
	"audience as a claim":         {spec: matchOf("aud"), wantField: "spec.match[0].name", wantRule: claimMatchRule},
	"expiration as a claim":       {spec: matchOf("exp"), wantField: "spec.match[0].name", wantRule: claimMatchRule},
	"start as a claim":            {spec: matchOf("nbf"), wantField: "spec.match[0].name", wantRule: claimMatchRule},
	"issue time as a claim":       {spec: matchOf("iat"), wantField: "spec.match[0].name", wantRule: claimMatchRule},
	"token ID as a claim":         {spec: matchOf("jti"), wantField: "spec.match[0].name", wantRule: claimMatchRule},
	"claim without a text":        {spec: `[{name: a, value: ""}]`, wantField: "spec.match[0].value", wantRule: tooShort},
	"claim of 257 characters":     {spec: "[{name: a, value: " + strings.Repeat("a", 257) + "}]", wantField: "spec.match[0].value", wantRule: "may not be more than 256"},
	"claim with a number":         {spec: "[{name: a, value: 1}]", wantField: "spec.match[0].value", wantRule: "must be of type string"},
	"claim with a list":           {spec: "[{name: a, value: [b]}]", wantField: "spec.match[0].value", wantRule: "must be of type string"},
}

// matchOf returns a matcher for a claim.
func matchOf(name string) string { return "[{name: " + name + ", value: a}]" }

// matching returns the cases of claimMatchValidations for a matcher in another place. path replaces
// "spec.match".
func matching(wrap func(string) string, path string) map[string]validation {
	moved := map[string]validation{}
	for name, tc := range claimMatchValidations {
		tc.spec = wrap(tc.spec)
		tc.wantField = strings.Replace(tc.wantField, "spec.match", path, 1)
		moved[path+": "+name] = tc
	}
	return moved
}

func requiring(match string) string { return trusting("requiredClaims: " + match) }

// TestKeysOfIssuersAreNotRepeated checks that the API server's error doesn't contain a private key
// or a password in a URL that it rejects.
func TestKeysOfIssuersAreNotRepeated(t *testing.T) {
	cluster := env.Start(t)
	const canary = "canary"
	for name, spec := range map[string]string{
		"key set":             trustingKeys("jwks", `{"keys":[{"kty":"OKP","d":"`+canary+`"}]}`),
		"key without a set":   trustingKeys("jwks", `{"kty":"OKP","\u0064":"`+canary+`"}`),
		"PEM as a key set":    trustingKeys("jwks", "-----BEGIN PRIVATE KEY-----\n"+canary),
		"key set as a bundle": trustingKeys("caBundle", `{"keys":[{"kty":"OKP","d":"`+canary+`"}]}`),
		"certificate and key": trustingKeys("caBundle", certificate+"-----BEGIN PRIVATE KEY-----\n"+canary),
		"password in a URL":   trustingURL("https://user:" + canary + "@issuer.example.com"),
		"too long":            trustingKeys("jwks", canary+strings.Repeat("A", 12288)),
		"both forms":          trusting(fmt.Sprintf("keys: {jwks: %q, jwksURI: 'https://a.example.com'}", `{"keys":[{"\u0064":"`+canary+`"}]}`)),
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Client.Create(t.Context(), kindNamed("Realm").object(t, "", "", spec), client.DryRunAll)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("Got error %v, want one with the reason Invalid", err)
			}
			status, err := json.Marshal(err)
			if err != nil || strings.Contains(string(status), canary) {
				t.Errorf("The error repeats the secret: %s, %v", status, err)
			}
		})
	}
}
