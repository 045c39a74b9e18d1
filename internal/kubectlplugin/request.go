package kubectlplugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// requestToken asks for a token as any library does. Its errors hold neither secret nor
// token.
func requestToken(ctx context.Context, from credentials) (*oauth2.Token, error) {
	httpClient, err := newHTTPClient(from.authority)
	if err != nil {
		return nil, err
	}
	defer httpClient.CloseIdleConnections()
	config := clientcredentials.Config{
		ClientID:     from.clientID,
		ClientSecret: from.clientSecret,
		TokenURL:     from.endpoint,
		AuthStyle:    oauth2.AuthStyleInHeader,
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, httpClient))
	if err != nil {
		return nil, refusal(from.endpoint, err)
	}
	return token, nil
}

// refusal says what the endpoint has answered, and whether that may pass: what is no
// answer of a token endpoint at all may, and these answers, which a token server gives for
// a client that it doesn't know yet as well.
func refusal(endpoint string, err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return passing{fmt.Errorf("asking %s for a token: %w", endpoint, err)}
	}
	told := fmt.Errorf("asking %s for a token: the answer is %s %s: %s",
		endpoint, answer.Response.Status, answer.ErrorCode, answer.ErrorDescription)
	if answer.ErrorCode == "" {
		told = fmt.Errorf("asking %s for a token: the answer is %s", endpoint, answer.Response.Status)
	}
	switch status := answer.Response.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusNotFound, status == http.StatusTooManyRequests,
		status >= http.StatusInternalServerError:
		return passing{told}
	}
	return told
}

// newHTTPClient trusts the system's roots and the given authority.
func newHTTPClient(authority []byte) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the authority may be all that it takes
	}
	if len(authority) > 0 && !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%w: %s holds no PEM certificate", errIncomplete, v1alpha1.SecretKeyCACrt)
	}
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DialContext:       dial,
		},
	}, nil
}

// dial takes every name under localhost for this machine, as RFC 6761 §6.3 has it and not
// every resolver does. The demo's instance domain is one.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && strings.HasSuffix(host, ".localhost") {
		address = net.JoinHostPort("localhost", port)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}
