package interop_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// signer is a client that authenticates with signed assertions instead of a client secret
// (RFC 7523).
type signer struct {
	id, issuer string
	key        jose.JSONWebKey
}

func (i *installation) newSigner(t *testing.T) *signer {
	t.Helper()
	key, public := newKey(t)
	c := install.ApiClient(i.client.Namespace, "ledger", i.realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes = []string{scope}
		c.Spec.PublicKeys = []v1beta1.PublicKey{public}
	})
	i.inst.Create(t, c)
	i.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	return &signer{id: c.Status.ClientID, issuer: i.issuer, key: key}
}

// newKey returns a private key and the public key for the spec of an ApiClient.
func newKey(t *testing.T) (jose.JSONWebKey, v1beta1.PublicKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	const id = "2026-11"
	return jose.JSONWebKey{Key: key, KeyID: id}, v1beta1.PublicKey{KeyID: id, PEM: v1beta1.PEMPublicKey(block)}
}

// private returns the private key as a JSON Web Key.
func (s *signer) private(t *testing.T) string {
	t.Helper()
	data, err := s.key.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// assertion returns a new assertion, because each one is valid for only one request.
func (s *signer) assertion(t *testing.T) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	assertion, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: s.id, Subject: s.id, Audience: jwt.Audience{s.issuer}, ID: rand.Text(), Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return assertion
}

// testGoAssertion checks that x/oauth2 can authenticate with a client assertion.
func testGoAssertion(t *testing.T, i *installation) {
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, i.httpClient(t))
	config := clientcredentials.Config{
		ClientID: i.signer.id, TokenURL: i.tokenURL, AuthStyle: oauth2.AuthStyleInParams,
		EndpointParams: url.Values{
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"client_assertion":      {i.signer.assertion(t)},
		},
	}
	if token, err := config.Token(ctx); err != nil || token.Extra("scope") != scope {
		t.Errorf("token request returned %v, %v, want a token with the scope %s", token, err, scope)
	}
	if _, err := config.Token(ctx); err == nil {
		t.Error("the token server accepted an assertion twice")
	}
}
