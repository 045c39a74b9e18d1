package verify_test

import (
	"bytes"
	"compress/zlib"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

const (
	issuer   = "https://api.example.com/acme"
	audience = "https://orders.acme.example"
	listURI  = issuer + "/oauth2/status/1795746250"
)

// object is a JSON object. In changes, nil removes a member.
type object map[string]any

func (o object) with(changes object) object {
	all := maps.Clone(o)
	for name, value := range changes {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	return all
}

// realm is an issuer. Its handler is what a realm serves; tests change the responses.
type realm struct {
	t      testing.TB
	issuer string

	mu        sync.Mutex
	keys      []jose.JSONWebKey // the last one signs tokens
	listKeys  []jose.JSONWebKey // the last one signs lists
	responses map[string]http.HandlerFunc
	requests  map[string]int
}

// keyPairs has a key for each algorithm, because RSA keys are slow to generate.
var keyPairs = sync.OnceValue(func() map[jose.SignatureAlgorithm]crypto.Signer {
	p256, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, edwards, err3 := ed25519.GenerateKey(rand.Reader)
	rsaKey, err4 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		panic(err)
	}
	return map[jose.SignatureAlgorithm]crypto.Signer{jose.ES256: p256, jose.ES384: p384, jose.EdDSA: edwards, jose.RS256: rsaKey, jose.PS256: rsaKey}
})

func newKey(tb testing.TB) jose.JSONWebKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
}

func newRealm(tb testing.TB) *realm {
	tb.Helper()
	r := &realm{t: tb, issuer: issuer, keys: []jose.JSONWebKey{newKey(tb)}, listKeys: []jose.JSONWebKey{newKey(tb)}, responses: map[string]http.HandlerFunc{}, requests: map[string]int{}}
	r.respond("/.well-known/oauth-authorization-server/acme", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(object{"issuer": r.issuer, "jwks_uri": r.issuer + "/oauth2/jwks"})
	})
	for path, keys := range map[string]*[]jose.JSONWebKey{keysPath: &r.keys, listKeysPath: &r.listKeys} {
		r.respond(path, func(w http.ResponseWriter, _ *http.Request) {
			var public jose.JSONWebKeySet
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, key := range *keys {
				public.Keys = append(public.Keys, key.Public())
			}
			_ = json.NewEncoder(w).Encode(public)
		})
	}
	return r
}

const (
	keysPath     = "/acme/oauth2/jwks"
	listKeysPath = "/acme/oauth2/status/jwks"
)

func (r *realm) respond(path string, handler http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.responses[path] = handler
}

func (r *realm) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.requests[request.URL.Path]++
	handler, ok := r.responses[request.URL.Path]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, request)
		return
	}
	handler(w, request)
}

func (r *realm) requestsOf(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[path]
}

// RoundTrip lets clients call the realm without a network, which a synctest bubble can't wait for.
func (r *realm) RoundTrip(request *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// verifier returns a verifier whose lists and keys come from the realm.
func (r *realm) verifier(change func(*verify.Options)) *verify.Verifier {
	r.t.Helper()
	options := verify.Options{Audience: audience, Client: &http.Client{Transport: r}}
	if change != nil {
		change(&options)
	}
	v, err := verify.New(r.t.Context(), r.issuer, options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(v.Close)
	return v
}

func (r *realm) key() jose.JSONWebKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[len(r.keys)-1]
}

func (r *realm) addKey(key jose.JSONWebKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, key)
}

// replaceKeys gives the realm another key, and removes the ones that it has.
func (r *realm) replaceKeys() {
	key := newKey(r.t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = []jose.JSONWebKey{key}
}

func (r *realm) header(changes object) object {
	key := r.key()
	return object{"alg": key.Algorithm, "kid": key.KeyID, "typ": "at+jwt"}.with(changes)
}

func (r *realm) claims(changes object) object {
	now := time.Now()
	return object{
		"iss": r.issuer, "sub": "acme-apps.billing", "client_id": "acme-apps.billing", "client_uid": "b242a1ba", "aud": audience,
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "jti": rand.Text(), "scope": "orders.read orders.write",
	}.with(changes)
}

// token returns a token with the given changes of its claims.
func (r *realm) token(changes object) string {
	return sign(r.t, r.key().Key, r.header(nil), r.claims(changes))
}

// status returns the claim of a token with an entry in a list.
func status(index any) object {
	return object{"status": object{"status_list": object{"uri": listURI, "idx": index}}}
}

// listClaims returns the claims of a list with 1024 entries, of which those given are INVALID.
func (r *realm) listClaims(changes object, revoked ...int) object {
	bits := make([]byte, 128)
	for _, index := range revoked {
		bits[index/8] |= 1 << (index % 8)
	}
	now := time.Now()
	return object{
		"iss": r.issuer, "sub": listURI, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "ttl": 10,
		"status_list": object{"bits": 1, "lst": deflate(bits)},
	}.with(changes)
}

func (r *realm) list(claims object) string { return sign(r.t, r.listKey().Key, r.listHeader(), claims) }

func (r *realm) listKey() jose.JSONWebKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listKeys[len(r.listKeys)-1]
}

func (r *realm) listHeader() object {
	key := r.listKey()
	return object{"alg": key.Algorithm, "kid": key.KeyID, "typ": "statuslist+jwt"}
}

// publish serves a list at the path of listURI.
func (r *realm) publish(list string) { r.publishAt(listPath, list) }

func (r *realm) publishAt(path, list string) {
	r.respond(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		_, _ = w.Write([]byte(list))
	})
}

const listPath = "/acme/oauth2/status/1795746250"

func deflate(bits []byte) string {
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	_, _ = w.Write(bits)
	_ = w.Close()
	return base64.RawURLEncoding.EncodeToString(compressed.Bytes())
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// sign signs any header and claims. The algorithm is the one of the key, or HS256 with []byte.
func sign(tb testing.TB, key any, header, claims object) string {
	tb.Helper()
	return signPayload(tb, key, header, encode(tb, claims))
}

func signPayload(tb testing.TB, key any, header object, payload []byte) string {
	tb.Helper()
	input := base64.RawURLEncoding.EncodeToString(encode(tb, header)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature(tb, key, header["alg"], []byte(input)))
}

// signature returns a signature with the algorithm of the key, or HS256 if the key is a []byte.
func signature(tb testing.TB, key, algorithm any, input []byte) []byte {
	tb.Helper()
	hash := crypto.SHA256
	if ec, ok := key.(*ecdsa.PrivateKey); ok && ec.Curve == elliptic.P384() {
		hash = crypto.SHA384
	}
	digest := hash.New()
	digest.Write(input)
	sum := digest.Sum(nil)
	var signature []byte
	var err error
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		var r, s *big.Int
		r, s, err = ecdsa.Sign(rand.Reader, key, sum)
		signature = append(r.FillBytes(make([]byte, hash.Size())), s.FillBytes(make([]byte, hash.Size()))...)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, input)
	case *rsa.PrivateKey:
		var options crypto.SignerOpts = hash
		if fmt.Sprint(algorithm) == "PS256" {
			options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		signature, err = key.Sign(rand.Reader, sum, options)
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write(input)
		signature = mac.Sum(nil)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return signature
}

func encode(tb testing.TB, value object) []byte {
	tb.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func decode(tb testing.TB, data []byte) object {
	tb.Helper()
	var value object
	if err := json.Unmarshal(data, &value); err != nil {
		tb.Fatal(err)
	}
	return value
}
