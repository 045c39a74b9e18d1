package clientassertion_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientassertion"
)

// Other cases are covered over HTTP by the tests in package tokenserver.

var now = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

const issuer = "https://api.example.com/acme"

func newKey(f *testing.F) signingkey.Key {
	f.Helper()
	return testkit.Value(signingkey.Generate(signingkey.ES256, now, rand.Reader))(f)
}

// sign returns a JWT without validating its parts.
func sign(t testing.TB, key signingkey.Key, header, claims string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(header)) + "." + encode([]byte(claims))
	signature := testkit.Value(key.Signer().Sign(nil, []byte(input)))(t)
	return input + "." + encode(signature)
}

// Parsed assertions have three parts. Verification succeeds only if they were signed by the key.
func FuzzParse(f *testing.F) {
	key := newKey(f)
	header := `{"alg":"ES256","kid":"` + key.ID + `"}`
	signed := sign(f, key, header, `{"sub":"billing","aud":["`+issuer+`","x"]}`)
	for _, seed := range []string{signed, signed + "\n", sign(f, key, `{"alg":"none","crit":["b64"]}`, "{}"), "e30.e30.", ".."} {
		f.Add(seed)
	}
	for at := range signed {
		for _, forged := range []string{"A", "B", "-", "=", "\n", ""} {
			f.Add(signed[:at] + forged + signed[at+1:])
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := clientassertion.Parse(text)
		if err != nil {
			return
		}
		if strings.Count(text, ".") != 2 || a.Algorithm == "" {
			t.Fatalf("parsed as %+v", a)
		}
		if a.Verify(key.Public()) == nil && text != signed {
			t.Fatalf("verified %q, which was not signed", text)
		}
	})
}

// FuzzSubjectToken checks that a subject token has one of the types that it may have, and that claims about actors
// can be read or are rejected.
func FuzzSubjectToken(f *testing.F) {
	key := newKey(f)
	for _, claims := range []string{
		`{"iss":"a","sub":"b","act":{"sub":"c","act":{"iss":"d","sub":"e"}},"may_act":{"client_id":"f"},"cnf":{"jkt":"g"}}`,
		`{"act":"a","may_act":[],"cnf":1}`,
		`{"act":` + strings.Repeat(`{"act":`, 1000) + `{}` + strings.Repeat(`}`, 1001),
		`{"act":null,"may_act":null}`,
	} {
		for _, kind := range []string{"JWT", "at+jwt", "oauth-id-jag+jwt", ""} {
			f.Add(kind, []byte(claims))
		}
	}
	f.Fuzz(func(t *testing.T, kind string, claims []byte) {
		header := testkit.Value(json.Marshal(map[string]string{"alg": "ES256", "typ": kind}))(t)
		token := sign(t, key, string(header), string(claims))
		subject, err := clientassertion.ParseSubject(token)
		if idJAG, jagErr := clientassertion.ParseIDJAG(token); err == nil && jagErr == nil {
			t.Fatalf("%q is both a subject token and an ID-JAG: %+v", kind, idJAG)
		}
		if err != nil {
			return
		}
		if kind := strings.TrimPrefix(strings.ToLower(kind), "application/"); !slices.Contains([]string{"", "jwt", "at+jwt", "jose"}, kind) {
			t.Fatalf("accepted the type %q", kind)
		}
		var got map[string]any
		delegation, err := subject.Delegation()
		if err != nil || json.Unmarshal(claims, &got) != nil {
			return
		}
		if (got["may_act"] != nil) != (delegation.MayAct != nil) || (got["cnf"] != nil) != (delegation.Confirmation != nil) || (got["act"] != nil) != (delegation.Act != nil) {
			t.Fatalf("read %+v from %s", delegation, claims)
		}
	})
}

