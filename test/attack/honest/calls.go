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
		form := url.Values{"grant_type": {"client_credentials"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		body, err := do(client, req)
		if err != nil {
			return err
		}
		var answer struct {
			Token string `json:"access_token"`
		}
		if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
			return errNoToken
		}
		return nil
	}
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
