package clients_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A client or its grant can require DPoP. Bound tokens need a proof, which each token server accepts
// once.
func testDPoP(t *testing.T, inst *install.Installation) {
	realm, c := scenario.NewClient(t, inst, "dpop")
	credentials := inst.CredentialsSecret(t, c)
	unbound := inst.AccessToken(t, credentials)
	inst.AwaitValid(t, realm.Name, unbound, true)

	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.SenderConstraint = v1alpha1.SenderConstraintDPoP })
	awaitProofRequired(t, inst, credentials, true)
	inst.AwaitValid(t, realm.Name, unbound, false)
	install.Change(t, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.SenderConstraint = "" })
	awaitProofRequired(t, inst, credentials, false)
	install.Change(t, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Grants[0].SenderConstraint = v1alpha1.SenderConstraintDPoP })
	awaitProofRequired(t, inst, credentials, true)
	inst.AwaitValid(t, realm.Name, unbound, false)
	expectBoundTokens(t, inst, credentials)
}

// expectBoundTokens checks that a token that the first token server bound to a key is valid at every
// token server with a proof by this key, and that each of them accepts a proof once.
func expectBoundTokens(t *testing.T, inst *install.Installation, credentials *corev1.Secret) {
	t.Helper()
	holder := newProofKey(t)
	endpoint := string(credentials.Data[v1alpha1.SecretKeyTokenURL])
	first := inst.Servers()[0]
	got, err := install.RequestTokenWithProof(t, first, first.Client(t), credentials, holder.sign(t, http.MethodPost, endpoint, ""))
	if err != nil || got.Status != http.StatusOK || got.TokenType != "DPoP" {
		t.Fatalf("the response to a proof is %+v, %v", got, err)
	}
	const api = "https://orders.acme.example/orders"
	call := func(s *install.TokenServer, scheme, proof string) int {
		url := string(credentials.Data[v1alpha1.SecretKeyIssuer]) + "/oauth2/verify?dpop=original"
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{
			"Authorization": {scheme + " " + got.AccessToken}, "Dpop": {proof}, "X-Original-Method": {http.MethodGet}, "X-Original-Url": {api + "?page=1"},
		}
		response, err := s.Client(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	proof := holder.sign(t, http.MethodGet, api, got.AccessToken)
	for _, s := range inst.Servers() {
		for name, tc := range map[string]struct {
			scheme, proof string
		}{
			"bound token as Bearer": {"Bearer", holder.sign(t, http.MethodGet, api, got.AccessToken)},
			"proof by another key":  {"DPoP", newProofKey(t).sign(t, http.MethodGet, api, got.AccessToken)},
			"another method":        {"DPoP", holder.sign(t, http.MethodPost, api, got.AccessToken)},
			"another URL":           {"DPoP", holder.sign(t, http.MethodGet, api+"/1", got.AccessToken)},
			"another token":         {"DPoP", holder.sign(t, http.MethodGet, api, "x")},
		} {
			if status := call(s, tc.scheme, tc.proof); status != http.StatusUnauthorized {
				t.Errorf("%s, %s: status %d, want 401", s.Name, name, status)
			}
		}
		// The servers share no memory of used proofs.
		if status := call(s, "DPoP", proof); status != http.StatusOK {
			t.Errorf("%s, first use of a proof: status %d, want 200", s.Name, status)
		}
		if status := call(s, "DPoP", proof); status != http.StatusUnauthorized {
			t.Errorf("%s, second use of a proof: status %d, want 401", s.Name, status)
		}
	}
}

// proofKey signs DPoP proofs.
type proofKey struct{ signer jose.Signer }

func newProofKey(t *testing.T) proofKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	return proofKey{signer}
}

// sign returns a new proof. If token is empty, the proof is for no access token.
func (k proofKey) sign(t *testing.T, method, url, token string) string {
	t.Helper()
	claims := map[string]any{"jti": rand.Text(), "htm": method, "htu": url, "iat": time.Now().Unix()}
	if token != "" {
		hash := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	proof, err := jwt.Signed(k.signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

var errResponse = errors.New("unexpected response")

// awaitProofRequired waits until every token server requires a proof of the client, or until none
// does.
func awaitProofRequired(t *testing.T, inst *install.Installation, credentials *corev1.Secret, required bool) {
	t.Helper()
	want := install.TokenResponse{Status: http.StatusOK}
	if required {
		want = install.TokenResponse{Status: http.StatusBadRequest, Error: "invalid_dpop_proof"}
	}
	for _, s := range inst.Servers() {
		httpClient := s.Client(t)
		install.Eventually(t, fmt.Sprintf("%s to require a proof: %t", s.Name, required), func() error {
			got, err := install.RequestToken(t, s, httpClient, credentials)
			if err == nil && (got.Status != want.Status || got.Error != want.Error) {
				err = fmt.Errorf("%w: %d %s", errResponse, got.Status, got.Error)
			}
			return err
		})
	}
}
