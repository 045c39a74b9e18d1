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
	keyFormRule = "spec.publicKeys must have exactly one of jwk, which is a JSON Web Key as a string, and pem, which is a PEM block"
	keyIDRule   = "spec.publicKeys.keyID must have 1 to 128 letters, digits, and characters from ._~:/+=@-"
	jwkRule     = `Forbidden: spec.publicKeys.jwk must be a JSON object as a string, such as '{"kty":"OKP","crv":"Ed25519","x":"..."}'; for a PEM block, use pem`
	jwkPrivate  = "Forbidden: spec.publicKeys must not contain private keys, but this key has a private member (d, p, q, dp, dq, qi, oth, or k); treat it as compromised, generate another key, and list only its public members"
	pemRule     = `Forbidden: spec.publicKeys.pem must be one PEM block of the type PUBLIC KEY; for a certificate, use the output of "openssl x509 -pubkey -noout"; for a JSON Web Key, use jwk`
	pemPrivate  = "Forbidden: spec.publicKeys must not contain private keys, but this is one; treat it as compromised, generate another key, and list only its public key"
	firstKey    = "spec.publicKeys[0]"
	pemKey      = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
)

// withJWK and withPEM return a spec with a key.
func withJWK(jwk string) string {
	return fmt.Sprintf("publicKeys: [{keyID: a, jwk: %q}]", jwk)
}

func withPEM(block string) string {
	return fmt.Sprintf("publicKeys: [{keyID: a, pem: %q}]", block)
}

