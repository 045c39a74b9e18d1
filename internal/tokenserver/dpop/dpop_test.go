package dpop_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/dpop"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

const (
	api         = "https://orders.example.com/v1/orders"
	accessToken = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
)

// keys returns one key for each algorithm. All tests share them, because RSA keys are slow to
// generate.
var keys = sync.OnceValue(func() map[signingkey.Algorithm]signingkey.Key {
	all := map[signingkey.Algorithm]signingkey.Key{}
	for _, algorithm := range signingkey.Algorithms {
		key, err := signingkey.Generate(algorithm, now, rand.Reader)
		if err != nil {
			panic(err)
		}
		all[algorithm] = key
	}
	return all
})

// members holds header parameters or claims. Nil values are omitted.
type members map[string]any

// jwk returns the public key as clients send it, with changes.
func jwk(t testing.TB, key signingkey.Key, change members) members {
	t.Helper()
	data := testkit.Value(json.Marshal(key.Public()))(t)
	var all members
	testkit.Do(t, json.Unmarshal(data, &all))
	for _, name := range []string{"alg", "use", "kid"} {
		delete(all, name)
	}
	maps.Copy(all, change)
	return all
}

// sign returns a proof for a GET request to the API. It is valid except for the given changes to the
// header and claims.
func sign(t testing.TB, key signingkey.Key, header, claims members) string {
	t.Helper()
	hash := sha256.Sum256([]byte(accessToken))
	return signText(t, key,
		encode(t, members{"alg": string(key.Algorithm), "typ": "dpop+jwt", "jwk": jwk(t, key, nil)}, header),
		encode(t, members{
			"jti": "one", "htm": "GET", "htu": api, "iat": now.Unix(), "ath": base64.RawURLEncoding.EncodeToString(hash[:]),
		}, claims))
}

