package verify_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		now := time.Now()
		got, err := r.verifier(func(o *verify.Options) { o.Delegated = true }).Verify(t.Context(), r.token(object{
			"sub": "ext:corporate:alice", "aud": []string{"https://stock.acme.example", audience}, "jti": "id", "plan": "gold",
			"act": object{"iss": issuer, "sub": "acme-apps.billing", "client_uid": "b242a1ba", "act": object{"iss": "https://login.acme.example", "sub": "portal"}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		var fixed struct {
			Plan  string `json:"plan"`
			Other string `json:"PLAN"`
		}
		if err := got.Decode(&fixed); err != nil || fixed.Plan != "gold" || fixed.Other != "" {
			t.Errorf("claims are %+v, error %v", fixed, err)
		}
		exported := verify.Claims{
			Subject: got.Subject, ClientID: got.ClientID, ClientUID: got.ClientUID, Audience: got.Audience, Scopes: got.Scopes,
			IssuedAt: got.IssuedAt, ExpiresAt: got.ExpiresAt, ID: got.ID, JKT: got.JKT, Actors: got.Actors,
		}
		want := verify.Claims{
			Subject: "ext:corporate:alice", ClientID: "acme-apps.billing", ClientUID: "b242a1ba", ID: "id",
			Audience: []string{"https://stock.acme.example", audience}, Scopes: []string{"orders.read", "orders.write"},
			IssuedAt: time.Unix(now.Unix(), 0), ExpiresAt: time.Unix(now.Unix()+600, 0),
			Actors: []verify.Actor{{issuer, "acme-apps.billing", "b242a1ba"}, {"https://login.acme.example", "portal", ""}},
		}
		if !reflect.DeepEqual(exported, want) {
			t.Errorf("got  %+v\nwant %+v", exported, want)
		}
	})
}

func TestEveryAlgorithm(t *testing.T) {
	r := newRealm(t)
	for algorithm, key := range keyPairs() {
		r.addKey(jose.JSONWebKey{Key: key, KeyID: "key-" + string(algorithm), Algorithm: string(algorithm), Use: "sig"})
	}
	v := r.verifier(nil)
	for algorithm, key := range keyPairs() {
		for other := range keyPairs() {
			header := object{"alg": algorithm, "kid": "key-" + string(algorithm), "typ": "at+jwt"}
			if _, err := v.Verify(t.Context(), sign(t, key, header, r.claims(nil))); err != nil {
				t.Errorf("%s: %v", algorithm, err)
			}
			header["alg"] = other
			if _, err := v.Verify(t.Context(), sign(t, key, header, r.claims(nil))); other != algorithm && !errors.Is(err, verify.ErrSignature) {
				t.Errorf("%s with a key for %s: %v", other, algorithm, err)
			}
		}
	}
}

func TestForgedTokensAreRejected(t *testing.T) {
	r, other := newRealm(t), newRealm(t)
	v := r.verifier(nil)
	private := r.key()
	public, err := x509.MarshalPKIXPublicKey(private.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	attacker := other.key()
	attackerJWK := attacker.Public()
	now := time.Now()
	token := func(header, claims object) string {
		return sign(t, private.Key, r.header(header), r.claims(claims))
	}
	good := r.token(nil)
	unsigned := sign(t, []byte("x"), r.header(object{"alg": "none"}), r.claims(nil))
	noneParts := strings.Split(unsigned, ".")
	for name, test := range map[string]struct {
		token string
		want  error
	}{
		"valid":                      {good, nil},
		"as large as any of a realm": {token(nil, object{"x": strings.Repeat("x", (6144-len(good))*3/4)}), nil},
		"full media type":            {token(object{"typ": "application/AT+JWT"}, nil), nil},
		"jku and x5u are ignored":    {token(object{"jku": "https://evil.example/jwks", "x5u": "https://evil.example/x5u", "x5c": []string{"AAAA"}}, nil), nil},
		"empty":                      {"", verify.ErrMalformed},
		"two parts":                  {noneParts[0] + "." + noneParts[1], verify.ErrMalformed},
		"four parts":                 {good + ".x", verify.ErrMalformed},
		"JSON serialization":         {`{"payload":"e30"}`, verify.ErrMalformed},
		"too large":                  {token(nil, object{"x": strings.Repeat("x", 16<<10)}), verify.ErrMalformed},
		"no signature":               {noneParts[0] + "." + noneParts[1] + ".", verify.ErrSignature},
		"alg none":                   {unsigned, verify.ErrSignature},
		"public key as HMAC secret":  {sign(t, public, r.header(object{"alg": "HS256"}), r.claims(nil)), verify.ErrSignature},
		"no alg":                     {token(object{"alg": nil}, nil), verify.ErrSignature},
		"other alg":                  {token(object{"alg": "ES384"}, nil), verify.ErrSignature},
		"key for lists":              {sign(t, r.listKey().Key, r.listHeader().with(object{"typ": "at+jwt"}), r.claims(nil)), verify.ErrSignature},
		"other realm's key":          {sign(t, attacker.Key, r.header(nil), r.claims(nil)), verify.ErrSignature},
		"key in jwk":                 {sign(t, attacker.Key, r.header(object{"jwk": &attackerJWK}), r.claims(nil)), verify.ErrSignature},
		"unknown kid":                {token(object{"kid": "x"}, nil), verify.ErrSignature},
		"no kid":                     {token(object{"kid": nil}, nil), verify.ErrSignature},
		"kid that is a number":       {token(object{"kid": 7}, nil), verify.ErrMalformed},
		"crit":                       {token(object{"crit": []string{"b64"}, "b64": false}, nil), verify.ErrMalformed},
		"ID token":                   {token(object{"typ": "JWT"}, nil), verify.ErrType},
		"no typ":                     {token(object{"typ": nil}, nil), verify.ErrType},
		"status list":                {r.list(r.claims(nil)), verify.ErrType},
		"other issuer":               {token(nil, object{"iss": issuer + "2"}), verify.ErrIssuer},
		"no issuer":                  {token(nil, object{"iss": nil}), verify.ErrIssuer},
		"other audience":             {token(nil, object{"aud": audience + "/"}), verify.ErrAudience},
		"no audience":                {token(nil, object{"aud": nil}), verify.ErrAudience},
		"audience that is an object": {token(nil, object{"aud": object{audience: true}}), verify.ErrMalformed},
		"expired":                    {token(nil, object{"exp": now.Unix()}), verify.ErrExpired},
		"no exp":                     {token(nil, object{"exp": nil}), verify.ErrMalformed},
		"exp that is text":           {token(nil, object{"exp": "9999999999"}), verify.ErrMalformed},
		"exp that is a fraction":     {token(nil, object{"exp": float64(now.Unix()) + 600.5}), verify.ErrMalformed},
		"exp that is null":           {token(nil, object{"exp": (*int)(nil)}), verify.ErrMalformed},
		"exp out of range":           {token(nil, object{"exp": int64(1) << 62}), verify.ErrMalformed},
		"nbf in the future":          {token(nil, object{"nbf": now.Add(time.Minute).Unix()}), verify.ErrNotYetValid},
		"iat in the future":          {token(nil, object{"iat": now.Add(time.Minute).Unix()}), verify.ErrNotYetValid},
		"iat within the skew":        {token(nil, object{"iat": now.Add(20 * time.Second).Unix()}), nil},
		"no sub":                     {token(nil, object{"sub": nil}), verify.ErrMalformed},
		"no client_id":               {token(nil, object{"client_id": nil}), verify.ErrMalformed},
		"claim in another case":      {token(nil, object{"client_id": nil, "Client_ID": "acme-apps.billing"}), verify.ErrMalformed},
		"duplicate claim":            {signPayload(t, private.Key, r.header(nil), []byte(`{"iss":"x","iss":"y"}`)), verify.ErrMalformed},
		"claims that are an array":   {signPayload(t, private.Key, r.header(nil), []byte(`[]`)), verify.ErrMalformed},
		"acts for a subject":         {token(nil, object{"sub": "ext:corporate:alice"}), verify.ErrDelegated},
		"acts for itself":            {token(nil, object{"act": object{"sub": "x"}}), verify.ErrDelegated},
		"bound to a key":             {token(nil, object{"cnf": object{"jkt": "x"}}), verify.ErrProof},
		"bound to a certificate":     {token(nil, object{"cnf": object{"x5t#S256": "x"}}), verify.ErrMalformed},
		"status without a list":      {token(nil, object{"status": object{}}), verify.ErrMalformed},
		"negative index":             {token(nil, status(-1)), verify.ErrMalformed},
		"index that is a fraction":   {token(nil, status(1.5)), verify.ErrMalformed},
		"list of another issuer":     {token(nil, object{"status": object{"status_list": object{"uri": "https://evil.example/oauth2/status/1", "idx": 0}}}), verify.ErrStatus},
		"list of a longer issuer":    {token(nil, object{"status": object{"status_list": object{"uri": issuer + "2/oauth2/status/1", "idx": 0}}}), verify.ErrStatus},
		"list with a path":           {token(nil, object{"status": object{"status_list": object{"uri": issuer + "/oauth2/status/1/../2", "idx": 0}}}), verify.ErrStatus},
		"list without a number":      {token(nil, object{"status": object{"status_list": object{"uri": issuer + "/oauth2/status/", "idx": 0}}}), verify.ErrStatus},
		"list with a query":          {token(nil, object{"status": object{"status_list": object{"uri": listURI + "?x=1", "idx": 0}}}), verify.ErrStatus},
		"list with many digits":      {token(nil, object{"status": object{"status_list": object{"uri": listURI + strings.Repeat("1", 99), "idx": 0}}}), verify.ErrStatus},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := v.Verify(t.Context(), test.token)
			if !errors.Is(err, test.want) || (claims == nil) == (err == nil) {
				t.Errorf("got %v and %v, want %v", claims, err, test.want)
			}
			if got := verify.Reason(err); got == "error" || (got == "ok") != (test.want == nil) {
				t.Errorf("reason of %v is %q", err, got)
			}
		})
	}
	for path := range r.requests {
		if path != "/.well-known/oauth-authorization-server/acme" && path != "/acme/oauth2/jwks" {
			t.Errorf("%s was requested", path)
		}
	}
}