// publicKeyValidations covers the keys that verify assertions. The operator, not the API server,
// decodes them.
var publicKeyValidations = map[string]validation{
	"JWK":                             {spec: withJWK(`{"kty":"OKP","crv":"Ed25519","x":"A"}`)},
	"JWK with line breaks":            {spec: withJWK("\n{\n  \"kty\": \"OKP\"\n}\n")},
	"JWK with values named d and k":   {spec: withJWK(`{"kid":"d","use":"k", "x5t" : "p"}`)},
	"JWK of 4096 characters":          {spec: withJWK("{" + strings.Repeat(" ", 4094) + "}")},
	"PEM":                             {spec: withPEM(pemKey)},
	"PEM without a final line break":  {spec: withPEM(strings.TrimSpace(pemKey))},
	"PEM with Windows line breaks":    {spec: withPEM(strings.ReplaceAll(pemKey, "\n", "\r\n"))},
	"key with an algorithm":           {spec: "publicKeys: [{keyID: a, algorithm: PS256, jwk: '{}'}]"},
	"four keys":                       {spec: "publicKeys: [" + ecKey("a") + ", " + ecKey("b") + ", " + ecKey("c") + ", " + ecKey("A.0_~:/+=@-") + "]"},
	"key without a secret":            {spec: "{publicKeys: [" + ecKey("a") + "], secret: null}"},
	"key and a secret":                {spec: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {}}}"},
	"empty list of keys":              {spec: "publicKeys: []", wantField: "spec.publicKeys", wantRule: "should have at least 1 items"},
	"five keys":                       {spec: "publicKeys: [" + ecKey("a") + ", " + ecKey("b") + ", " + ecKey("c") + ", " + ecKey("d") + ", " + ecKey("e") + "]", wantField: "spec.publicKeys", wantRule: "must have at most 4 items"},
	"keys with a duplicate id":        {spec: "publicKeys: [" + ecKey("a") + ", " + ecKey("a") + "]", wantField: "spec.publicKeys[1]", wantRule: "Duplicate value"},
	"key without an id":               {spec: "publicKeys: [{jwk: '{}'}]", wantField: firstKey + ".keyID", wantRule: "Required value"},
	"key with an empty id":            {spec: `publicKeys: [{keyID: "", jwk: '{}'}]`, wantField: firstKey + ".keyID", wantRule: tooShort},
	"key with a space in its id":      {spec: "publicKeys: [{keyID: a b, jwk: '{}'}]", wantField: firstKey + ".keyID", wantRule: `Invalid value: "a b": ` + keyIDRule},
	"key with a long id":              {spec: "publicKeys: [" + ecKey(strings.Repeat("a", 129)) + "]", wantField: firstKey + ".keyID", wantRule: "may not be more than 128"},
	"key with a symmetric algorithm":  {spec: "publicKeys: [{keyID: a, algorithm: HS256, jwk: '{}'}]", wantField: firstKey + ".algorithm", wantRule: "Unsupported value"},
	"key with algorithm none":         {spec: "publicKeys: [{keyID: a, algorithm: none, jwk: '{}'}]", wantField: firstKey + ".algorithm", wantRule: "Unsupported value"},
	"key without a form":              {spec: "publicKeys: [{keyID: a}]", wantField: firstKey, wantRule: keyFormRule},
	"key in both forms":               {spec: fmt.Sprintf("publicKeys: [{keyID: a, jwk: '{}', pem: %q}]", pemKey), wantField: firstKey, wantRule: keyFormRule},
	"empty JWK":                       {spec: `publicKeys: [{keyID: a, jwk: ""}]`, wantField: firstKey + ".jwk", wantRule: tooShort},
	"empty PEM":                       {spec: `publicKeys: [{keyID: a, pem: ""}]`, wantField: firstKey + ".pem", wantRule: tooShort},
	"JWK as a YAML object":            {spec: "publicKeys: [{keyID: a, jwk: {kty: OKP}}]", wantField: firstKey + ".jwk", wantRule: "must be of type string"},
	"JWK in a list":                   {spec: withJWK(`[{"kty":"OKP"}]`), wantField: firstKey + ".jwk", wantRule: jwkRule},
	"JWK of 4097 characters":          {spec: withJWK("{" + strings.Repeat(" ", 4095) + "}"), wantField: firstKey + ".jwk", wantRule: "may not be more than 4096"},
	"PEM in place of a JWK":           {spec: withJWK(pemKey), wantField: firstKey + ".jwk", wantRule: jwkRule},
	"private PEM in place of a JWK":   {spec: withJWK("-----BEGIN EC PRIVATE KEY-----"), wantField: firstKey + ".jwk", wantRule: jwkPrivate},
	"JWK in place of PEM":             {spec: withPEM(`{"kty":"OKP"}`), wantField: firstKey + ".pem", wantRule: pemRule},
	"private JWK in place of PEM":     {spec: withPEM(`{"kty":"OKP","d":"A"}`), wantField: firstKey + ".pem", wantRule: pemPrivate},
	"certificate":                     {spec: withPEM(strings.ReplaceAll(pemKey, "PUBLIC KEY", "CERTIFICATE")), wantField: firstKey + ".pem", wantRule: pemRule},
	"RSA public key (PKCS 1)":         {spec: withPEM(strings.ReplaceAll(pemKey, "PUBLIC KEY", "RSA PUBLIC KEY")), wantField: firstKey + ".pem", wantRule: pemRule},
	"two PEM blocks":                  {spec: withPEM(pemKey + pemKey), wantField: firstKey + ".pem", wantRule: pemRule},
	"PEM with text before it":         {spec: withPEM("my key\n" + pemKey), wantField: firstKey + ".pem", wantRule: pemRule},
	"PEM of 4097 characters":          {spec: withPEM(pemKey + strings.Repeat("\n", 4097-len(pemKey))), wantField: firstKey + ".pem", wantRule: "may not be more than 4096"},
	"private key (PKCS 8)":            {spec: withPEM(strings.ReplaceAll(pemKey, "PUBLIC KEY", "PRIVATE KEY")), wantField: firstKey + ".pem", wantRule: pemPrivate},
	"private key (SEC 1)":             {spec: withPEM(strings.ReplaceAll(pemKey, "PUBLIC KEY", "EC PRIVATE KEY")), wantField: firstKey + ".pem", wantRule: pemPrivate},
	"encrypted private key":           {spec: withPEM(strings.ReplaceAll(pemKey, "PUBLIC KEY", "ENCRYPTED PRIVATE KEY")), wantField: firstKey + ".pem", wantRule: pemPrivate},
	"private key after a public key":  {spec: withPEM(pemKey + strings.ReplaceAll(pemKey, "PUBLIC KEY", "PRIVATE KEY")), wantField: firstKey + ".pem", wantRule: pemPrivate},
	"largest RSA private key in PKCS": {spec: withPEM("-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("A", 3272)), wantField: firstKey + ".pem", wantRule: pemPrivate},
}

// privateKeyValidations covers JWKs with a member that only private keys have.
var privateKeyValidations = func() map[string]validation {
	cases := map[string]validation{}
	for _, member := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		cases["JWK with "+member] = validation{spec: withJWK(`{"kty":"EC","` + member + `":"A"}`), wantField: firstKey + ".jwk", wantRule: jwkPrivate}
		cases["JWK with spaces and "+member] = validation{spec: withJWK("{\"" + member + "\"\n : \"A\"}"), wantField: firstKey + ".jwk", wantRule: jwkPrivate}
	}
	return cases
}()

