package honest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

var errNoToken = errors.New("the response has no token")

// Tokens returns calls that request a token with a client secret.
func Tokens(endpoint, id, secret string) Call {
	return func(ctx context.Context, client *http.Client, _ int) error {
		_, err := Token(ctx, client, endpoint, id, secret, "")
		return err
	}
}

// CheckedTokens returns calls that request a token, and ask the verify endpoint about it.
func CheckedTokens(endpoint, verifyEndpoint, id, secret string) Call {
	return func(ctx context.Context, client *http.Client, _ int) error {
		token, err := Token(ctx, client, endpoint, id, secret, "")
		if err != nil {
			return err
		}
		return Verify(ctx, client, verifyEndpoint, token)
	}
}

// Token requests a token with a client secret. Without a scope, it has all scopes of the client.
func Token(ctx context.Context, client *http.Client, endpoint, id, secret, scope string) (string, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if scope != "" {
		form.Set("scope", scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	body, err := do(client, req)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
		return "", errNoToken
	}
	return answer.Token, nil
}

// Verify asks the verify endpoint whether a token is valid.
func Verify(ctx context.Context, client *http.Client, endpoint, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	_, err = do(client, req)
	return err
}

// Pages returns calls that get the given pages in turn.
func Pages(base string, paths ...string) Call {
	return func(ctx context.Context, client *http.Client, number int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+paths[number/2%len(paths)], http.NoBody)
		if err != nil {
			return err
		}
		_, err = do(client, req)
		return err
	}
}

func do(client *http.Client, req *http.Request) ([]byte, error) {
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, StatusError(response.StatusCode)
	}
	return body, nil
}
