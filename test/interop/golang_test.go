package interop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

var algorithms = []v1beta1.SigningAlgorithm{
	v1beta1.SigningAlgorithmES256, v1beta1.SigningAlgorithmES384, v1beta1.SigningAlgorithmEdDSA,
	v1beta1.SigningAlgorithmRS256, v1beta1.SigningAlgorithmPS256,
}

// testEveryAlgorithm creates a realm and a client for each signing algorithm, requests a token with
// x/oauth2, and verifies it with go-oidc. go-oidc is configured only with the issuer.
func testEveryAlgorithm(t *testing.T, i *installation) {
	team := i.cluster.Namespace(t)
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			name := "acme-" + strings.ToLower(string(algorithm))
			realm := install.Realm(name, func(r *v1beta1.Realm) {
				r.Spec.Signing.Algorithm = algorithm
				r.Spec.Scopes = []string{scope, "orders.write"}
				r.Spec.Audiences = []string{audience}
			})
			c := install.ApiClient(team, name, realm.Name, func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{scope} })
			i.inst.Create(t, realm, c)
			credentials := i.awaitReady(t, c)
			ctx := context.WithValue(t.Context(), oauth2.HTTPClient, i.server.Client(t))
			token := goToken(ctx, t, credentials)
			if lifetime, _ := token.Extra("expires_in").(float64); token.TokenType != "bearer" || lifetime != 3600 {
				t.Errorf("token_type %q and expires_in %v, want bearer and 3600", token.TokenType, lifetime)
			}
			goVerify(ctx, t, goVerifier(ctx, t, credentials, algorithm), credentials, token)
		})
	}
}

// testAlgorithmChange checks that a verifier of go-oidc accepts tokens after the realm has changed its algorithm. It
// is configured only with the issuer and the audience, and loads the metadata once, when it starts.
func testAlgorithmChange(t *testing.T, i *installation) {
	realm := install.Realm("algorithm-change", func(r *v1beta1.Realm) {
		r.Spec.Scopes, r.Spec.Audiences, r.Spec.Signing = i.realm.Spec.Scopes, i.realm.Spec.Audiences, i.realm.Spec.Signing
	})
	c := install.ApiClient(i.cluster.Namespace(t), "billing", realm.Name, func(c *v1beta1.ApiClient) { c.Spec.Scopes = []string{scope} })
	i.inst.Create(t, realm, c)
	credentials := i.awaitReady(t, c)
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, i.server.Client(t))
	provider, err := oidc.NewProvider(ctx, string(credentials.Data["issuer"]))
	if err != nil {
		t.Fatal(err)
	}
	verifier := provider.VerifierContext(ctx, &oidc.Config{ClientID: audience})
	goVerify(ctx, t, verifier, credentials, goToken(ctx, t, credentials))

	install.Change(t, i.inst, realm, func(r *v1beta1.Realm) { r.Spec.Signing.Algorithm = v1beta1.SigningAlgorithmEdDSA })
	var token *oauth2.Token
	install.Eventually(t, "tokens with the new algorithm", func() error {
		token = goToken(ctx, t, credentials)
		_, err := jwt.ParseSigned(token.AccessToken, []jose.SignatureAlgorithm{jose.EdDSA})
		return err
	})
	goVerify(ctx, t, verifier, credentials, token)
}

// goOIDC checks tokens with a verifier of go-oidc.
func goOIDC(t *testing.T, i *installation) func(*testing.T, string) {
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, i.server.Client(t))
	credentials := i.inst.CredentialsSecret(t, i.client)
	verifier := goVerifier(ctx, t, credentials, v1beta1.SigningAlgorithmES256)
	return func(t *testing.T, token string) {
		goVerify(ctx, t, verifier, credentials, &oauth2.Token{AccessToken: token})
	}
}

func goToken(ctx context.Context, t *testing.T, credentials *corev1.Secret) *oauth2.Token {
	t.Helper()
	config := clientcredentials.Config{
		ClientID:     string(credentials.Data["client_id"]),
		ClientSecret: string(credentials.Data["client_secret"]),
		TokenURL:     string(credentials.Data["token_url"]),
	}
	token, err := config.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func goVerifier(ctx context.Context, t *testing.T, credentials *corev1.Secret, algorithm v1beta1.SigningAlgorithm) *oidc.IDTokenVerifier {
	t.Helper()
	provider, err := oidc.NewProvider(ctx, string(credentials.Data["issuer"]))
	if err != nil {
		t.Fatal(err)
	}
	return provider.VerifierContext(ctx, &oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{string(algorithm)}})
}

func goVerify(ctx context.Context, t *testing.T, verifier *oidc.IDTokenVerifier, credentials *corev1.Secret, token *oauth2.Token) {
	t.Helper()
	verified, err := verifier.Verify(ctx, token.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		ClientID string `json:"client_id"`
		Scope    string `json:"scope"`
	}
	if err := verified.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if id := string(credentials.Data["client_id"]); verified.Subject != id || claims.ClientID != id || claims.Scope != scope {
		t.Errorf("token has sub %q, client_id %q, scope %q, want the client ID %q and the scope %q",
			verified.Subject, claims.ClientID, claims.Scope, id, scope)
	}
}