// TestEveryMutationIsRejected checks that a token has only one encoding: any other character in it, or one
// more or less, makes it invalid, although the token is remembered.
func TestEveryMutationIsRejected(t *testing.T) {
	r := newRealm(t)
	v := r.verifier(nil)
	token := r.token(nil)
	if _, err := v.Verify(t.Context(), token); err != nil || !v.Remembers(token) {
		t.Fatal("not remembered:", err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	check := func(mutated string) {
		if _, err := v.Verify(t.Context(), mutated); (err == nil || v.Remembers(mutated)) && mutated != token {
			t.Errorf("accepted or remembered %s", mutated)
		}
	}
	for i := range token {
		check(token[:i] + token[i+1:])
		for _, c := range "=. \n+/\x00" {
			check(token[:i] + string(c) + token[i:])
			check(token[:i] + string(c) + token[i+1:])
		}
		if token[i] == '.' {
			continue
		}
		// The last bits of a part aren't part of its value, so try all others.
		position := strings.IndexByte(alphabet, token[i])
		changes := []int{1, 32}
		if i+1 == len(token) || token[i+1] == '.' {
			changes = changes[:0]
			for n := 1; n < len(alphabet); n++ {
				changes = append(changes, n)
			}
		}
		for _, n := range changes {
			check(token[:i] + alphabet[(position+n)%len(alphabet):][:1] + token[i+1:])
		}
	}
	check(token + "=")
	check(token + "\n")
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	r := newRealm(t)
	valid := verify.Options{Audience: audience, Client: &http.Client{Transport: r}}
	change := func(change func(*verify.Options)) verify.Options {
		options := valid
		change(&options)
		return options
	}
	for name, test := range map[string]struct {
		issuer  string
		options verify.Options
		valid   bool
	}{
		"valid":                    {issuer, valid, true},
		"no audience":              {issuer, change(func(o *verify.Options) { o.Audience = "" }), false},
		"unencrypted issuer":       {"http://api.example.com/acme", valid, false},
		"issuer with a slash":      {issuer + "/", valid, false},
		"no issuer":                {"", valid, false},
		"unencrypted realm":        {issuer, change(func(o *verify.Options) { o.RealmURL = "http://realm" }), false},
		"API without a host":       {issuer, change(func(o *verify.Options) { o.DPoP.URL = "/orders" }), false},
		"API with a query":         {issuer, change(func(o *verify.Options) { o.DPoP.URL = audience + "?x" }), false},
		"API with a slash":         {issuer, change(func(o *verify.Options) { o.DPoP.URL = audience + "/" }), false},
		"proofs without a URL":     {issuer, change(func(o *verify.Options) { o.DPoP.Required = true }), false},
		"negative skew":            {issuer, change(func(o *verify.Options) { o.Skew = -1 }), false},
		"unknown policy":           {issuer, change(func(o *verify.Options) { o.Status = 7 }), false},
		"metadata of another":      {"https://api.example.com", valid, false},
		"keys that are not served": {issuer, change(func(o *verify.Options) { o.RealmURL = "https://realm" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := verify.New(t.Context(), test.issuer, test.options)
			if (err == nil) != test.valid {
				t.Fatal(err)
			}
			if v != nil {
				v.Close()
			}
		})
	}
}

// TestMetadata checks both places, and that the URL of the realm makes metadata unnecessary.
func TestMetadata(t *testing.T) {
	for name, test := range map[string]struct {
		metadata map[string]object
		options  func(*verify.Options)
		want     error
	}{
		"OpenID Connect": {metadata: map[string]object{
			"/acme/.well-known/openid-configuration": {"issuer": issuer, "jwks_uri": issuer + "/oauth2/jwks"},
		}},
		"other issuer": {metadata: map[string]object{
			"/.well-known/oauth-authorization-server/acme": {"issuer": issuer + "/", "jwks_uri": issuer + "/oauth2/jwks"},
		}, want: verify.ErrKeysUnavailable},
		"unencrypted keys": {metadata: map[string]object{
			"/.well-known/oauth-authorization-server/acme": {"issuer": issuer, "jwks_uri": "http://api.example.com/acme/oauth2/jwks"},
		}, want: verify.ErrKeysUnavailable},
		"none":      {want: verify.ErrKeysUnavailable},
		"realm URL": {options: func(o *verify.Options) { o.RealmURL = "https://token-server.svc/acme" }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t)
			delete(r.responses, "/.well-known/oauth-authorization-server/acme")
			for path, metadata := range test.metadata {
				r.respond(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(encode(t, metadata)) })
			}
			v := r.verifier(func(o *verify.Options) {
				o.Lazy = true
				if test.options != nil {
					test.options(o)
				}
			})
			if _, err := v.Verify(t.Context(), r.token(nil)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// TestUnusableKeysAreIgnored checks that keys without an algorithm, or of another kind, verify nothing, and
// don't make the others unusable.
func TestUnusableKeysAreIgnored(t *testing.T) {
	r := newRealm(t)
	good := r.key()
	p384 := keyPairs()[jose.ES384]
	var keys []any
	for _, changes := range []object{{"kid": "no-alg", "alg": nil}, {"kid": "enc", "use": "enc"}, {"kid": "other-alg", "alg": "ES384"}, {"kid": nil}, {"kid": "private", "d": "AAAA"}} {
		public := good.Public()
		data, err := public.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, decode(t, data).with(changes))
	}
	keys = append(keys, object{"kty": "unknown", "kid": "unknown"}, object{"kty": "oct", "kid": "oct", "k": "AAAA", "alg": "HS256"}, good.Public())
	r.respond("/acme/oauth2/jwks", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(encode(t, object{"keys": keys})) })
	v := r.verifier(nil)
	if _, err := v.Verify(t.Context(), r.token(nil)); err != nil {
		t.Error(err)
	}
	for _, kid := range []string{"no-alg", "enc", "other-alg", "", "private", "unknown", "oct"} {
		for _, forged := range []string{
			sign(t, good.Key, r.header(object{"kid": kid}), r.claims(nil)),
			sign(t, p384, r.header(object{"kid": kid, "alg": "ES384"}), r.claims(nil)),
			sign(t, []byte{0, 0, 0}, r.header(object{"kid": kid, "alg": "HS256"}), r.claims(nil)),
		} {
			if _, err := v.Verify(t.Context(), forged); !errors.Is(err, verify.ErrSignature) {
				t.Errorf("key %q: %v", kid, err)
			}
		}
	}
}

func TestNewKeyIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(nil)
		for range 3 {
			if _, err := v.Verify(t.Context(), r.token(nil)); err != nil {
				t.Error(err)
			}
			r.addKey(newKey(t))
			time.Sleep(5 * time.Second)
		}
	})
}

func TestRemovedKeyIsForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		tokens int
		pause  time.Duration
	}{"in use": {7, time.Minute}, "not in use": {1, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealm(t)
				v := r.verifier(nil)
				start := time.Now()
				token := r.token(object{"exp": start.Add(24 * time.Hour).Unix()})
				r.replaceKeys()
				for range test.tokens {
					if _, err := v.Verify(t.Context(), token); time.Since(start) <= 5*time.Minute && err != nil {
						t.Error(err)
					}
					time.Sleep(test.pause)
				}
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrSignature) {
					t.Error(err)
				}
			})
		})
	}
}

// TestUnusedKeysAreNotTrusted checks that after a long time without tokens, every token waits until the keys are
// loaded again. A token whose request ends first is rejected.
func TestUnusedKeysAreNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(nil)
		forged := r.token(object{"exp": time.Now().Add(24 * time.Hour).Unix()})
		r.replaceKeys()
		keys := r.responses["/acme/oauth2/jwks"]
		r.respond("/acme/oauth2/jwks", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			keys(w, r)
		})
		time.Sleep(time.Hour)
		for _, test := range []struct {
			patience time.Duration
			want     error
		}{{time.Minute, verify.ErrSignature}, {time.Second, verify.ErrKeysUnavailable}, {time.Minute, verify.ErrSignature}} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), test.patience)
				defer cancel()
				if _, err := v.Verify(ctx, forged); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			}()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
	})
}

