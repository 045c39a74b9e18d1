package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// credentials holds the data that a workload reads from its ApiClient's credentials Secret.
type credentials struct {
	clientID, clientSecret    string
	tokenURL, issuer, jwksURL string
	authority                 []byte
}

func (d *demo) credentials(ctx context.Context, c *v1beta1.ApiClient) (credentials, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.Status.SecretName}
	if err := d.cluster.Get(ctx, key, secret); err != nil {
		return credentials{}, err
	}
	value := func(key string) string { return string(secret.Data[c.GeneratedSecret().DataKey(key)]) }
	return credentials{
		clientID:     value(v1beta1.SecretKeyClientID),
		clientSecret: value(v1beta1.SecretKeyClientSecret),
		tokenURL:     value(v1beta1.SecretKeyTokenURL),
		issuer:       value(v1beta1.SecretKeyIssuer),
		jwksURL:      value(v1beta1.SecretKeyJWKSURL),
		authority:    []byte(value(v1beta1.SecretKeyCACrt)),
	}, nil
}

// httpClient returns a client that trusts only the given certificate authority. It connects to
// 127.0.0.1 without resolving the host name, because not every resolver knows *.localhost.
func httpClient(authority []byte, port int) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("the credentials Secret contains no certificate authority")
	}
	return &http.Client{Timeout: grace, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, address(port))
		},
	}}, nil
}

// response is a response from the token endpoint.
type response struct {
	status string
	body   string
	token  string
}

// request requests a token as the documentation describes: a POST with HTTP Basic
// authentication, grant_type in the query, and no body.
func request(ctx context.Context, httpClient *http.Client, c credentials) (response, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.tokenURL+"?grant_type=client_credentials", http.NoBody)
	if err != nil {
		return response{}, err
	}
	post.SetBasicAuth(c.clientID, c.clientSecret)
	status, body, err := do(httpClient, post)
	if err != nil {
		return response{}, fmt.Errorf("request a token: %w", err)
	}
	var parsed struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &parsed); err != nil || parsed.AccessToken == "" {
		return response{}, fmt.Errorf("request a token: the response is %s: %s", status, body)
	}
	return response{status: status, body: strings.TrimSpace(string(body)), token: parsed.AccessToken}, nil
}

// verify verifies a token as an API would and returns its header and claims. It checks the
// signature with the published keys of the realm, then the issuer and the times.
func verify(ctx context.Context, httpClient *http.Client, c credentials, token string) (header, claims []byte, err error) {
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, c.jwksURL, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	_, body, err := do(httpClient, get)
	if err != nil {
		return nil, nil, fmt.Errorf("get the published keys: %w", err)
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(body, &keys); err != nil {
		return nil, nil, fmt.Errorf("read the published keys: %w", err)
	}
	// Accept only the algorithms of the published keys, not the one that the token names.
	var algorithms []jose.SignatureAlgorithm
	for _, key := range keys.Keys {
		algorithms = append(algorithms, jose.SignatureAlgorithm(key.Algorithm))
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, nil, fmt.Errorf("read the token: %w", err)
	}
	var registered jwt.Claims
	if err := parsed.Claims(keys, &registered); err != nil {
		return nil, nil, fmt.Errorf("verify the signature of the token: %w", err)
	}
	if err := registered.Validate(jwt.Expected{Issuer: c.issuer, Time: time.Now()}); err != nil {
		return nil, nil, fmt.Errorf("verify the claims of the token: %w", err)
	}
	parts := strings.Split(token, ".")
	header, headerErr := base64.RawURLEncoding.DecodeString(parts[0])
	claims, claimsErr := base64.RawURLEncoding.DecodeString(parts[1])
	return header, claims, errors.Join(headerErr, claimsErr)
}

func do(httpClient *http.Client, request *http.Request) (status string, body []byte, err error) {
	response, err := httpClient.Do(request)
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.Proto + " " + response.Status, body, err
}
