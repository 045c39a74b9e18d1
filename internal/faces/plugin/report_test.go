package plugin_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/faces/plugin"
)

// generatedSecret has the format of a generated secret.
const generatedSecret = "rk_canary0123456789ABCDEFGHIJabcdefghij0123456789012345"

// secretTexts are texts with secrets by what remains of them.
var secretTexts = map[string]string{
	"used " + generatedSecret + " now":                                          "used [redacted] now",
	"ghp_0123456789canary0123456789":                                            "[redacted]",
	"Basic " + base64.StdEncoding.EncodeToString([]byte("id:"+generatedSecret)): "Basic [redacted]",
	"x " + base64.RawURLEncoding.EncodeToString([]byte("id:"+generatedSecret)):  "x [redacted]",
	"x " + hex.EncodeToString([]byte(generatedSecret)):                          "x [redacted]",

	`{"m":"x\n` + base64.RawStdEncoding.EncodeToString([]byte("id:"+generatedSecret)): `{"m":"x\[redacted]`,
	"0x" + hex.EncodeToString([]byte(generatedSecret)):                                "[redacted]",
	"\x1b[36mpassword=\x1b[0mhunter2canary":                                           "password=[redacted]",
	"\x1b[36mpassword\x1b[0m=hunter2canary":                                           "password=[redacted]",
	"pkcs11:object=x?pin-value=canary":                                                "pkcs11:object=x?pin-value=[redacted]",
	"KMS_PIN: canary":                                                                 "KMS_PIN: [redacted]",
	`"plaintext":"canary"`:                                                            `"plaintext":"[redacted]"`,
	"map[X-Vault-Token:[canaryCANARYcanary]]":                                         "map[X-Vault-Token:[redacted]]]",
	`"password":["canary"]`:                                                           `"password":["[redacted]"]`,
	"client_secret%3Dcanary":                                                          "client_secret%3D[redacted]",
	"--pin canary --slot 1":                                                           "--pin [redacted] --slot 1",
	"password=ab(canary":                                                              "password=[redacted]",

	"a\n-----BEGIN EC PRIVATE KEY-----\ncanary\n-----END EC PRIVATE KEY-----\n{":       "a\n[redacted]{",
	`{"a":"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n","b":"c"}`: `{"a":"[redacted]","b":"c"}`,
	"-----BEGIN RSA PRIVATE KEY-----\ncanary":                                          "[redacted]",
	"key=-----BEGIN+PRIVATE+KEY-----%0Acanary&a":                                       "key=[redacted]&a",
	"canary\ncanary==\n-----END PRIVATE KEY-----\n":                                    "[redacted]\n",
	"hash $hmac-sha256$canary$canary end":                                              "hash [redacted] end",
	"hash $2b$12$canary./canary":                                                       "hash [redacted]",
	"got eyJhbGciOiJub25lIn0.eyJjYW5hcnkifQ.canary!":                                   "got [redacted]!",
	"authorization: scheme canary":                                                     "authorization: [redacted]",
	`{"Cookie":["a=canary; b=canary"]}`:                                                `{"Cookie":["[redacted]"]}`,
	"got DPoP canaryCANARYcanary, failed":                                              "got DPoP [redacted], failed",
	"GET https://user:canary@host/path":                                                "GET https://[redacted]@host/path",
	`{"url":"https:\/\/canary@host"}`:                                                  `{"url":"https:\/\/[redacted]@host"}`,
	"GET /?sig=canary&a=b":                                                             "GET /?sig=[redacted]&a=b",
	`{"kty":"OKP","d":"canary"}`:                                                       `{"kty":"OKP","d":"[redacted]"}`,
	`{"password":"canary \" canary","a":1}`:                                            `{"password":"[redacted]","a":1}`,
	"password='canary canary' b":                                                       "password='[redacted]' b",
	`{"a":"{\"apiKey\":\"canary \\\" canary \\u0026canary\",\"b\":1}"}`:                `{"a":"{\"apiKey\":\"[redacted]\",\"b\":1}"}`,
	`{"a":"{\"a\":\"{\\\"password\\\":\\\"canary\\\"}\"}"}`:                            `{"a":"{\"a\":\"{\\\"password\\\":\\\"[redacted]\"}"}`,
	"passphrase: canary next":                                                          "passphrase: [redacted] next",
	`{"id_token":"canary"}`:                                                            `{"id_token":"[redacted]"}`,
	`{'credential':'canary canary'}`:                                                   `{'credential':'[redacted]'}`,
	`{"a":"{\"assertion\":\"canary\"}"}`:                                               `{"a":"{\"assertion\":\"[redacted]\"}"}`,
	`{"a":"{\"a\":\"{\\\"token\\\":\\\"canary\\\"}\"}"}`:                               `{"a":"{\"a\":\"{\\\"token\\\":\\\"[redacted]\"}"}`,
	"session=canary next":                                                              "session=[redacted] next",
	"token: canaryCANARYcanary":                                                        "token: [redacted]",
}