// TestSecretsAreNotRepeated checks that the API server's error doesn't contain a private key, a client
// secret in place of a hash, or a hash that it rejects. Errors end up in the logs of CI systems.
func TestSecretsAreNotRepeated(t *testing.T) {
	cluster := env.Start(t)
	const canary = "canary"
	for name, spec := range map[string]string{
		"JWK":                 withJWK(`{"kty":"OKP","d":"` + canary + `"}`),
		"JWK in place of PEM": withPEM(`{"kty":"OKP","d":"` + canary + `"}`),
		"JWK with an escape":  withJWK(`[{"kty":"OKP","\u0064":"` + canary + `"}]`),
		"PEM":                 withPEM("-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----"),
		"PEM in place of JWK": withJWK("-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----"),
		"PEM without a type":  withPEM(canary),
		"both forms":          fmt.Sprintf("publicKeys: [{keyID: a, jwk: %q, pem: %q}]", `{"\u0064":"`+canary+`"}`, pemKey),
		"too long":            withPEM(canary + strings.Repeat("A", 4096)),
		"JWK as an object":    "publicKeys: [{keyID: a, jwk: {d: " + canary + "}}]",
		"secret as a hash":    "secret: {hashed: [{id: a, hash: " + canary + "}]}",
		"weak Argon2id":       "secret: {hashed: [{id: a, hash: '$argon2id$v=19$m=8,t=1,p=1$a$" + canary + "'}]}",
		"weak PBKDF2":         "secret: {hashed: [{id: a, hash: '$pbkdf2-sha256$1$a$" + canary + "'}]}",
		"costly bcrypt":       "secret: {hashed: [{id: a, hash: '$2b$13$" + canary + "'}]}",
		"hash and reference":  "secret: {hashed: [{id: a, hash: '$" + canary + "', hashSecretRef: {name: a}}]}",
	} {
		t.Run(name, func(t *testing.T) {
			object := kindNamed("ApiClient").object(t, cluster.Namespace(t), "", spec)
			err := cluster.Client.Create(t.Context(), object, client.DryRunAll)
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

func ecKey(id string) string { return "{keyID: '" + id + "', jwk: '{}'}" }

// publicKeyTransitions covers changes between a secret and keys.
var publicKeyTransitions = map[string]transition{
	"key replaced":                          {before: "publicKeys: [" + ecKey("a") + "]", after: "publicKeys: [" + ecKey("b") + "]"},
	"generated with a name to keys":         {before: "secret: {generated: {secretName: s}}", after: "{secret: null, publicKeys: [" + ecKey("a") + "]}"},
	"secret with a name added to keys":      {before: "{secret: null, publicKeys: [" + ecKey("a") + "]}", after: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {secretName: s}}}"},
	"keys removed, secret left":             {before: "publicKeys: [" + ecKey("a") + "]", after: ""},
	"keys removed, nothing left":            {before: "{secret: null, publicKeys: [" + ecKey("a") + "]}", after: "secret: null", wantField: "spec.secret", wantRule: noAuthentication},
	"secretName changed with a key present": {before: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {secretName: s}}}", after: "{publicKeys: [" + ecKey("a") + "], secret: {generated: {secretName: t}}}", wantField: "spec.secret.generated.secretName", wantRule: secretNameChange + "s"},
}
