package interop_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// testTokenURLWithQuery checks that clients whose configured token URL contains grant_type get tokens. They
// keep the query (RFC 6749 §3.2) and send grant_type in the body too.
func testTokenURLWithQuery(t *testing.T, i *installation) {
	tokenURL := i.tokenURL + "?grant_type=client_credentials"
	t.Run("x/oauth2", func(t *testing.T) {
		config := clientcredentials.Config{ClientID: i.clientID, ClientSecret: i.clientSecret, TokenURL: tokenURL, Scopes: []string{scope}}
		token, err := config.Token(context.WithValue(t.Context(), oauth2.HTTPClient, i.httpClient(t)))
		if err != nil {
			t.Fatal(err)
		}
		if granted, _ := token.Extra("scope").(string); granted != scope {
			t.Errorf("the token has the scope %q, want %q", granted, scope)
		}
	})
	values := strings.NewReplacer("$CLIENT_ID", i.clientID, "$CLIENT_SECRET", i.clientSecret, "$SCOPE", scope, "$TOKEN_URL", tokenURL, "$CA_FILE", i.authority)
	for program, configuration := range map[string]string{
		"prometheus": `
oauth2:
  client_id: $CLIENT_ID
  client_secret: $CLIENT_SECRET
  scopes: [$SCOPE]
  token_url: $TOKEN_URL
  tls_config:
    ca_file: $CA_FILE
  proxy_from_environment: true
tls_config:
  ca_file: $CA_FILE
proxy_from_environment: true
`,
		"opentelemetry-collector": `
client_id: $CLIENT_ID
client_secret: $CLIENT_SECRET
scopes: [$SCOPE]
token_url: $TOKEN_URL
tls:
  ca_file: $CA_FILE
`,
	} {
		t.Run(program, func(t *testing.T) {
			// The verify endpoint acts like an API that accepts only tokens with the scope.
			command := exec.CommandContext(t.Context(), "go", "run", "-trimpath", ".", program, i.issuer+"/oauth2/verify?scope="+scope)
			command.Dir = filepath.Join("..", "oauthclients")
			command.Env = append(os.Environ(), "CGO_ENABLED=0", "HTTPS_PROXY="+tunnelURL, "SSL_CERT_FILE="+i.authority)
			command.Stdin = strings.NewReader(values.Replace(configuration))
			var problems strings.Builder
			command.Stderr = &problems
			out, err := command.Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != "200 OK" {
				t.Errorf("the API responded %q, %v, want 200 OK\n%s", got, err, problems.String())
			}
		})
	}
}
