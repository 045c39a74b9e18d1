package interop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// The whole way as a stranger goes it: objects in, a token by x/oauth2, its verification by
// go-oidc, which finds everything by discovery.
func testEveryAlgorithm(t *testing.T, p *place) {
	team := p.env.Namespace(t)
	for _, algorithm := range []v1alpha1.SigningAlgorithm{
		v1alpha1.SigningAlgorithmES256, v1alpha1.SigningAlgorithmES384, v1alpha1.SigningAlgorithmEdDSA,
		v1alpha1.SigningAlgorithmRS256, v1alpha1.SigningAlgorithmPS256,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			name := "acme-" + strings.ToLower(string(algorithm))
			realm := testinstall.Realm(name, func(r *v1alpha1.Realm) {
				r.Spec.Signing.Algorithm = algorithm
				r.Spec.Scopes = []string{scope, "orders.write"}
				r.Spec.Audiences = []string{audience}
			})
			c := testinstall.ApiClient(team, name, realm.Name, func(c *v1alpha1.ApiClient) { c.Spec.Scopes = []string{scope} })
			p.install.Create(t, realm, c)
			consumer := p.ready(t, c)
			ctx := context.WithValue(t.Context(), oauth2.HTTPClient, p.server.Client(t))
			token := goToken(ctx, t, consumer)
			if lifetime, _ := token.Extra("expires_in").(float64); token.TokenType != "bearer" || lifetime != 3600 {
				t.Errorf("token_type %q and expires_in %v, want bearer and 3600", token.TokenType, lifetime)
			}
			goVerify(ctx, t, goVerifier(ctx, t, consumer, algorithm), consumer, token)
		})
	}
}

// A verifier that was made before the rotation knows the tokens from after it.
func testGoAcrossRotation(t *testing.T, p *place) {
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, p.server.Client(t))
	consumer := p.install.CredentialsSecret(t, p.client)
	verifier := goVerifier(ctx, t, consumer, v1alpha1.SigningAlgorithmES256)
	before := goToken(ctx, t, consumer)
	goVerify(ctx, t, verifier, consumer, before)
	p.rotate(t)
	goVerify(ctx, t, verifier, consumer, before)
	goVerify(ctx, t, verifier, consumer, goToken(ctx, t, consumer))
}

func goToken(ctx context.Context, t *testing.T, consumer *corev1.Secret) *oauth2.Token {
	t.Helper()
	config := clientcredentials.Config{
		ClientID:     string(consumer.Data["client_id"]),
		ClientSecret: string(consumer.Data["client_secret"]),
		TokenURL:     string(consumer.Data["token_url"]),
	}
	token, err := config.Token(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func goVerifier(ctx context.Context, t *testing.T, consumer *corev1.Secret, algorithm v1alpha1.SigningAlgorithm) *oidc.IDTokenVerifier {
	t.Helper()
	provider, err := oidc.NewProvider(ctx, string(consumer.Data["issuer"]))
	if err != nil {
		t.Fatal(err)
	}
	return provider.VerifierContext(ctx, &oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{string(algorithm)}})
}

func goVerify(ctx context.Context, t *testing.T, verifier *oidc.IDTokenVerifier, consumer *corev1.Secret, token *oauth2.Token) {
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
	if id := string(consumer.Data["client_id"]); verified.Subject != id || claims.ClientID != id || claims.Scope != scope {
		t.Errorf("sub %q, client_id %q, scope %q", verified.Subject, claims.ClientID, claims.Scope)
	}
}