// TestKeysAreLoadedAgainSoonAfterAFailure checks that a removed key isn't used for another interval.
func TestKeysAreLoadedAgainSoonAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(nil)
		token := r.token(nil)
		keys := r.responses["/acme/oauth2/jwks"]
		for _, step := range []struct {
			response http.HandlerFunc
			pause    time.Duration
			want     error
		}{{keys, 5 * time.Minute, nil}, {unavailable, 5 * time.Second, nil}, {keys, time.Second, nil}, {keys, 0, verify.ErrSignature}} {
			r.respond("/acme/oauth2/jwks", step.response)
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, step.want) {
				t.Errorf("got %v, want %v", err, step.want)
			}
			time.Sleep(step.pause)
			r.replaceKeys()
		}
	})
}

// TestFloodOfUnknownKeys checks that tokens with unknown key IDs, which anyone can send, cause one request
// per 5 seconds.
func TestFloodOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		v := r.verifier(nil)
		time.Sleep(5 * time.Second)
		before := r.requestsOf("/acme/oauth2/jwks")
		for range 100 { // 10 seconds
			for range 10 {
				go func() {
					if _, err := v.Verify(t.Context(), sign(t, r.key().Key, r.header(object{"kid": rand.Text()}), r.claims(nil))); !errors.Is(err, verify.ErrSignature) {
						t.Error(err)
					}
				}()
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := r.requestsOf("/acme/oauth2/jwks") - before; got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
	})
}

