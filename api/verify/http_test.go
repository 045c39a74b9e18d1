package verify_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

// holder is a client with a key.
type holder struct {
	tb        testing.TB
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
}

func (h holder) jwk() *jose.JSONWebKey { return &jose.JSONWebKey{Key: h.key.Public()} }

func (h holder) bound() object {
	thumbprint, err := h.jwk().Thumbprint(crypto.SHA256)
	if err != nil {
		h.tb.Fatal(err)
	}
	return object{"cnf": object{"jkt": base64.RawURLEncoding.EncodeToString(thumbprint)}}
}

// proof returns a proof for GET /orders of the API.
func (h holder) proof(token string, header, claims object) string {
	return sign(h.tb, h.key, object{"typ": "dpop+jwt", "alg": h.algorithm, "jwk": h.jwk()}.with(header), object{
		"jti": rand.Text(), "htm": "GET", "htu": audience + "/orders", "iat": time.Now().Unix(), "ath": hash(token),
	}.with(claims))
}

// call sends a request to a handler that requires the scopes, and returns the response.
func call(v *verify.Verifier, header http.Header, scopes ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/orders?page=2", http.NoBody)
	r.Header = header
	w := httptest.NewRecorder()
	v.Require(scopes...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, verify.FromContext(r.Context()).ClientID)
	})).ServeHTTP(w, r)
	return w.Result()
}

func TestRequire(t *testing.T) {
	r := newRealm(t)
	r.publish(r.list(r.listClaims(nil, 7)))
	r.respond("/acme/oauth2/status/2", unavailable)
	h := holder{t, jose.ES256, keyPairs()[jose.ES256]}
	token, bound := r.token(nil), r.token(h.bound())
	withProofs := func(o *verify.Options) { o.DPoP.URL = audience }
	onlyProofs := func(o *verify.Options) { o.DPoP = verify.DPoP{URL: audience, Required: true} }
	const algorithms = `algs="ES256 ES384 Ed25519 EdDSA PS256 RS256"`
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	proven := func(token, proof string) http.Header {
		return http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}
	}
	read := []string{"orders.read"}
	for name, test := range map[string]struct {
		options    func(*verify.Options)
		header     http.Header
		scopes     []string
		want       int
		challenges []string
	}{
		"valid":               {nil, bearer(token), read, 200, nil},
		"scheme in lowercase": {nil, http.Header{"Authorization": {"bearer " + token}}, read, 200, nil},
		"no scope required":   {nil, bearer(r.token(object{"scope": nil})), nil, 200, nil},
		"both scopes":         {nil, bearer(token), []string{"orders.read", "orders.write"}, 200, nil},
		"one of two scopes":   {nil, bearer(token), []string{"orders.read", "orders.delete"}, 403, []string{`Bearer error="insufficient_scope", scope="orders.read orders.delete"`}},
		"longer scope":        {nil, bearer(r.token(object{"scope": "orders.reads"})), read, 403, []string{`Bearer error="insufficient_scope", scope="orders.read"`}},
		"scope with a quote":  {nil, bearer(token), []string{`a"b`}, 403, []string{`Bearer error="insufficient_scope"`}},
		"no token":            {nil, http.Header{}, read, 401, []string{`Bearer scope="orders.read"`}},
		"other scheme":        {nil, http.Header{"Authorization": {"Basic YTpi"}}, nil, 401, []string{`Bearer`}},
		"empty token":         {nil, bearer(""), nil, 401, []string{`Bearer error="invalid_token"`}},
		"two headers":         {nil, http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, nil, 401, []string{`Bearer error="invalid_token"`}},
		"two tokens":          {nil, bearer(token + " " + token), nil, 401, []string{`Bearer error="invalid_token"`}},
		"invalid token":       {nil, bearer(token + "x"), read, 401, []string{`Bearer error="invalid_token"`}},
		"delegated":           {nil, bearer(r.token(object{"sub": "ext:corporate:alice"})), read, 403, []string{`Bearer error="insufficient_scope"`}},
		"revoked":             {nil, bearer(r.token(status(7))), read, 401, []string{`Bearer error="invalid_token"`}},
		"list is unavailable": {nil, bearer(r.token(object{"status": object{"status_list": object{"uri": issuer + "/oauth2/status/2", "idx": 0}}})), read, 503, nil},
		"keys are unavailable": {func(o *verify.Options) {
			o.Lazy, o.RealmURL = true, "https://token-server.svc/other"
		}, bearer(token), read, 503, nil},

		"bound":                        {withProofs, proven(bound, h.proof(bound, nil, nil)), read, 200, nil},
		"bound as Bearer":              {withProofs, bearer(bound), nil, 401, []string{`Bearer error="invalid_token"`}},
		"bound as Bearer with proof":   {withProofs, http.Header{"Authorization": {"Bearer " + bound}, "Dpop": {h.proof(bound, nil, nil)}}, nil, 401, []string{`Bearer error="invalid_token"`}},
		"not bound, as DPoP":           {withProofs, proven(token, h.proof(token, nil, nil)), nil, 401, []string{`DPoP error="invalid_token", ` + algorithms}},
		"no proof":                     {withProofs, http.Header{"Authorization": {"DPoP " + bound}}, nil, 401, []string{`DPoP error="invalid_dpop_proof", ` + algorithms}},
		"bound with a missing scope":   {withProofs, proven(bound, h.proof(bound, nil, nil)), []string{"x"}, 403, []string{`DPoP error="insufficient_scope", ` + algorithms + `, scope="x"`}},
		"no token, with proofs":        {withProofs, http.Header{}, read, 401, []string{`Bearer scope="orders.read"`, `DPoP ` + algorithms + `, scope="orders.read"`}},
		"no URL of the API":            {nil, proven(bound, h.proof(bound, nil, nil)), nil, 401, []string{`DPoP error="invalid_dpop_proof", ` + algorithms}},
		"only proofs":                  {onlyProofs, proven(bound, h.proof(bound, nil, nil)), nil, 200, nil},
		"only proofs, without a token": {onlyProofs, http.Header{}, nil, 401, []string{`DPoP ` + algorithms}},
		"only proofs, token as Bearer": {onlyProofs, bearer(token), nil, 401, []string{`DPoP error="invalid_dpop_proof", ` + algorithms}},
		"space for one proof":          {func(o *verify.Options) { o.DPoP = verify.DPoP{URL: audience, MaxProofs: 1} }, proven(bound, h.proof(bound, nil, nil)), nil, 200, nil},
	} {
		t.Run(name, func(t *testing.T) {
			response := call(r.verifier(test.options), test.header, test.scopes...)
			if got := response.Header.Values("WWW-Authenticate"); response.StatusCode != test.want || fmt.Sprint(got) != fmt.Sprint(test.challenges) {
				t.Errorf("got %d and %q, want %d and %q", response.StatusCode, got, test.want, test.challenges)
			}
			if retry := response.Header.Get("Retry-After"); (retry == "5") != (test.want == 503) {
				t.Errorf("Retry-After is %q", retry)
			}
		})
	}
}

