package apiclient

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/operator/acknowledgement"
	"github.com/realmkeeper/realmkeeper/internal/operator/apply"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

// These are the public keys from RFC 7517 (appendix A.1), as PEM, and RFC 8037 (appendix A.2).
var (
	onP256 = v1alpha1.PublicKey{KeyID: "b", PEM: `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMKBCTNIcKUSDii11ySs3526iDZ8A
iTo7Tu6KPAqv7D7gS2XpJFbZiItSs3m9+9Ue6GnvHw/GW2ZZaVtszggXIw==
-----END PUBLIC KEY-----
`}
	onEd25519 = v1alpha1.PublicKey{KeyID: "a", JWK: `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`}
)

// withKeys makes the given keys the only way in which the client authenticates.
func withKeys(keys ...v1alpha1.PublicKey) func(*observed) {
	return func(seen *observed) { seen.client.Spec.Secret, seen.client.Spec.PublicKeys = nil, keys }
}

// The record of a client with public keys contains them, sorted, and no secret.
func TestDecideWithPublicKeys(t *testing.T) {
	d := testkit.Value(decide(new(observe(withKeys(onP256, onEd25519), func(s *observed) { s.authority, s.authorityMissing = nil, true })), now, rand.Reader))(t)
	if d.blocked != nil || d.credentials != nil || len(d.record.Secrets) != 0 {
		t.Errorf("blocked %v, credentials Secret %v, record %+v", d.blocked, d.credentials, d.record)
	}
	var got []string
	for _, key := range d.record.PublicKeys {
		got = append(got, key.ID()+" "+string(key.Algorithm()))
	}
	testkit.Diff(t, "keys", []string{"a EdDSA", "b ES256"}, got)
	acknowledged := acknowledgement.Acknowledged
	s := status(new(observe(withKeys(onP256))), d, applied{recorded: true, state: &acknowledged}, now)
	if s.SecretName != "" || len(s.Secrets) != 0 {
		t.Errorf("status with Secret %q and secrets %v", s.SecretName, s.Secrets)
	}
}

// A client with public keys can also have a secret. When the secret is removed from the spec, it
// expires immediately and the credentials Secret is deleted.
func TestDecideWithPublicKeysAndSecret(t *testing.T) {
	seen := reconciled(t, observe(withKeys(onP256), func(s *observed) {
		s.client.Spec.Secret = &v1alpha1.ClientSecretSource{Generated: &v1alpha1.GeneratedSecret{}}
	}))
	if len(seen.current.Secrets) != 1 || len(seen.current.PublicKeys) != 1 || deliveredSecret(&seen) == "" {
		t.Fatalf("record %+v", seen.current)
	}
	seen.owned = append(seen.owned, *seen.credentials)
	seen.client.Spec.Secret = nil
	d := testkit.Value(decide(&seen, now, rand.Reader))(t)
	if len(d.record.Secrets) != 0 || d.credentials != nil || len(d.obsolete) != 1 {
		t.Errorf("record %+v, credentials Secret %v, obsolete %v", d.record, d.credentials, d.obsolete)
	}
	again := testkit.Value(decide(new(afterWrite(t, seen, d)), now, rand.Reader))(t)
	if diff := cmp.Diff(jsonOf(t, d.record), jsonOf(t, again.record)); diff != "" {
		t.Errorf("the next reconcile writes another record:\n%s", diff)
	}
}

func jsonOf(t *testing.T, v any) map[string]any {
	t.Helper()
	members := testkit.Value(apply.Convert[map[string]any](v))(t)
	return *members
}

// The message names the key and the reason, and never repeats the key.
func TestInvalidPublicKeysAreRejected(t *testing.T) {
	ed25519 := func(members string) v1alpha1.JSONWebKey {
		return v1alpha1.JSONWebKey(`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"` + members + `}`)
	}
	const rsa = `{"kty":"RSA","e":"AQAB","n":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}`
	for name, tc := range map[string]struct {
		key         v1alpha1.PublicKey
		wantMessage string
	}{
		"not on the curve": {
			v1alpha1.PublicKey{JWK: `{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4"}`},
			"it is not a JWK with valid members",
		},
		"too short":               {v1alpha1.PublicKey{JWK: rsa, Algorithm: v1alpha1.SigningAlgorithmRS256}, "RSA key of 2048 to 4096 bits"},
		"of another curve":        {v1alpha1.PublicKey{PEM: onP256.PEM, Algorithm: v1alpha1.SigningAlgorithmES384}, "algorithm not supported for this key"},
		"another kid":             {v1alpha1.PublicKey{JWK: ed25519(`,"kid":"other"`)}, "its kid differs from keyId"},
		"another alg":             {v1alpha1.PublicKey{JWK: ed25519(`,"alg":"EdDSA"`), Algorithm: v1alpha1.SigningAlgorithmES256}, "its alg differs from algorithm"},
		"for encryption":          {v1alpha1.PublicKey{JWK: ed25519(`,"use":"enc"`)}, "its use is not sig"},
		"key set":                 {v1alpha1.PublicKey{JWK: `{"keys":[` + ed25519("") + `]}`}, "it is not a JWK"},
		"PEM of something else":   {v1alpha1.PublicKey{PEM: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"}, "does not contain a public key of a supported type"},
		"private, with an escape": {v1alpha1.PublicKey{JWK: ed25519(`,"\u0064":"canary"`)}, "is a private key. Treat it as compromised"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.key.KeyID = "c"
			got := accepted(new(observe(withKeys(onEd25519, tc.key))))
			if got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonPublicKeyNotSupported || !strings.Contains(got.Message, `"c"`) || !strings.Contains(got.Message, tc.wantMessage) {
				t.Errorf("%+v, want one with %q", got, tc.wantMessage)
			}
			if strings.Contains(got.Message, "canary") {
				t.Errorf("the message repeats the private key: %s", got.Message)
			}
		})
	}
}