// held returns a handler that answers after release was called. It answers as next does.
func held(next http.HandlerFunc) (handler http.HandlerFunc, release func()) {
	released := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
			next(w, r)
		case <-r.Context().Done():
		}
	}, sync.OnceFunc(func() { close(released) })
}

// flood verifies tokens at the same time. It returns how many of them wait, and a channel with all results.
func flood(t *testing.T, v *verify.Verifier, tokens []string) (waiting int, results chan error) {
	t.Helper()
	results = make(chan error, len(tokens))
	for _, token := range tokens {
		go func() {
			_, err := v.Verify(t.Context(), token)
			results <- err
		}()
	}
	synctest.Wait()
	return len(tokens) - len(results), results
}

// wantResults reads n results.
func wantResults(t *testing.T, results chan error, n int, want error) {
	t.Helper()
	for range n {
		if err := <-results; !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
}

// TestFewTokensWaitForUnknownKeys checks that tokens that anyone can send don't pile up while the issuer doesn't
// respond, and that tokens with a known key are verified meanwhile.
func TestFewTokensWaitForUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		var ahead atomic.Int64 // nanoseconds
		v := r.verifier(func(o *verify.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		ahead.Store(int64(5 * time.Second))
		keys := r.responses["/acme/oauth2/jwks"]
		handler, release := held(keys)
		r.respond("/acme/oauth2/jwks", handler)
		var unknown []string
		for range 1000 {
			unknown = append(unknown, sign(t, r.key().Key, r.header(object{"kid": rand.Text()}), r.claims(nil)))
		}
		waiting, results := flood(t, v, unknown)
		if waiting > 64 {
			t.Errorf("%d tokens wait", waiting)
		}
		wantResults(t, results, 1000-waiting, verify.ErrKeysUnavailable)
		if _, err := v.Verify(t.Context(), r.token(nil)); err != nil {
			t.Errorf("a token with a known key: %v", err)
		}
		release()
		wantResults(t, results, waiting, verify.ErrSignature)
		// Nothing waits any more.
		ahead.Store(int64(10 * time.Second))
		handler, release = held(keys)
		r.respond("/acme/oauth2/jwks", handler)
		if waiting, results = flood(t, v, unknown[:64]); waiting != 64 {
			t.Errorf("%d of 64 tokens wait", waiting)
		}
		release()
		wantResults(t, results, 64, verify.ErrSignature)
	})
}

