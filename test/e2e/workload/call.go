package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

var (
	errNoCA     = errors.New("no certificate in the CA file")
	errResponse = errors.New("unexpected response from the API")
)

// call calls the API without a token, which must fail, and then with a token. The token is set by
// the flag or requested with the credentials.
func call(ctx context.Context, flags *flag.FlagSet, args []string) error {
	directory := flags.String("credentials", "/credentials", "`Directory` in which the client's Secret is mounted")
	url := flags.String("url", "", "`URL` to GET")
	given := flags.String("token", "", "Access `token`; requested if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := get(ctx, http.DefaultClient, *url, http.StatusUnauthorized); err != nil {
		return fmt.Errorf("without a token: %w", err)
	}
	source, err := tokens(ctx, *directory)
	if err != nil {
		return err
	}
	if *given != "" {
		source = oauth2.StaticTokenSource(&oauth2.Token{AccessToken: *given})
	}
	if err := get(ctx, oauth2.NewClient(ctx, source), *url, http.StatusOK); err != nil {
		return fmt.Errorf("with a token: %w", err)
	}
	return nil
}

func printToken(ctx context.Context, flags *flag.FlagSet, args []string) error {
	directory := flags.String("credentials", "/credentials", "`Directory` in which the client's Secret is mounted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	source, err := tokens(ctx, *directory)
	if err != nil {
		return err
	}
	token, err := source.Token()
	if err != nil {
		return err
	}
	fmt.Println(token.AccessToken)
	return nil
}

func printFile(args []string) error {
	if len(args) != 1 {
		return errUsage
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(content)
	return err
}

func tokens(ctx context.Context, directory string) (oauth2.TokenSource, error) {
	config, httpClient, err := credentials(directory)
	if err != nil {
		return nil, err
	}
	return config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, httpClient)), nil
}

func get(ctx context.Context, httpClient *http.Client, url string, wanted int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := reach(httpClient, req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != wanted {
		return fmt.Errorf("%w: %s", errResponse, describe(response, body))
	}
	fmt.Println(describe(response, body))
	return nil
}

// reachTimeout limits how long a Service may take to become reachable.
const reachTimeout = time.Minute

// reach retries until it receives any response, because a Service becomes reachable only some time
// after its Pod is Ready.
func reach(httpClient *http.Client, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), reachTimeout)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		response, err := httpClient.Do(req)
		if err == nil {
			return response, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
		}
	}
}

// credentials reads a mounted credentials Secret. It returns the client's configuration and an HTTP
// client that trusts the token service. If the file client_assertion exists, it contains a service
// account token that is used instead of a client secret.
func credentials(directory string) (*clientcredentials.Config, *http.Client, error) {
	read := func(name string) (string, error) {
		data, err := os.ReadFile(filepath.Join(directory, name))
		return strings.TrimSpace(string(data)), err
	}
	id, idErr := read("client_id")
	url, urlErr := read("cluster_token_url")
	httpClient, trustErr := trusting(filepath.Join(directory, "ca.crt"))
	if err := errors.Join(idErr, urlErr, trustErr); err != nil {
		return nil, nil, err
	}
	if assertion, err := read("client_assertion"); err == nil {
		return &clientcredentials.Config{ClientID: id, TokenURL: url, AuthStyle: oauth2.AuthStyleInParams, EndpointParams: map[string][]string{
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"client_assertion":      {assertion},
		}}, httpClient, nil
	}
	secret, err := read("client_secret")
	if err != nil {
		return nil, nil, err
	}
	return &clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: url, AuthStyle: oauth2.AuthStyleInHeader}, httpClient, nil
}

// trusting returns an HTTP client that trusts only the CA in the given file.
func trusting(file string) (*http.Client, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: %s", errNoCA, file)
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
		},
	}, nil
}