func signText(t testing.TB, key signingkey.Key, header, claims string) string {
	t.Helper()
	signature := testkit.Value(key.Signer().Sign(nil, []byte(header+"."+claims)))(t)
	return header + "." + claims + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func encode(t testing.TB, defaults, change members) string {
	t.Helper()
	all := maps.Clone(defaults)
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	data := testkit.Value(json.Marshal(all))(t)
	return base64.RawURLEncoding.EncodeToString(data)
}

func TestParse(t *testing.T) {
	key, other := keys()[signingkey.ES256], keys()[signingkey.EdDSA]
	private := testkit.Value(json.Marshal(key))(t)
	var stored struct {
		JWK members `json:"jwk"`
	}
	if err := json.Unmarshal(private, &stored); err != nil || stored.JWK["d"] == nil {
		t.Fatalf("private key %v: %v", stored.JWK, err)
	}
	header := encode(t, members{"alg": "ES256", "typ": "dpop+jwt", "jwk": jwk(t, key, nil)}, nil)
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, tc := range map[string]struct {
		proof string
		want  error
	}{
		"valid":                      {sign(t, key, nil, nil), nil},
		"longest jti":                {sign(t, key, nil, members{"jti": strings.Repeat("j", 256)}), nil},
		"other claims":               {sign(t, key, nil, members{"nonce": "n", "exp": 1, "custom": []int{1}}), nil},
		"empty":                      {"", dpop.ErrMalformed},
		"too large":                  {sign(t, key, nil, members{"x": strings.Repeat("x", 4000)}), dpop.ErrMalformed},
		"no type":                    {sign(t, key, members{"typ": nil}, nil), dpop.ErrType},
		"type of access tokens":      {sign(t, key, members{"typ": "at+jwt"}, nil), dpop.ErrType},
		"no key":                     {sign(t, key, members{"jwk": nil}, nil), dpop.ErrKey},
		"private key":                {sign(t, key, members{"jwk": stored.JWK}, nil), dpop.ErrKey},
		"key and a symmetric member": {sign(t, key, members{"jwk": jwk(t, key, members{"k": "AAAA"})}, nil), dpop.ErrKey},
		"key for encryption":         {sign(t, key, members{"jwk": jwk(t, key, members{"use": "enc"})}, nil), dpop.ErrKey},
		"key of another type":        {sign(t, key, members{"jwk": jwk(t, other, nil)}, nil), dpop.ErrKey},
		"alg of jwk differs":         {sign(t, key, members{"jwk": jwk(t, key, members{"alg": "ES384"})}, nil), dpop.ErrKey},
		"another key in the header":  {sign(t, other, members{"alg": "ES256", "jwk": jwk(t, key, nil)}, nil), dpop.ErrSignature},
		"empty jti":                  {sign(t, key, nil, members{"jti": ""}), dpop.ErrMalformed},
		"jti too long":               {sign(t, key, nil, members{"jti": strings.Repeat("j", 257)}), dpop.ErrMalformed},
		"no iat":                     {sign(t, key, nil, members{"iat": nil}), dpop.ErrMalformed},
		"claims are no object":       {signText(t, key, header, text(`["a"]`)), dpop.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			proof, err := dpop.Parse(tc.proof)
			if !errors.Is(err, tc.want) || (err == nil) != (proof != nil) {
				t.Errorf("proof %v and error %v, want %v", proof, err, tc.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	want := dpop.Want{Method: "GET", URLs: []string{"https://other.example.com/", api}, Token: accessToken}
	atTokenEndpoint := dpop.Want{Method: "GET", URLs: []string{api}}
	for name, tc := range map[string]struct {
		claims  members
		request dpop.Want
		later   time.Duration
		want    error
	}{
		"this request":           {request: want},
		"query in the proof":     {claims: members{"htu": api + "?a=b#c"}, request: want},
		"another method":         {claims: members{"htm": "POST"}, request: want, want: dpop.ErrMethod},
		"another URL":            {claims: members{"htu": api + "/1"}, request: want, want: dpop.ErrURL},
		"only a path":            {claims: members{"htu": "/v1/orders"}, request: want, want: dpop.ErrURL},
		"no URL of the request":  {request: dpop.Want{Method: "GET", Token: accessToken}, want: dpop.ErrURL},
		"just before it expires": {request: want, later: 59 * time.Second},
		"expired":                {request: want, later: 59500 * time.Millisecond, want: dpop.ErrTime},
		"30 s ahead":             {request: want, later: -30 * time.Second},
		"31 s ahead":             {request: want, later: -31 * time.Second, want: dpop.ErrTime},
		"hash of another token":  {claims: members{"ath": "gUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"}, request: want, want: dpop.ErrToken},
		"bound to another key":   {request: dpop.Want{Method: "GET", URLs: []string{api}, Token: accessToken, JKT: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}, want: dpop.ErrBinding},
		"token endpoint":         {claims: members{"ath": nil}, request: atTokenEndpoint},
		"hash without a token":   {request: atTokenEndpoint},
	} {
		t.Run(name, func(t *testing.T) {
			proof := testkit.Value(dpop.Parse(sign(t, keys()[signingkey.ES256], nil, tc.claims)))(t)
			testkit.Diff(t, "error", tc.want, proof.Check(tc.request, now.Add(tc.later)), cmpopts.EquateErrors())
		})
	}
}

// FuzzParse checks that each accepted proof has a signature by the key with the returned
// thumbprint, and the claims that Check and the memory of used proofs need.
func FuzzParse(f *testing.F) {
	for _, key := range keys() {
		f.Add(sign(f, key, nil, nil))
		f.Add(sign(f, key, members{"jwk": nil}, nil))
	}
	f.Add("")
	f.Add("..")
	f.Add("e30.e30.")
	f.Fuzz(func(t *testing.T, compact string) {
		proof, err := dpop.Parse(compact)
		if err != nil {
			if proof != nil {
				t.Fatal("rejected the proof but returned it")
			}
			return
		}
		if len(proof.JKT) != 43 || proof.ID == "" || len(proof.ID) > 256 || strings.Count(compact, ".") != 2 || strings.ContainsAny(compact, " ,\r\n=") {
			t.Fatalf("accepted %q with thumbprint %q and ID %q", compact, proof.JKT, proof.ID)
		}
		if proof.Check(dpop.Want{Method: "GET", URLs: nil}, now) == nil {
			t.Fatal("accepted for no URL")
		}
	})
}

func TestNormalize(t *testing.T) {
	for given, want := range map[string]string{ // empty if rejected
		"https://api.example.com/v1":   "https://api.example.com/v1",
		"HTTPS://API.Example.COM/V1":   "https://api.example.com/V1",
		"https://api.example.com":      "https://api.example.com/",
		"https://api.example.com?a=b":  "https://api.example.com/",
		"https://api.example.com:443/": "https://api.example.com/",
		"https://api.example.com:80/":  "https://api.example.com:80/",
		"http://localhost:80/":         "http://localhost/",
		"https://[2001:DB8::1]:443/":   "https://[2001:db8::1]/",
		"https://x/%7euser/%41%2d":     "https://x/~user/A-",
		"https://x/a%2fb%2Fc":          "https://x/a%2Fb%2Fc",
		"https://x/%25%37%65":          "https://x/%257e",
		"https://x/a/../b/./c//d/":     "https://x/a/../b/./c//d/",
		"":                             "",
		"/v1":                          "",
		"https://":                     "",
		"ftp://x/":                     "",
		"https://user@x/":              "",
		"https://x/a\\b":               "",
		"https://x/a b":                "",
		"https://x/%":                  "",
		"https://x/%zz":                "",
		"https://[fe80::1%25eth0]/":    "",
		"https://%78/":                 "",
	} {
		got, ok := dpop.Normalize(given)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %t, want %q", given, got, ok, want)
		}
	}
}

// FuzzNormalize checks that normalization is stable and leaves the scheme, the host and the decoded
// path as net/url reads them, so that two URLs are equal only if they name the same resource.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"https://API.example.com:443/%7e%2f?a#b", "http://[::1]:80", "https://x/%zz", "https://a@b/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		normalized, ok := dpop.Normalize(given)
		if !ok {
			return
		}
		if again, ok := dpop.Normalize(normalized); !ok || again != normalized {
			t.Fatalf("%q is normalized to %q and then to %q, %t", given, normalized, again, ok)
		}
		want, err := url.Parse(given)
		if err != nil {
			return // net/url checks ports and IPv6 addresses too
		}
		got, err := url.Parse(normalized)
		if err != nil {
			t.Fatalf("%q is normalized to %q: %v", given, normalized, err)
		}
		path := want.Path
		if path == "" {
			path = "/"
		}
		if got.Path != path || got.RawQuery != "" || got.Fragment != "" || got.User != nil || got.Scheme != want.Scheme || len(got.Hostname()) != len(want.Hostname()) {
			t.Fatalf("%q is normalized to %q", given, normalized)
		}
	})
}
