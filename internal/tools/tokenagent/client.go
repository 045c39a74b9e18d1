package tokenagent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Client requests tokens. It authenticates with a client secret or with a service account token. Both can change at
// any time, so it reads all files for each request.
type Client struct {
	// CredentialsDir is where a credentials Secret is mounted.
	CredentialsDir string
	// ServiceAccountTokenFile is a projected service account token, instead of CredentialsDir. ClientID is optional
	// with it.
	ServiceAccountTokenFile, ClientID string
	// TokenURL and CAFile are required only if CredentialsDir has no such files and, for CAFile, if the system
	// doesn't trust the token endpoint.
	TokenURL, CAFile string
	// Scope and Audience are separated by spaces. If empty, the token has all of the client.
	Scope, Audience string
}

// Token is an access token.
type Token struct {
	Value    string
	Expires  time.Time
	Lifetime time.Duration
}

// requestTimeout limits each token request.
const requestTimeout = 10 * time.Second

// maxLifetime limits expires_in, so that no mistake of a server can stop renewals.
const maxLifetime = 24 * time.Hour

// Request requests a token. Its errors are one line, and contain neither a secret nor a token.
func (c *Client) Request(ctx context.Context) (Token, error) {
	from, err := c.readCredentials()
	if err != nil {
		return Token{}, err
	}
	config := clientcredentials.Config{
		ClientID: from.clientID, ClientSecret: from.secret, TokenURL: from.tokenURL,
		AuthStyle: oauth2.AuthStyleInHeader, Scopes: strings.Fields(c.Scope), EndpointParams: url.Values{},
	}
	if from.assertion != "" { // RFC 7523, section 2.2
		config.AuthStyle = oauth2.AuthStyleInParams
		config.EndpointParams.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		config.EndpointParams.Set("client_assertion", from.assertion)
	}
	if c.Audience != "" {
		config.EndpointParams.Set("audience", c.Audience)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	started := time.Now()
	issued, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, newHTTPClient(from.authorities)))
	if err != nil {
		return Token{}, from.describe(ctx, err)
	}
	lifetime := min(time.Until(issued.Expiry).Round(time.Second), maxLifetime)
	switch {
	case !validToken(issued.AccessToken):
		return Token{}, fail(codeResponse, nil, "%s returned a token with characters that RFC 6750 does not allow: check the token URL", from.endpoint())
	case !strings.EqualFold(issued.Type(), "Bearer"):
		return Token{}, fail(codeResponse, nil, "%s returned a token whose token_type is not Bearer: check the token URL", from.endpoint())
	case issued.Expiry.IsZero() || lifetime <= 0:
		return Token{}, fail(codeResponse, nil, "%s returned a token without expires_in, or with an expires_in that is not positive: check the token URL", from.endpoint())
	}
	// The lifetime began after the request was sent.
	return Token{Value: issued.AccessToken, Expires: started.Add(lifetime), Lifetime: lifetime}, nil
}

// validToken returns whether a token has the syntax b64token (RFC 6750, section 2.1). Any other text could be more
// than a token to its readers.
func validToken(token string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
	token = strings.TrimRight(token, "=")
	return token != "" && strings.TrimLeft(token, letters) == ""
}

// credentials are what the files contain at the time of a request: a secret or an assertion.
type credentials struct {
	clientID, secret, assertion string
	tokenURL                    string
	authorities                 *x509.CertPool // nil for those of the system
}

// The files of a mounted credentials Secret.
const (
	clientIDFile        = "client_id"
	clientSecretFile    = "client_secret"
	tokenURLFile        = "token_url"
	clusterTokenURLFile = "cluster_token_url"
	authoritiesFile     = "ca.crt"
)

func (c *Client) readCredentials() (from credentials, err error) {
	from.clientID, from.tokenURL = c.ClientID, c.TokenURL
	if c.ServiceAccountTokenFile != "" {
		from.assertion, err = read(c.ServiceAccountTokenFile, "mount a projected service account token there, or correct --service-account-token-file")
	} else {
		err = c.readSecret(&from)
	}
	if err != nil {
		return credentials{}, err
	}
	if err := CheckTokenURL(from.tokenURL); err != nil {
		return credentials{}, fail(codeCredentials, err, "the token URL in %s is invalid: %v", c.CredentialsDir, err)
	}
	from.authorities, err = c.readAuthorities()
	return from, err
}

func (c *Client) readSecret(from *credentials) (err error) {
	const remedy = "mount the credentials Secret of the ApiClient there, or correct --credentials-dir"
	if from.clientID, err = read(filepath.Join(c.CredentialsDir, clientIDFile), remedy); err != nil {
		return err
	}
	if from.secret, err = read(filepath.Join(c.CredentialsDir, clientSecretFile), remedy); err != nil {
		return err
	}
	if from.tokenURL != "" {
		return nil
	}
	if from.tokenURL, err = read(filepath.Join(c.CredentialsDir, clusterTokenURLFile), remedy); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from.tokenURL, err = read(filepath.Join(c.CredentialsDir, tokenURLFile), remedy)
	return err
}