func TestProofs(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(func(o *verify.Options) { o.DPoP.URL = audience })
	thief := holder{t, jose.ES256, newKey(t).Key.(crypto.Signer)}
	for algorithm, key := range keyPairs() {
		h := holder{t, algorithm, key}
		token := r.token(h.bound())
		private := &jose.JSONWebKey{Key: key}
		now := time.Now()
		for name, test := range map[string]struct {
			proof string
			valid bool
		}{
			"valid":               {h.proof(token, nil, nil), true},
			"query and case":      {h.proof(token, nil, object{"htu": "HTTPS://Orders.acme.example:443/%6frders?a=b#c"}), true},
			"other members":       {h.proof(token, object{"kid": "x"}, object{"nonce": "n", "exp": 1}), true},
			"just now":            {h.proof(token, nil, object{"iat": now.Add(20 * time.Second).Unix()}), true},
			"almost too old":      {h.proof(token, nil, object{"iat": now.Add(-50 * time.Second).Unix()}), true},
			"empty":               {"", false},
			"other type":          {h.proof(token, object{"typ": "JWT"}, nil), false},
			"no key":              {h.proof(token, object{"jwk": nil}, nil), false},
			"private key":         {h.proof(token, object{"jwk": private}, nil), false},
			"thief's key":         {thief.proof(token, nil, nil), false},
			"thief's signature":   {thief.proof(token, object{"jwk": h.jwk(), "alg": algorithm}, nil), false},
			"alg none":            {h.proof(token, object{"alg": "none"}, nil), false},
			"crit":                {h.proof(token, object{"crit": []string{"x"}}, nil), false},
			"other method":        {h.proof(token, nil, object{"htm": "POST"}), false},
			"other path":          {h.proof(token, nil, object{"htu": audience + "/orders/"}), false},
			"other host":          {h.proof(token, nil, object{"htu": "https://stock.acme.example/orders"}), false},
			"only a path":         {h.proof(token, nil, object{"htu": "/orders"}), false},
			"too old":             {h.proof(token, nil, object{"iat": now.Add(-65 * time.Second).Unix()}), false},
			"from the future":     {h.proof(token, nil, object{"iat": now.Add(40 * time.Second).Unix()}), false},
			"no iat":              {h.proof(token, nil, object{"iat": nil}), false},
			"no jti":              {h.proof(token, nil, object{"jti": nil}), false},
			"long jti":            {h.proof(token, nil, object{"jti": strings.Repeat("x", 257)}), false},
			"other token":         {h.proof(token+"x", nil, nil), false},
			"no ath":              {h.proof(token, nil, object{"ath": nil}), false},
			"large":               {h.proof(token, nil, object{"x": strings.Repeat("x", 4<<10)}), false},
			"list of the realm":   {r.list(r.listClaims(nil)), false},
			"the token":           {token, false},
			"other case of a key": {h.proof(token, nil, object{"htm": nil, "HTM": "GET"}), false},
		} {
			t.Run(string(algorithm)+", "+name, func(t *testing.T) {
				header := http.Header{"Authorization": {"DPoP " + token}, "Dpop": {test.proof}}
				if got := call(v, header).StatusCode; (got == 200) != test.valid {
					t.Errorf("status is %d", got)
				}
				if got := call(v, header).StatusCode; got != 401 {
					t.Errorf("status is %d when the proof is used again", got)
				}
			})
		}
		if algorithm == jose.EdDSA {
			header := http.Header{"Authorization": {"DPoP " + token}, "Dpop": {h.proof(token, object{"alg": "Ed25519"}, nil)}}
			if got := call(v, header).StatusCode; got != 200 {
				t.Errorf("status is %d with the newer name", got)
			}
		}
	}
	h := holder{t, jose.ES256, keyPairs()[jose.ES256]}
	token := r.token(h.bound())
	two := http.Header{"Authorization": {"DPoP " + token}, "Dpop": {h.proof(token, nil, nil), h.proof(token, nil, nil)}}
	if got := call(v, two).StatusCode; got != 401 {
		t.Errorf("status is %d with two proofs", got)
	}
}