// TestManyTokensWaitForTheFirstKeys checks that a verifier without current keys rejects no valid tokens under
// load, but that there is a limit, because anyone can send tokens.
func TestManyTokensWaitForTheFirstKeys(t *testing.T) {
	for name, test := range map[string]struct {
		lazy bool
		idle time.Duration
	}{"at the start": {lazy: true}, "not in use": {idle: time.Hour}, "keys too old": {idle: 25 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealm(t)
				var ahead atomic.Int64 // nanoseconds
				v := r.verifier(func(o *verify.Options) {
					o.Lazy = test.lazy
					o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				})
				ahead.Store(int64(test.idle))
				handler, release := held(r.responses["/acme/oauth2/jwks"])
				r.respond("/acme/oauth2/jwks", handler)
				token := r.token(object{"exp": time.Now().Add(test.idle + time.Hour).Unix()})
				waiting, results := flood(t, v, slices.Repeat([]string{token}, 1024))
				if waiting != 1024 {
					t.Errorf("%d of 1024 tokens wait", waiting)
				}
				more, rejected := flood(t, v, slices.Repeat([]string{token}, 1000))
				if more != 0 {
					t.Errorf("%d more tokens wait", more)
				}
				wantResults(t, rejected, 1000-more, verify.ErrKeysUnavailable)
				release()
				wantResults(t, results, 1024, nil)
			})
		})
	}
}

// TestKeysRemainIfTheIssuerIsUnavailable checks that known keys are used, without waiting for the issuer.
func TestKeysRemainIfTheIssuerIsUnavailable(t *testing.T) {
	for name, response := range map[string]http.HandlerFunc{
		"error": unavailable, "no response": hang,
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) },
		"endless":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 300<<10))) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/jwks", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealm(t)
				r.respond("/jwks", r.responses["/acme/oauth2/jwks"])
				v := r.verifier(nil)
				r.respond("/acme/oauth2/jwks", response)
				unknown := sign(t, r.key().Key, r.header(object{"kid": "x"}), r.claims(object{"exp": time.Now().Add(24 * time.Hour).Unix()}))
				for range 60 {
					time.Sleep(time.Minute)
					start := time.Now()
					if _, err := v.Verify(t.Context(), r.token(nil)); err != nil || time.Since(start) != 0 {
						t.Fatalf("after %s: %v", time.Since(start), err)
					}
				}
				if _, err := v.Verify(t.Context(), unknown); !errors.Is(err, verify.ErrKeysUnavailable) {
					t.Error(err)
				}
			})
		})
	}
}

