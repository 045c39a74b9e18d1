package jws_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/jws"
)

func TestParse(t *testing.T) {
	const payload, signature = `{"a":1}`, "signature"
	compact := func(header string) string { return encode(header) + "." + encode(payload) + "." + encode(signature) }
	for name, tc := range map[string]struct {
		compact string
		want    jws.JWT
		wantErr error
	}{
		"all parameters":            {compact: compact(`{"alg":"RS256","kid":"a","typ":"JWT","jwk":{"kty":"EC"}}`), want: jws.JWT{Algorithm: "RS256", KeyID: "a", Type: "jwt", Key: []byte(`{"kty":"EC"}`)}},
		"media type":                {compact: compact(`{"alg":"ES256","typ":"Application/DPoP+JWT"}`), want: jws.JWT{Algorithm: "ES256", Type: "dpop+jwt"}},
		"newer name of EdDSA":       {compact: compact(`{"alg":"Ed25519"}`), want: jws.JWT{Algorithm: "EdDSA"}},
		"alg in another case":       {compact: compact(`{"ALG":"ES256"}`), wantErr: jws.ErrMalformed},
		"no alg":                    {compact: compact(`{"typ":"JWT"}`), wantErr: jws.ErrMalformed},
		"crit":                      {compact: compact(`{"alg":"ES256","crit":["b64"]}`), wantErr: jws.ErrCritical},
		"header is no object":       {compact: compact(`[]`), wantErr: jws.ErrMalformed},
		"line break":                {compact: compact(`{"alg":"ES256"}`) + "\n", wantErr: jws.ErrMalformed},
		"padding":                   {compact: compact(`{"alg":"ES256"}`) + "=", wantErr: jws.ErrMalformed},
		"bits after the last octet": {compact: encode(`{"alg":"ES256"}`) + ".." + "AB", wantErr: jws.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := jws.Parse(tc.compact)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if err != nil {
				return
			}
			if got.Algorithm != tc.want.Algorithm || got.KeyID != tc.want.KeyID || got.Type != tc.want.Type || !bytes.Equal(got.Key, tc.want.Key) || string(got.Payload) != payload {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Libraries that follow RFC 9864 sign with "Ed25519", and older ones with "EdDSA". Both use the same
// keys.
func TestVerify(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := testkit.Value(json.Marshal(jose.JSONWebKey{Key: public}))(t)
	key := testkit.Value(signingkey.ParsePublicKey(jwk))(t)
	for algorithm, want := range map[string]error{"EdDSA": nil, "Ed25519": nil, "ES256": jws.ErrKey, "Ed448": jws.ErrKey, "none": jws.ErrKey} {
		input := encode(`{"alg":"`+algorithm+`"}`) + "." + encode("{}")
		signature := ed25519.Sign(private, []byte(input))
		parsed := testkit.Value(jws.Parse(input + "." + encode(string(signature))))(t)
		testkit.Diff(t, algorithm, want, parsed.Verify(key), cmpopts.EquateErrors())
		signature[0] ^= 1
		changed := testkit.Value(jws.Parse(input + "." + encode(string(signature))))(t)
		if want == nil {
			want = jws.ErrSignature
		}
		if err := changed.Verify(key); !errors.Is(err, want) {
			t.Errorf("%s with another signature: error %v, want %v", algorithm, err, want)
		}
	}
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