func TestScrubReplacesSecrets(t *testing.T) {
	for text, want := range secretTexts {
		if got := plugin.Scrub(text); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", text, got, want)
		}
	}
}

// Each form of secrets is tested: without it, a secret remains.
func TestScrubNeedsEachForm(t *testing.T) {
	needed := map[int]bool{}
	forms := 0
	for text, want := range secretTexts {
		results := plugin.ScrubWithoutEach(text)
		forms = len(results)
		for form, got := range results {
			needed[form] = needed[form] || got != want && strings.Contains(strings.ToLower(got), "canary")
		}
	}
	for form := range forms {
		if !needed[form] {
			t.Errorf("No test fails without form %d", form)
		}
	}
}

// Text that support needs is kept.
func TestScrubKeepsOtherText(t *testing.T) {
	for _, text := range []string{
		`{"time":"2026-03-01T12:00:00.5Z","action":"token","outcome":"refused","reason":"wrong_secret","realm":"acme","clientId":"acme-apps.billing","clientUid":"5c9e2c5e-4d3c-4f0e-9f43-7d1c4b8e2a10","secretId":"a51436ac026b","source":"192.0.2.7","jti":"Zk3vY0mXq1cX9w2n8bT5aA"}`,
		`{"level":"info","msg":"Changed Secret","secretName":"billing","token_endpoint":"https://api.example.com/acme/oauth2/token"}`,
		`keyID: eelM-DA8qb7ebH0VPJkBjTXlx2BqyAhcaoIsNN1s4DY`,
		"client-a85e9f0fd3d62cc69d650ea44e58157dfb4cf01bda1f1377b335f3c654ac4b7e",
		"Rejected assertion: wrong audience", "invalid token: it has expired", "spec.secret: Required value", "basic authentication failed",
		"dial tcp 192.0.2.1:443: connect: connection refused", "user@example.com", "https://api.example.com:8443/a?b=c",
		`realmkeeper_requests_total{grant="client_credentials",outcome="granted"} 17`,
	} {
		if got := plugin.Scrub(text); got != text {
			t.Errorf("Scrub(%q) = %q", text, got)
		}
	}
}

// Whether a field of a spec is in a support bundle is decided for each field, except below those that are kept with
// everything in them, such as the status. A new field is omitted until then, and this test fails.
func TestReportDecidesEachField(t *testing.T) {
	for object, want := range map[any][]string{
		&v1beta1.Instance{}: nil,
		&v1beta1.Realm{}: {
			"spec.claims.integer", "spec.claims.string", "spec.claims.strings", "spec.displayName", "spec.exchanges.deniedSubjects",
			"spec.exchanges.subjects.issuer.matchClaims.value", "spec.trustedIssuers.keys.caBundle",
			"spec.trustedIssuers.keys.jwks", "spec.trustedIssuers.requiredClaims.value",
		},
		&v1beta1.ApiClient{}: {
			"spec.claims.integer", "spec.claims.string", "spec.claims.strings", "spec.description", "spec.identities.matchClaims.value",
			"spec.publicKeys.jwk", "spec.publicKeys.pem", "spec.secret.generated.template", "spec.secret.hashed.hash",
		},
	} {
		kind := reflect.TypeOf(object).Elem().Name()
		fill(t, reflect.ValueOf(object).Elem())
		encoded := testkit.Value(json.Marshal(object))(t)
		u := &unstructured.Unstructured{}
		testkit.Do(t, json.Unmarshal(encoded, &u.Object))
		u.SetKind(kind)
		var omitted []string
		collectOmitted("", plugin.ReportedObject(u), &omitted)
		slices.Sort(omitted)
		testkit.Diff(t, "Omitted fields of "+kind, want, slices.Compact(omitted))
	}
}

// fill sets every field of a value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[metav1.ObjectMeta]():
		return
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.Unix(1, 0)))
		return
	case reflect.TypeFor[v1beta1.Duration]():
		v.Set(reflect.ValueOf(v1beta1.Duration{Duration: time.Hour}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	default:
		t.Fatal(fmt.Sprint("A field has kind ", v.Kind()))
	}
}

// collectOmitted collects the paths of the values that were replaced.
func collectOmitted(path string, value any, omitted *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			collectOmitted(strings.TrimPrefix(path+"."+name, "."), member, omitted)
		}
	case []any:
		for _, item := range v {
			collectOmitted(path, item, omitted)
		}
	case string:
		if v == "[redacted]" {
			*omitted = append(*omitted, path)
		}
	}
}
