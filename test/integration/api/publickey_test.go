package api_test

import "strings"

const (
	privateKeyRule = "spec.publicKeys must contain only public keys, but this key has a private member (d, p, q, dp, dq, qi, or k); treat it as compromised and generate another key"
	ecKeyRule      = "spec.publicKeys with kty EC must have crv P-256 or P-384, x, and y (in YAML, quote y, because an unquoted y is a boolean)"
	okpKeyRule     = "spec.publicKeys with kty OKP must have crv Ed25519 and x"
	rsaKeyRule     = "spec.publicKeys with kty RSA must have alg, which is RS256 or PS256, n, and e (in YAML, quote n, because an unquoted n is a boolean)"
	keyAlgRule     = "spec.publicKeys.alg must be the algorithm of the key: ES256 for P-256, ES384 for P-384, EdDSA for Ed25519, and RS256 or PS256 for RSA"
	keyIDRule      = "spec.publicKeys.kid must have 1 to 128 letters, digits, and characters from ._~:/+=@-"
	keyMemberRule  = "the members x, y, n, and e of spec.publicKeys must be Base64url without padding"
	firstKey       = "spec.publicKeys[0]"
)

// publicKeyValidations covers the keys that verify assertions. The operator, not the API server,
// checks that the point is on the curve.
var publicKeyValidations = map[string]validation{
	"P-256 key":                    {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, x: A, 'y': _-9}]"},
	"P-256 key with all members":   {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, alg: ES256, use: sig, x: A, 'y': A}]"},
	"P-384 key with all members":   {spec: "publicKeys: [{kid: a, kty: EC, crv: P-384, alg: ES384, x: " + strings.Repeat("A", 64) + ", 'y': " + strings.Repeat("A", 64) + "}]"},
	"Ed25519 key":                  {spec: "publicKeys: [{kid: a, kty: OKP, crv: Ed25519, x: A}]"},
	"Ed25519 key with all members": {spec: "publicKeys: [{kid: a, kty: OKP, crv: Ed25519, alg: EdDSA, x: A}]"},
	"RSA key":                      {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, 'n': " + strings.Repeat("A", 683) + ", e: AQAB}]"},
	"RSA key for PSS":              {spec: "publicKeys: [{kid: a, kty: RSA, alg: PS256, 'n': A, e: AAEAAQ}]"},
	"four keys":                    {spec: "publicKeys: [" + ecKey("a") + ", " + ecKey("b") + ", " + ecKey("c") + ", " + ecKey("A.0_~:/+=@-") + "]"},
	"key without a secret":         {spec: "{publicKeys: [" + ecKey("a") + "], secret: null}"},
	"key and a secret":             {spec: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {}}}"},
	"empty list of keys":           {spec: "publicKeys: []", wantField: "spec.publicKeys", wantRule: "should have at least 1 items"},
	"five keys":                    {spec: "publicKeys: [" + ecKey("a") + ", " + ecKey("b") + ", " + ecKey("c") + ", " + ecKey("d") + ", " + ecKey("e") + "]", wantField: "spec.publicKeys", wantRule: "must have at most 4 items"},
	"keys with a duplicate id":     {spec: "publicKeys: [" + ecKey("a") + ", " + ecKey("a") + "]", wantField: "spec.publicKeys[1]", wantRule: "Duplicate value"},
	"key without an id":            {spec: "publicKeys: [{kty: OKP, crv: Ed25519, x: A}]", wantField: firstKey + ".kid", wantRule: "Required value"},
	"key with an empty id":         {spec: `publicKeys: [{kid: "", kty: OKP, crv: Ed25519, x: A}]`, wantField: firstKey + ".kid", wantRule: keyIDRule},
	"key with a space in its id":   {spec: "publicKeys: [{kid: a b, kty: OKP, crv: Ed25519, x: A}]", wantField: firstKey + ".kid", wantRule: `Invalid value: "a b": ` + keyIDRule},
	"key with a long id":           {spec: "publicKeys: [{kid: " + strings.Repeat("a", 129) + ", kty: OKP, crv: Ed25519, x: A}]", wantField: firstKey + ".kid", wantRule: "may not be more than 128"},
	"key without a type":           {spec: "publicKeys: [{kid: a, crv: Ed25519, x: A}]", wantField: firstKey + ".kty", wantRule: "Required value"},
	"key of an unsupported type":   {spec: "publicKeys: [{kid: a, kty: oct}]", wantField: firstKey + ".kty", wantRule: "Unsupported value"},
	"key on an unsupported curve":  {spec: "publicKeys: [{kid: a, kty: EC, crv: P-521, x: A, 'y': A}]", wantField: firstKey + ".crv", wantRule: "Unsupported value"},
	"key with an unsupported alg":  {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, alg: HS256, x: A, 'y': A}]", wantField: firstKey + ".alg", wantRule: "Unsupported value"},
	"key with alg none":            {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, alg: none, x: A, 'y': A}]", wantField: firstKey + ".alg", wantRule: "Unsupported value"},
	"key for encryption":           {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, use: enc, x: A, 'y': A}]", wantField: firstKey + ".use", wantRule: "Unsupported value"},
	"EC key without a curve":       {spec: "publicKeys: [{kid: a, kty: EC, x: A, 'y': A}]", wantField: firstKey, wantRule: ecKeyRule},
	"EC key on the OKP curve":      {spec: "publicKeys: [{kid: a, kty: EC, crv: Ed25519, x: A, 'y': A}]", wantField: firstKey, wantRule: ecKeyRule},
	"EC key without x":             {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, 'y': A}]", wantField: firstKey, wantRule: ecKeyRule},
	"EC key with an unquoted y":    {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, x: A, y: A}]", wantField: firstKey, wantRule: ecKeyRule},
	"EC key without y":             {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, x: A}]", wantField: firstKey, wantRule: ecKeyRule},
	"OKP key without a curve":      {spec: "publicKeys: [{kid: a, kty: OKP, x: A}]", wantField: firstKey, wantRule: okpKeyRule},
	"OKP key on an EC curve":       {spec: "publicKeys: [{kid: a, kty: OKP, crv: P-256, x: A}]", wantField: firstKey, wantRule: okpKeyRule},
	"OKP key without x":            {spec: "publicKeys: [{kid: a, kty: OKP, crv: Ed25519}]", wantField: firstKey, wantRule: okpKeyRule},
	"RSA key without alg":          {spec: "publicKeys: [{kid: a, kty: RSA, 'n': A, e: AQAB}]", wantField: firstKey, wantRule: rsaKeyRule},
	"RSA key without n":            {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, e: AQAB}]", wantField: firstKey, wantRule: rsaKeyRule},
	"RSA key without e":            {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, 'n': A}]", wantField: firstKey, wantRule: rsaKeyRule},
	"RSA key with an EC alg":       {spec: "publicKeys: [{kid: a, kty: RSA, alg: ES256, 'n': A, e: AQAB}]", wantField: firstKey + ".alg", wantRule: keyAlgRule},
	"P-256 key with the P-384 alg": {spec: "publicKeys: [{kid: a, kty: EC, crv: P-256, alg: ES384, x: A, 'y': A}]", wantField: firstKey + ".alg", wantRule: keyAlgRule},
	"P-384 key with the P-256 alg": {spec: "publicKeys: [{kid: a, kty: EC, crv: P-384, alg: ES256, x: A, 'y': A}]", wantField: firstKey + ".alg", wantRule: keyAlgRule},
	"OKP key with an EC alg":       {spec: "publicKeys: [{kid: a, kty: OKP, crv: Ed25519, alg: ES256, x: A}]", wantField: firstKey + ".alg", wantRule: keyAlgRule},
	"key with padding in x":        {spec: "publicKeys: [{kid: a, kty: OKP, crv: Ed25519, x: AA==}]", wantField: firstKey + ".x", wantRule: keyMemberRule},
	"key with an empty y":          {spec: `publicKeys: [{kid: a, kty: EC, crv: P-256, x: A, 'y': ""}]`, wantField: firstKey + ".y", wantRule: keyMemberRule},
	"key with a plus in n":         {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, 'n': A+A, e: AQAB}]", wantField: firstKey + ".n", wantRule: keyMemberRule},
	"key with a space in e":        {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, 'n': A, e: AQ B}]", wantField: firstKey + ".e", wantRule: keyMemberRule},
	"key with a long x":            {spec: "publicKeys: [{kid: a, kty: EC, crv: P-384, x: " + strings.Repeat("A", 65) + ", 'y': A}]", wantField: firstKey + ".x", wantRule: "may not be more than 64"},
	"key with a long y":            {spec: "publicKeys: [{kid: a, kty: EC, crv: P-384, x: A, 'y': " + strings.Repeat("A", 65) + "}]", wantField: firstKey + ".y", wantRule: "may not be more than 64"},
	"key with a long n":            {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, 'n': " + strings.Repeat("A", 684) + ", e: AQAB}]", wantField: firstKey + ".n", wantRule: "may not be more than 683"},
	"key with a long e":            {spec: "publicKeys: [{kid: a, kty: RSA, alg: RS256, 'n': A, e: AAAAAAA}]", wantField: firstKey + ".e", wantRule: "may not be more than 6"},
}