// TestURLOfTheAPI checks that neither the Host header nor another handler changes the URL that the proof must have.
func TestURLOfTheAPI(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(func(o *verify.Options) { o.DPoP.URL = audience + "/v1" })
	h := holder{t, jose.ES256, keyPairs()[jose.ES256]}
	token := r.token(h.bound())
	const path, complete = "/prefix/orders%2f1?x", "https://evil.example/prefix/orders%2f1?x"
	for _, test := range []struct {
		target, url string
		want        int
	}{
		{path, audience + "/v1/prefix/orders%2F1", 200},
		{path, audience + "/v1/prefix/orders/1", 401},
		{path, audience + "/v1/orders%2F1", 401},
		{path, audience + "/prefix/orders%2F1", 401},
		{path, "https://evil.example/v1/prefix/orders%2F1", 401},
		{complete, audience + "/v1/prefix/orders%2F1", 200},
		{complete, audience + "/v1/orders%2F1", 401},
		{"https://evil.example/prefix?/orders", audience + "/v1/prefix", 200},
		{"/prefix/orders#x", audience + "/v1/prefix/orders", 401}, // the handler's path ends with #x
	} {
		request := httptest.NewRequest(http.MethodGet, test.target, http.NoBody)
		request.Host = "evil.example"
		request.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {h.proof(token, nil, object{"htu": test.url})}, "X-Forwarded-Host": {"evil.example"}}
		w := httptest.NewRecorder()
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		http.StripPrefix("/prefix", v.Require()(ok)).ServeHTTP(w, request)
		if w.Code != test.want {
			t.Errorf("%s with a proof for %s: status is %d, want %d", test.target, test.url, w.Code, test.want)
		}
	}
	request := httptest.NewRequest(http.MethodGet, "https://evil.example?/orders", http.NoBody) // has no path
	request.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {h.proof(token, nil, object{"htu": audience + "/v1/orders"})}}
	if _, err := v.VerifyRequest(request); !errors.Is(err, verify.ErrProof) {
		t.Error(err)
	}
}

