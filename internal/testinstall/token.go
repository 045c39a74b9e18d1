package testinstall

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
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
	url := string(data[v1alpha1.SecretKeyTokenURL]) + "?grant_type=client_credentials"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		return TokenAnswer{}, err
	}
	req.SetBasicAuth(string(data[v1alpha1.SecretKeyClientID]), string(data[v1alpha1.SecretKeyClientSecret]))
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