// privateKeyValidations covers keys with a member that only private keys have.
var privateKeyValidations = func() map[string]validation {
	cases := map[string]validation{}
	for _, member := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
		of := func(value string) string {
			return "publicKeys: [{kid: a, kty: EC, crv: P-256, x: A, 'y': A, " + member + ": " + value + "}]"
		}
		cases["key with "+member] = validation{spec: of("A"), wantField: firstKey, wantRule: privateKeyRule}
		cases["key with a long "+member] = validation{spec: of(strings.Repeat("A", 4097)), wantField: firstKey + "." + member, wantRule: "may not be more than 4096"}
	}
	return cases
}()

func ecKey(id string) string { return "{kid: '" + id + "', kty: EC, crv: P-256, x: A, 'y': A}" }

// publicKeyTransitions covers changes between a secret and keys.
var publicKeyTransitions = map[string]transition{
	"key replaced":                          {before: "publicKeys: [" + ecKey("a") + "]", after: "publicKeys: [" + ecKey("b") + "]"},
	"generated with a name to keys":         {before: "secret: {generated: {secretName: s}}", after: "{secret: null, publicKeys: [" + ecKey("a") + "]}"},
	"secret with a name added to keys":      {before: "{secret: null, publicKeys: [" + ecKey("a") + "]}", after: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {secretName: s}}}"},
	"keys removed, secret left":             {before: "publicKeys: [" + ecKey("a") + "]", after: ""},
	"keys removed, nothing left":            {before: "{secret: null, publicKeys: [" + ecKey("a") + "]}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
	"secretName changed with a key present": {before: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {secretName: s}}}", after: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {secretName: t}}}", wantField: "spec.secret.generated.secretName", wantRule: secretNameChange + "s"},
}
