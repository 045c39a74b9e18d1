package install

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
)

// TokenResponse is a success or error response from the token endpoint.
type TokenResponse struct {
	Status      int    `json:"-"`
	AccessToken string `json:"access_token"`
	Scope       string `json:"scope"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// RequestToken requests a token as documented: POST with Basic credentials, grant_type in the
// query, and an empty body.
func RequestToken(t testing.TB, s *TokenServer, httpClient *http.Client, credentials *corev1.Secret) (TokenResponse, error) {
	t.Helper()
	data := credentials.Data
	endpoint := string(data[v1beta1.SecretKeyTokenURL]) + "?grant_type=client_credentials"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, http.NoBody)
	if err != nil {
		return TokenResponse{}, err
	}
	req.SetBasicAuth(string(data[v1beta1.SecretKeyClientID]), string(data[v1beta1.SecretKeyClientSecret]))
	return send(s, httpClient, req)
}

// RequestTokenByAssertion requests a token with a client assertion (RFC 7523). If clientID is
// empty, the request doesn't contain a client ID.
func RequestTokenByAssertion(t testing.TB, s *TokenServer, httpClient *http.Client, endpoint, clientID, assertion string) (TokenResponse, error) {
	t.Helper()
	return s.post(t, httpClient, endpoint, clientID, url.Values{
		"grant_type":            {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	})
}

// RequestTokenByGrant requests a token with the JWT bearer grant (RFC 7523, section 2.1). If
// clientID is empty, the request doesn't contain a client ID.
func RequestTokenByGrant(t testing.TB, s *TokenServer, httpClient *http.Client, endpoint, clientID, assertion string) (TokenResponse, error) {
	t.Helper()
	return s.post(t, httpClient, endpoint, clientID, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"assertion":  {assertion},
	})
}

// ExchangeToken requests a token that acts for the subject of an access token (RFC 8693), with Basic
// credentials.
func ExchangeToken(t testing.TB, s *TokenServer, httpClient *http.Client, credentials *corev1.Secret, subjectToken, audience string) (TokenResponse, error) {
	t.Helper()
	data := credentials.Data
	form := url.Values{
		"grant_type":         {oauth.GrantTypeTokenExchange},
		"subject_token":      {subjectToken},
		"subject_token_type": {oauth.TypeAccessToken},
		"audience":           {audience},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, string(data[v1beta1.SecretKeyTokenURL]), strings.NewReader(form.Encode()))
	if err != nil {
		return TokenResponse{}, err
	}
	req.Header.Set("Content-Type", oauth.ContentTypeForm)
	req.Header["Idempotency-Key"] = nil // as in post
	req.SetBasicAuth(string(data[v1beta1.SecretKeyClientID]), string(data[v1beta1.SecretKeyClientSecret]))
	return send(s, httpClient, req)
}

func (s *TokenServer) post(t testing.TB, httpClient *http.Client, endpoint, clientID string, form url.Values) (TokenResponse, error) {
	t.Helper()
	if clientID != "" {
		form.Set("client_id", clientID)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return TokenResponse{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// net/http repeats the request if the server was just closing the idle connection. This value is not
	// sent.
	req.Header["Idempotency-Key"] = nil
	return send(s, httpClient, req)
}

func send(s *TokenServer, httpClient *http.Client, req *http.Request) (TokenResponse, error) {
	response, err := httpClient.Do(req)
	if err != nil {
		return TokenResponse{}, fmt.Errorf("requesting a token from %s: %w", s.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return TokenResponse{}, err
	}
	a := TokenResponse{Status: response.StatusCode}
	if err := json.Unmarshal(body, &a); err != nil {
		return TokenResponse{}, fmt.Errorf("%s responded with %s, which is not JSON: %w", s.Name, body, err)
	}
	return a, nil
}

// Claims decodes the claims of a token, without verifying it.
func Claims(token string, into any) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return fmt.Errorf("%q is not a token", token)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	return json.Unmarshal(payload, into)
}

// AwaitTokens waits until every token server issues tokens to the client or, if granted is false,
// rejects it with 401 invalid_client.
func (i *Installation) AwaitTokens(t testing.TB, credentials *corev1.Secret, granted bool) {
	t.Helper()
	for _, s := range i.servers {
		httpClient := s.Client(t)
		Eventually(t, fmt.Sprintf("%s to respond to %s with granted=%t", s.Name, credentials.Data[v1beta1.SecretKeyClientID], granted), func() error {
			a, err := RequestToken(t, s, httpClient, credentials)
			switch {
			case err != nil:
				return err
			case granted && a.Status != http.StatusOK, !granted && (a.Status != http.StatusUnauthorized || a.Error != "invalid_client"):
				return fmt.Errorf("the response is %d %s: %s", a.Status, a.Error, a.Description)
			}
			return nil
		})
	}
}

// AccessToken returns a new token for the client from the first token server.
func (i *Installation) AccessToken(t testing.TB, credentials *corev1.Secret) string {
	t.Helper()
	s := i.servers[0]
	a, err := RequestToken(t, s, s.Client(t), credentials)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%s responded with %d %s: %v", s.Name, a.Status, a.Error, err)
	}
	return a.AccessToken
}

// AwaitValid waits until every token server considers the token valid or, if valid is false,
// invalid in the realm.
func (i *Installation) AwaitValid(t testing.TB, realm, token string, valid bool) {
	t.Helper()
	for _, s := range i.servers {
		Eventually(t, fmt.Sprintf("%s to report valid=%t for a token of realm %s", s.Name, valid, realm), func() error {
			switch status, err := i.verify(t, s, realm, token); {
			case err != nil:
				return err
			case (status == http.StatusOK) != valid:
				return fmt.Errorf("the status is %d", status)
			}
			return nil
		})
	}
}

// Valid reports whether the first token server considers the token valid in the realm.
func (i *Installation) Valid(t testing.TB, realm, token string) bool {
	t.Helper()
	status, err := i.verify(t, i.servers[0], realm, token)
	if err != nil {
		t.Fatal(err)
	}
	return status == http.StatusOK
}

// verify sends the same request as gateways and returns the status of the response: 200 if the
// token is valid, 401 if not, and 404 if the realm doesn't exist.
func (i *Installation) verify(t testing.TB, s *TokenServer, realm, token string) (int, error) {
	url := fmt.Sprintf("https://api.%s:%d/%s%s", Domain, i.front.Number(), realm, oauth.VerificationPath)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := s.Client(t).Do(req)
	if err != nil {
		return 0, fmt.Errorf("verifying a token at %s: %w", s.Name, err)
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}