// TestKeysExpire checks that a verifier stops trusting keys that it couldn't load for a day, because the realm may
// have removed them.
func TestKeysExpire(t *testing.T) {
	const day = 24 * time.Hour
	never := func(time.Duration) bool { return false }
	for name, test := range map[string]struct {
		pause     time.Duration            // between tokens
		available func(time.Duration) bool // whether the issuer is available so long after the start
		expires   time.Duration
	}{
		"in use":           {5 * time.Minute, never, day},
		"not in use":       {time.Hour, never, day},
		"rarely available": {5 * time.Minute, func(since time.Duration) bool { return since%(day-time.Hour) < 10*time.Minute }, 1000 * day},
	} {
		for failure, response := range map[string]http.HandlerFunc{"error": unavailable, "no response": hang} {
			t.Run(name+", "+failure, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRealm(t)
					keys := r.responses["/acme/oauth2/jwks"]
					v := r.verifier(nil)
					start := time.Now()
					r.respond("/acme/oauth2/jwks", func(w http.ResponseWriter, request *http.Request) {
						if test.available(time.Since(start)) {
							keys(w, request)
							return
						}
						response(w, request)
					})
					token := r.token(object{"exp": start.Add(1000 * time.Hour).Unix()})
					for time.Since(start) < 2*day {
						time.Sleep(test.pause)
						var want error
						if time.Since(start) >= test.expires {
							want = verify.ErrKeysUnavailable
						}
						if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) {
							t.Fatalf("after %s: got %v, want %v", time.Since(start), err, want)
						}
					}
					r.respond("/acme/oauth2/jwks", keys)
					time.Sleep(5 * time.Second)
					if _, err := v.Verify(t.Context(), token); err != nil {
						t.Errorf("after the outage: %v", err)
					}
				})
			})
		}
	}
}

// TestLazy checks that a verifier starts without the issuer, and recovers.
func TestLazy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		keys := r.responses["/acme/oauth2/jwks"]
		r.respond("/acme/oauth2/jwks", hang)
		if _, err := verify.New(t.Context(), issuer, verify.Options{Audience: audience, Client: &http.Client{Transport: r}}); !errors.Is(err, verify.ErrKeysUnavailable) {
			t.Error(err)
		}
		v := r.verifier(func(o *verify.Options) { o.Lazy = true })
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := v.Verify(short, r.token(nil)); !errors.Is(err, verify.ErrKeysUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		if _, err := v.Verify(t.Context(), r.token(nil)); !errors.Is(err, verify.ErrKeysUnavailable) || time.Since(start) != 5*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		r.respond("/acme/oauth2/jwks", keys)
		if _, err := v.Verify(t.Context(), r.token(nil)); err != nil {
			t.Error(err)
		}
	})
}

// TestClose checks that Close stops a load and what waits for it, and that known keys and lists remain.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRealm(t)
		r.publish(r.list(r.listClaims(nil)))
		v := r.verifier(nil)
		if _, err := v.Verify(t.Context(), r.token(status(7))); err != nil {
			t.Error(err)
		}
		r.respond("/acme/oauth2/jwks", hang)
		ended := false
		r.respond(listPath, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second)
			ended = true
		})
		time.Sleep(12 * time.Second)
		done := make(chan error)
		go func() {
			_, err := v.Verify(t.Context(), sign(t, r.key().Key, r.header(object{"kid": "x"}), r.claims(nil)))
			done <- err
		}()
		synctest.Wait()
		v.Close()
		v.Close()
		if !ended {
			t.Error("Close did not wait")
		}
		if err := <-done; !errors.Is(err, verify.ErrKeysUnavailable) {
			t.Error(err)
		}
		if _, err := v.Verify(t.Context(), r.token(status(7))); err != nil {
			t.Error(err)
		}
	})
}