// FuzzCheckIDJAG checks that no claims make an ID-JAG valid for another client, audience, or resource.
func FuzzCheckIDJAG(f *testing.F) {
	key := newKey(f)
	for _, claims := range []string{
		`{"iss":"a","sub":"b","aud":"` + issuer + `","exp":1772370000,"iat":1772366400,"jti":"c","client_id":"agent","resource":"https://orders.example.com","scope":"x"}`,
		`{"iss":"a","sub":"b","aud":["` + issuer + `"],"exp":1772370000,"iat":1772366400,"jti":"c","client_id":"agent","resource":["https://orders.example.com"],"tenant":"t"}`,
		`{"iss":"a","sub":"b","aud":"` + issuer + `","exp":1772370000,"iat":1772366400,"jti":"c","client_id":"agent","client_id":"x","resource":"y"}`,
		`{"iss":"a","sub":"b","aud":"` + issuer + `","exp":1772370000,"iat":1772366400,"jti":"c","Client_ID":"agent","resource":["a","b"]}`,
	} {
		f.Add([]byte(claims))
	}
	f.Fuzz(func(t *testing.T, claims []byte) {
		a, err := clientassertion.ParseIDJAG(sign(t, key, `{"alg":"ES256","typ":"oauth-id-jag+jwt"}`, string(claims)))
		if err != nil {
			return
		}
		checked, resource, err := a.CheckIDJAG("agent", issuer, nil, now)
		if err != nil {
			return
		}
		var got map[string]any
		if err := json.Unmarshal(claims, &got); err != nil {
			t.Fatalf("accepted claims that are not valid: %s: %v", claims, err)
		}
		for _, name := range []string{"aud", "resource"} {
			if list, ok := got[name].([]any); ok && len(list) == 1 {
				got[name] = list[0]
			}
		}
		id, _ := got["jti"].(string)
		subject, _ := got["sub"].(string)
		if got["aud"] != issuer || got["client_id"] != "agent" || got["resource"] != resource || resource == "" || id == "" || subject == "" || got["tenant"] != nil {
			t.Fatalf("accepted %s", claims)
		}
		if scope, limited := got["scope"].(string); limited != (checked.Scope != nil) || limited && *checked.Scope != scope {
			t.Fatalf("scope %v of %s", checked.Scope, claims)
		}
	})
}

// FuzzCheckForeign checks that the claims of a foreign token can't make the checks accept more than
// was asked for.
func FuzzCheckForeign(f *testing.F) {
	key := newKey(f)
	for _, claims := range []string{
		`{"iss":"a","sub":"b","aud":"` + issuer + `","exp":1772370000,"namespace_id":"4711"}`,
		`{"iss":"a","sub":"b","aud":["` + issuer + `","x"],"exp":1772370000,"namespace_id":"4711"}`,
		`{"sub":"spiffe://a/b","aud":"` + issuer + `","exp":1772370000,"namespace_id":"4711"}`,
		`{"iss":"a","sub":"b","aud":"` + issuer + `","exp":1e300,"namespace_id":4711}`,
		`{"sub":"b","aud":["` + issuer + `"],"exp":1772370000,"namespace_id":"4711","namespace_id":"1"}`,
	} {
		f.Add([]byte(claims))
	}
	f.Fuzz(func(t *testing.T, claims []byte) {
		a, err := clientassertion.Parse(sign(t, key, `{"alg":"ES256","kid":"a"}`, string(claims)))
		if err != nil {
			return
		}
		if a.Verify(key.Public()) != nil {
			t.Fatal("the signature is not valid")
		}
		a.Issuer()
		if a.CheckForeign(issuer, map[string]string{"namespace_id": "4711"}, now) != nil {
			return
		}
		var got map[string]any // names in another case are other claims
		if err := json.Unmarshal(claims, &got); err != nil {
			t.Fatalf("accepted claims that are not valid: %s: %v", claims, err)
		}
		if list, ok := got["aud"].([]any); ok && len(list) == 1 {
			got["aud"] = list[0]
		}
		subject, _ := got["sub"].(string)
		expires, _ := got["exp"].(float64)
		unix := float64(now.UnixNano()) / 1e9
		if got["aud"] != issuer || got["namespace_id"] != "4711" || subject == "" || len(subject) > 512 || expires < unix-1 || expires > unix+86431 {
			t.Fatalf("accepted %s", claims)
		}
		if got["other"] != "value" && a.HasClaims(map[string]string{"namespace_id": "4711", "other": "value"}) {
			t.Fatalf("found a claim that is missing in %s", claims)
		}
	})
}
