package token

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// requestTimeout limits each token request.
const requestTimeout = 10 * time.Second

// requestToken requests a token with the client credentials grant. If scope or audience is empty, the token has
// all of the client's. The errors contain neither the secret nor a token.
func requestToken(ctx context.Context, from credentials, scope, audience string) (*oauth2.Token, error) {
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
		Scopes:       strings.Fields(scope),
	}
	if audiences := strings.Fields(audience); len(audiences) > 0 {
		config.EndpointParams = url.Values{"audience": {strings.Join(audiences, " ")}}
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, httpClient))
	if err != nil {
		return nil, responseError(from.endpoint, err)
	}
	if err := checkToken(token.AccessToken); err != nil {
		return nil, fmt.Errorf("requesting a token from %s: %w", from.endpoint, err)
	}
	return token, nil
}

var errNotToken = errors.New("the response has no valid access token")

// checkToken accepts only tokens with the syntax b64token (RFC 6750, section 2.1). Any other text does
// not come from a token server, and could control the terminal.
func checkToken(token string) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
	rest := strings.TrimLeft(strings.TrimRight(token, "="), letters)
	if rest == "" {
		return nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return fmt.Errorf("%w: it contains the character %+q, which RFC 6750 does not allow, so the token is not printed; check that the endpoint in the credentials is the token endpoint of the realm", errNotToken, r)
}

// responseError describes a failed token request. Failures without a response are retryable.
// Responses with status 401, 404, 429 or 5xx are also retryable, because the failure may be
// temporary. For example, a token server may not have loaded the client or realm yet.
func responseError(endpoint string, err error) error {
	response, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return retryable{fmt.Errorf("requesting a token from %s: %w", endpoint, err)}
	}
	described := fmt.Errorf("requesting a token from %s: server returned %s %s: %s",
		endpoint, response.Response.Status, response.ErrorCode, response.ErrorDescription)
	if response.ErrorCode == "" {
		described = fmt.Errorf("requesting a token from %s: server returned %s", endpoint, response.Response.Status)
	}
	switch status := response.Response.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusNotFound, status == http.StatusTooManyRequests,
		status >= http.StatusInternalServerError:
		return retryable{described}
	}
	return described
}

// newHTTPClient returns a client that trusts the system's root certificates and the given
// authority.
func newHTTPClient(authority []byte) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the given authority may be sufficient
	}
	if len(authority) > 0 && !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%w: %s contains no PEM certificate", errIncomplete, v1beta1.SecretKeyCACrt)
	}
	return &http.Client{
		Timeout: requestTimeout,
		// A redirect would send the credentials elsewhere, even without TLS.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DialContext:       dial,
		},
	}, nil
}

// dial resolves every name under localhost to the loopback address, as RFC 6761, section 6.3
// requires. Some resolvers don't, and the demo uses such a name as its instance domain.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && strings.HasSuffix(host, ".localhost") {
		address = net.JoinHostPort("localhost", port)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}
