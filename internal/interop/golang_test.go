package interop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/testenv"
	"github.com/realmkeeper/realmkeeper/internal/testinstall"
)

// The whole way as a stranger goes it: objects in, a token by x/oauth2, its
// verification by go-oidc, which finds everything by discovery.
func TestStrangersLibrariesGetAndVerifyAToken(t *testing.T) {
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{})
	install.StartOperator(t, "")
	server := install.StartTokenServer(t)
	install.StartTokenServer(t)

	for _, algorithm := range []v1alpha1.SigningAlgorithm{
		v1alpha1.SigningAlgorithmES256, v1alpha1.SigningAlgorithmES384, v1alpha1.SigningAlgorithmEdDSA,
		v1alpha1.SigningAlgorithmRS256, v1alpha1.SigningAlgorithmPS256,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			realm := testinstall.Realm("acme-"+strings.ToLower(string(algorithm)), func(r *v1alpha1.Realm) {
				r.Spec.Signing.Algorithm = algorithm
				r.Spec.Scopes = []string{"orders:read", "orders:write"}
				r.Spec.Audiences = []string{"https://orders.example.com"}
			})
			billing := testinstall.ApiClient(env.Namespace(t), "billing", realm.Name, func(c *v1alpha1.ApiClient) {
				c.Spec.Scopes = []string{"orders:read"}
			})
			install.Create(t, realm, billing)
			install.AwaitReady(t, billing, metav1.ConditionTrue, v1alpha1.ReasonReady)
			consumer := install.ConsumerSecret(t, billing)

			ctx := context.WithValue(t.Context(), oauth2.HTTPClient, server.Client(t))
			config := clientcredentials.Config{
				ClientID:     string(consumer.Data["client_id"]),
				ClientSecret: string(consumer.Data["client_secret"]),
				TokenURL:     string(consumer.Data["token_url"]),
			}
			token, err := config.Token(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if lifetime, _ := token.Extra("expires_in").(float64); token.TokenType != "bearer" || lifetime != 3600 {
				t.Errorf("token_type %q and expires_in %v, want bearer and 3600", token.TokenType, lifetime)
			}

			provider, err := oidc.NewProvider(ctx, string(consumer.Data["issuer"]))
			if err != nil {
				t.Fatal(err)
			}
			verified, err := provider.VerifierContext(ctx, &oidc.Config{
				ClientID:             "https://orders.example.com",
				SupportedSigningAlgs: []string{string(algorithm)},
			}).Verify(ctx, token.AccessToken)
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
			if verified.Subject != config.ClientID || claims.ClientID != config.ClientID || claims.Scope != "orders:read" {
				t.Errorf("sub %q, client_id %q, scope %q", verified.Subject, claims.ClientID, claims.Scope)
			}
		})
	}
}