// readAuthorities returns nil if there are only those of the system.
func (c *Client) readAuthorities() (*x509.CertPool, error) {
	path := c.CAFile
	if path == "" {
		if c.CredentialsDir == "" {
			return nil, nil //nolint:nilnil // No pool means that of the system.
		}
		path = filepath.Join(c.CredentialsDir, authoritiesFile)
	}
	content, err := read(path, "mount the certificate authorities there, or correct --ca-file")
	if c.CAFile == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // As above.
	}
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(content)) {
		return nil, fail(codeCredentials, nil, "%s contains no certificate in PEM format: copy ca.crt of the credentials Secret", path)
	}
	return authorities, nil
}

// read returns the content of a file without line breaks at its end, which editors and shells add.
func read(path, remedy string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fail(codeCredentials, err, "cannot read %s: %v: %s", path, withoutPath(err), remedy)
	}
	text := strings.TrimRight(string(content), "\r\n")
	if text == "" {
		return "", fail(codeCredentials, nil, "%s is empty: %s", path, remedy)
	}
	return text, nil
}

func withoutPath(err error) error {
	if in, ok := errors.AsType[*fs.PathError](err); ok {
		return in.Err
	}
	if in, ok := errors.AsType[*os.LinkError](err); ok {
		return in.Err
	}
	return err
}

var errTokenURL = errors.New("it must be an HTTPS URL without user information and fragment, such as https://api.example.com/acme/oauth2/token")

// CheckTokenURL checks a URL to which secrets are sent.
func CheckTokenURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errTokenURL
	}
	return nil
}

func newHTTPClient(authorities *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: limitedTransport{&http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			// The next request is minutes away, and can have other authorities.
			DisableKeepAlives: true,
		}},
		// Following a redirect would send the credentials to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxResponse limits the bytes of a response. The memory of a sidecar is small.
const maxResponse = 64 << 10

// limitedTransport fails to read more than maxResponse.
type limitedTransport struct{ http.RoundTripper }

func (t limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	return response, nil
}

// advice says what to do about an error of the token endpoint.
var advice = map[string]string{
	"invalid_client":          "check the client ID and secret, and that the ApiClient is Ready",
	"invalid_dpop_proof":      "bound tokens cannot be used from a file, so do not require DPoP for this client",
	"invalid_grant":           "check the service account token",
	"invalid_request":         "check --client-id and the token URL",
	"invalid_scope":           "correct --scope, or the scopes of the ApiClient",
	"invalid_target":          "correct --audience, or the audiences of the ApiClient",
	"server_error":            "see the log of the token server",
	"temporarily_unavailable": "the token server is busy or not ready, or limits the client",
	"unauthorized_client":     "check the ApiClient",
	"unsupported_grant_type":  "check the token URL",
}

// maxDescription limits what an error repeats of a response.
const maxDescription = 300

// describe returns a failed request as one line. The body of a response can be anything, even what was sent, so only
// the members of an OAuth error are used.
func (c *credentials) describe(ctx context.Context, err error) error {
	rejected, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return c.describeNoError(ctx, err)
	}
	result := &failure{code: rejected.ErrorCode, cause: err, retryAfter: parseRetryAfter(rejected.Response.Header.Get("Retry-After"))}
	status, what := rejected.Response.StatusCode, advice[rejected.ErrorCode]
	switch {
	case status == http.StatusNotFound:
		result.code, result.text = codeNotFound, "does not exist (404): check the name of the realm in the token URL"
	case what == "":
		result.code, result.text = codeResponse, fmt.Sprintf("returned status %d without an OAuth error: check the token URL, and proxies", status)
	default:
		result.text = "returned " + rejected.ErrorCode + c.quote(rejected.ErrorDescription) + ": " + what
	}
	if result.code == "invalid_client" && c.assertion != "" {
		result.text += ", that it lists the service account, and that the audience of the service account token is the issuer of the realm"
	}
	result.text = c.endpoint() + " " + result.text
	return result
}

// quote returns a description, unless it is too long or repeats what this client keeps secret.
func (c *credentials) quote(description string) string {
	description = strings.TrimSuffix(description, ".")
	basic := base64.RawStdEncoding.EncodeToString([]byte(url.QueryEscape(c.clientID) + ":" + url.QueryEscape(c.secret)))
	for _, secret := range []string{c.secret, c.assertion, basic} {
		if secret != "" && strings.Contains(description, secret) {
			return ""
		}
	}
	if description == "" || len(description) > maxDescription {
		return ""
	}
	return fmt.Sprintf(" %q", description)
}

func (c *credentials) describeNoError(ctx context.Context, err error) error {
	in, ok := errors.AsType[*url.Error](err)
	if !ok && ctx.Err() != nil { // The library doesn't wrap an error of the body.
		return fail(codeConnection, err, "no complete response from %s", c.endpoint())
	}
	if !ok {
		return fail(codeResponse, err, "%s returned something else than a token: check the token URL", c.endpoint())
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fail(codeCertificate, err, "the certificate of %s is not trusted: %v: check the host name, and ca.crt or --ca-file", c.endpoint(), in.Err)
	}
	return fail(codeConnection, err, "no response from %s: %v", c.endpoint(), in.Err)
}

// endpoint returns the token URL without its query.
func (c *credentials) endpoint() string {
	endpoint, _, _ := strings.Cut(c.tokenURL, "?")
	return endpoint
}

// parseRetryAfter returns the time to wait (RFC 9110, section 10.2.3), or zero.
func parseRetryAfter(header string) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // Out of range, it is the maximum.
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