// TestUsedProofs checks that a rejected request doesn't use a proof up, that one client leaves space for others, and
// that space is free again when proofs have expired.
func TestUsedProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(func(o *verify.Options) { o.DPoP = verify.DPoP{URL: audience, MaxProofs: 64} })
		h, other := holder{t, jose.ES256, newKey(t).Key.(crypto.Signer)}, holder{t, jose.ES256, newKey(t).Key.(crypto.Signer)}
		use := func(token, proof string, scopes ...string) int {
			return call(v, http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}, scopes...).StatusCode
		}
		expires := object{"exp": time.Now().Add(time.Hour).Unix()}
		token, another := r.token(h.bound().with(expires)), r.token(other.bound().with(expires))
		otherClient := r.token(other.bound().with(expires).with(object{"client_id": "acme-apps.orders", "sub": "acme-apps.orders"}))
		proof := h.proof(token, nil, nil)
		for i, want := range []int{403, 200, 401} {
			if got := use(token, proof, []string{"missing", "orders.read", "orders.read"}[i]); got != want {
				t.Errorf("status is %d, want %d", got, want)
			}
		}
		for round, want := range []int{12, 13, 13} {
			accepted := 0
			for use(token, h.proof(token, nil, nil)) == 200 {
				accepted++
			}
			if accepted != want {
				t.Errorf("round %d: %d proofs of one client, want %d", round, accepted, want)
			}
			if got := use(another, other.proof(another, nil, nil)); got != 503 {
				t.Errorf("status of another key is %d", got)
			}
			if got := use(otherClient, other.proof(otherClient, nil, nil)); got != 200 {
				t.Errorf("status of another client is %d", got)
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// TestOverHTTP runs a realm and an API as servers.
func TestOverHTTP(t *testing.T) {
	r := newRealm(t)
	server := httptest.NewTLSServer(r)
	t.Cleanup(server.Close)
	r.issuer = server.URL + "/acme"
	uri := server.URL + listPath
	list := r.list(r.listClaims(object{"sub": uri}, 7))
	r.respond(listPath, func(w http.ResponseWriter, request *http.Request) {
		if !strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") || request.Header.Get("Accept") != "application/statuslist+jwt" {
			t.Errorf("headers are %v", request.Header)
		}
		var compressed bytes.Buffer
		zip := gzip.NewWriter(&compressed)
		_, _ = zip.Write([]byte(list))
		_ = zip.Close()
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(compressed.Bytes())
	})
	v := r.verifier(func(o *verify.Options) { o.Client = server.Client() })
	api := httptest.NewServer(v.Require("orders.read")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, verify.FromContext(r.Context()).ClientID)
	})))
	t.Cleanup(api.Close)
	for index, want := range map[int]int{6: 200, 7: 401} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+r.token(object{"status": object{"status_list": object{"uri": uri, "idx": index}}}))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("index %d: status is %d, want %d", index, response.StatusCode, want)
		}
	}
	// A gzip bomb stops at the limit of the response.
	r.respond(strings.Replace(listPath, "1795746250", "2", 1), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 16 {
			_, _ = zip.Write(zeros)
		}
		_ = zip.Close()
	})
	token := r.token(object{"status": object{"status_list": object{"uri": strings.Replace(uri, "1795746250", "2", 1), "idx": 0}}})
	if allocated := allocatedBy(func() {
		if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrListTooLarge) {
			t.Error(err)
		}
	}); allocated > 8<<20 {
		t.Errorf("%d bytes", allocated)
	}
}

func TestMetrics(t *testing.T) {
	r := newRealm(t)
	var reasons []string
	v := r.verifier(func(o *verify.Options) {
		o.Metrics.Verified = func(err error) { reasons = append(reasons, verify.Reason(err)) }
	})
	_, _ = v.Verify(t.Context(), r.token(nil))
	_, _ = v.Verify(t.Context(), r.token(object{"aud": "x"}))
	call(v, http.Header{})
	call(v, http.Header{"Authorization": {"Bearer " + r.token(nil)}}, "x")
	if got, want := fmt.Sprint(reasons), "[ok audience no_token scope]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
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
		got, ok := verify.Normalize(given)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %t, want %q", given, got, ok, want)
		}
	}
}

// FuzzProof checks that only the proof that the holder of the key signed is accepted, and only once.
func FuzzProof(f *testing.F) {
	r, now := newFixedRealm(f)
	h := holder{f, jose.EdDSA, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	token := r.token(h.bound().with(fixedTimes(now)))
	v := r.verifier(func(o *verify.Options) { o.DPoP.URL, o.Now = audience, func() time.Time { return now } })
	claims := object{"iat": now.Unix(), "jti": "id"}
	valid := h.proof(token, nil, claims)
	for _, proof := range []string{valid, "", "..", h.proof(token, object{"jwk": nil}, claims), h.proof(token, nil, object{"htu": audience, "jti": "id", "iat": now.Unix()})} {
		f.Add(proof)
	}
	f.Fuzz(func(t *testing.T, proof string) {
		request := httptest.NewRequest(http.MethodGet, "/orders", http.NoBody)
		request.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}
		if _, err := v.VerifyRequest(request); err == nil && proof != valid || err != nil && !errors.Is(err, verify.ErrProof) {
			t.Fatalf("%s: %v", proof, err)
		}
		if _, err := v.VerifyRequest(request); !errors.Is(err, verify.ErrProof) {
			t.Fatalf("%s again: %v", proof, err)
		}
	})
}