func TestNow(t *testing.T) {
	r := newRealm(t)
	ahead := time.Hour
	v := r.verifier(func(o *verify.Options) {
		o.Now = func() time.Time { return time.Now().Add(ahead) }
	})
	token := r.token(nil)
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrExpired) {
		t.Error(err)
	}
	// After the clock was set back, the age of the keys is unknown.
	ahead = 0
	r.replaceKeys()
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, verify.ErrSignature) {
		t.Error(err)
	}
}

// BenchmarkVerify measures the first verification of a token with an ES256 key, without and with an entry in the
// largest list.
func BenchmarkVerify(b *testing.B) {
	r := newRealm(b)
	r.publish(r.list(r.listClaims(object{"status_list": object{"bits": 1, "lst": deflate(make([]byte, 1<<17))}})))
	v := r.verifier(nil)
	v.RememberNothing()
	for _, test := range []struct {
		name    string
		changes object
	}{{"without status", nil}, {"with status", status(1<<20 - 1)}} {
		token := r.token(test.changes)
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// newFixedRealm returns a realm with the same key in each process, because the fuzzer runs several, and a time.
func newFixedRealm(f *testing.F) (*realm, time.Time) {
	r := newRealm(f)
	seed := sha256.Sum256([]byte("realm"))
	r.addKey(jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(seed[:]), KeyID: "key", Algorithm: string(jose.EdDSA), Use: "sig"})
	return r, time.Unix(1795746250, 0)
}

// fixedTimes are claims that are otherwise different each time.
func fixedTimes(now time.Time) object {
	return object{"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": "id"}
}

// FuzzToken checks that only the tokens that the realm signed are accepted.
func FuzzToken(f *testing.F) {
	r, now := newFixedRealm(f)
	v := r.verifier(func(o *verify.Options) { o.Now = func() time.Time { return now } })
	signed := map[string]bool{}
	for _, token := range []string{r.token(fixedTimes(now)), r.token(fixedTimes(now).with(object{"aud": []string{audience}}))} {
		signed[token] = true
		f.Add(token)
	}
	for _, other := range []string{"", "..", "e30.e30.", r.list(r.listClaims(fixedTimes(now))), r.token(fixedTimes(now).with(object{"aud": "x"}))} {
		f.Add(other)
	}
	f.Fuzz(func(t *testing.T, token string) {
		claims, err := v.Verify(t.Context(), token)
		if (err == nil) != signed[token] || (err == nil) != (claims != nil) {
			t.Fatalf("%s: %v, %v", token, claims, err)
		}
		if verify.Reason(err) == "error" {
			t.Fatalf("no reason for %v", err)
		}
	})
}

// FuzzClaims checks that signed claims are accepted only if they have what an API relies on.
func FuzzClaims(f *testing.F) {
	r, now := newFixedRealm(f)
	r.publish(r.list(r.listClaims(fixedTimes(now), 7)))
	v := r.verifier(func(o *verify.Options) { o.Now = func() time.Time { return now } })
	for _, changes := range []object{nil, status(6), status(7), {"aud": []string{audience}}, {"act": object{"act": object{}}}, {"cnf": object{}}} {
		f.Add(encode(f, r.claims(fixedTimes(now).with(changes))))
	}
	key, header := r.key().Key, r.header(nil)
	f.Fuzz(func(t *testing.T, payload []byte) {
		claims, err := v.Verify(t.Context(), signPayload(t, key, header, payload))
		if err == nil && (claims.Subject == "" || claims.Subject != claims.ClientID || claims.ID == "" || claims.JKT != "" || len(claims.Actors) > 0 ||
			!claims.HasAudience(audience) || !now.Before(claims.ExpiresAt)) {
			t.Fatalf("accepted %s", payload)
		}
		if verify.Reason(err) == "error" {
			t.Fatalf("no reason for %v", err)
		}
	})
}
