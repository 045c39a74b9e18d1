package install

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

// TokenAnswer is an answer of the token endpoint, good or bad.
type TokenAnswer struct {
	Status      int    `json:"-"`
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// RequestToken asks a token server in the documented way: POST with Basic credentials,
// grant_type in the query and an empty body.
func RequestToken(t testing.TB, s *TokenServer, httpClient *http.Client, consumer *corev1.Secret) (TokenAnswer, error) {
	t.Helper()
	data := consumer.Data
	endpoint := string(data[v1alpha1.SecretKeyTokenURL]) + "?grant_type=client_credentials"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, http.NoBody)
	if err != nil {
		return TokenAnswer{}, err
	}
	req.SetBasicAuth(string(data[v1alpha1.SecretKeyClientID]), string(data[v1alpha1.SecretKeyClientSecret]))
	return send(s, httpClient, req)
}

// RequestTokenByAssertion asks a token server at an endpoint with a client assertion
// (RFC 7523), and with a client id unless that is empty.
func RequestTokenByAssertion(t testing.TB, s *TokenServer, httpClient *http.Client, endpoint, clientID, assertion string) (TokenAnswer, error) {
	t.Helper()
	form := url.Values{
		"grant_type":            {"client_credentials"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		"client_assertion":      {assertion},
	}
	if clientID != "" {
		form.Set("client_id", clientID)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return TokenAnswer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(s, httpClient, req)
}

func send(s *TokenServer, httpClient *http.Client, req *http.Request) (TokenAnswer, error) {
	answer, err := httpClient.Do(req)
	if err != nil {
		return TokenAnswer{}, fmt.Errorf("asking %s for a token: %w", s.Name, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return TokenAnswer{}, err
	}
	a := TokenAnswer{Status: answer.StatusCode}
	if err := json.Unmarshal(body, &a); err != nil {
		return TokenAnswer{}, fmt.Errorf("%s answers %s, which isn't JSON: %w", s.Name, body, err)
	}
	return a, nil
}

// AwaitTokens waits until every running token server gives the client tokens (or, with
// granted false, refuses it with 401 invalid_client).
func (i *Installation) AwaitTokens(t testing.TB, consumer *corev1.Secret, granted bool) {
	t.Helper()
	for _, s := range i.servers {
		httpClient := s.Client(t)
		Eventually(t, fmt.Sprintf("%s to answer %s with granted=%t", s.Name, consumer.Data[v1alpha1.SecretKeyClientID], granted), func() error {
			a, err := RequestToken(t, s, httpClient, consumer)
			switch {
			case err != nil:
				return err
			case granted && a.Status != http.StatusOK, !granted && (a.Status != http.StatusUnauthorized || a.Error != "invalid_client"):
				return fmt.Errorf("it answers %d %s: %s", a.Status, a.Error, a.Description)
			}
			return nil
		})
	}
}

// AccessToken returns a new token of the client, from the token server that started first.
func (i *Installation) AccessToken(t testing.TB, consumer *corev1.Secret) string {
	t.Helper()
	s := i.servers[0]
	a, err := RequestToken(t, s, s.Client(t), consumer)
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("%s answers %d %s: %v", s.Name, a.Status, a.Error, err)
	}
	return a.AccessToken
}

// AwaitValid waits until every running token server takes the token of that realm for valid
// (or, with valid false, for invalid).
func (i *Installation) AwaitValid(t testing.TB, realm, token string, valid bool) {
	t.Helper()
	for _, s := range i.servers {
		Eventually(t, fmt.Sprintf("%s to take a token of %s for valid=%t", s.Name, realm, valid), func() error {
			switch status, err := i.verify(t, s, realm, token); {
			case err != nil:
				return err
			case (status == http.StatusOK) != valid:
				return fmt.Errorf("it answers %d", status)
			}
			return nil
		})
	}
}

// Valid reports whether the token server that started first takes the token of that realm for valid.
func (i *Installation) Valid(t testing.TB, realm, token string) bool {
	t.Helper()
	status, err := i.verify(t, i.servers[0], realm, token)
	if err != nil {
		t.Fatal(err)
	}
	return status == http.StatusOK
}

// verify asks as gateways do, and returns the status of the answer: 200, 401, or 404
// where there is no such realm.
func (i *Installation) verify(t testing.TB, s *TokenServer, realm, token string) (int, error) {
	url := fmt.Sprintf("https://api.%s:%d/%s%s", Domain, i.front.Number(), realm, oauth.VerificationPath)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.Client(t).Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking %s about a token: %w", s.Name, err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, nil
}
