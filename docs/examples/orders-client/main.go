// Command orders-client calls an API with the access tokens of an ApiClient, whose credentials Secret
// is mounted in its Pod.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

func main() {
	directory := flag.String("credentials", "/var/run/secrets/realmkeeper", "`Directory` in which the credentials Secret is mounted")
	url := flag.String("url", "", "`URL` to call")
	once := flag.Bool("once", false, "Call the URL once instead of every 5 seconds")
	flag.Parse()
	log.SetFlags(0)
	c := &caller{secret: *directory}
	for ; ; time.Sleep(5 * time.Second) {
		err := c.call(context.Background(), *url)
		if err != nil {
			log.Print(err)
		}
		if *once && err != nil {
			os.Exit(1)
		} else if *once {
			return
		}
	}
}

// caller calls an API with a token, which it replaces before it expires.
type caller struct {
	secret string
	token  *oauth2.Token
	issued time.Time
}

func (c *caller) call(ctx context.Context, url string) error {
	// Valid is false some seconds before the token expires.
	if !c.token.Valid() {
		token, err := requestToken(ctx, c.secret)
		if err != nil {
			return err
		}
		c.token, c.issued = token, time.Now()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	c.token.SetAuthHeader(request)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// The token may be revoked. But if it is new, the API probably rejects all tokens, such as because it can't
	// reach the issuer.
	if response.StatusCode == http.StatusUnauthorized && time.Since(c.issued) > 30*time.Second {
		c.token = nil
	}
	body, err := io.ReadAll(response.Body)
	log.Printf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	return err
}

var (
	errNoCertificate = errors.New("no certificate found")
	errNoToken       = errors.New("no token")
)

// requestToken requests a token. It reads the Secret each time, because the client secret and the
// certificate authority are rotated.
func requestToken(ctx context.Context, directory string) (*oauth2.Token, error) {
	values := map[string]string{}
	for _, key := range []string{"client_id", "client_secret", "cluster_token_url", "ca.crt"} {
		value, err := os.ReadFile(filepath.Join(directory, key))
		if err != nil {
			return nil, err
		}
		values[key] = string(value)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(values["ca.crt"])) {
		return nil, fmt.Errorf("%w in ca.crt", errNoCertificate)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	config := clientcredentials.Config{
		ClientID: values["client_id"], ClientSecret: values["client_secret"],
		TokenURL: values["cluster_token_url"], AuthStyle: oauth2.AuthStyleInHeader,
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if response, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		err = fmt.Errorf("%w: %s %s", errNoToken, response.Response.Status, response.ErrorCode)
	}
	return token, err
}
