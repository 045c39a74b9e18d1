package trustedissuers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
)

// Limits of a fetch. A fetch is one or two requests.
const (
	fetchTimeout   = 10 * time.Second
	connectTimeout = 3 * time.Second
	maxBody        = 64 << 10
	maxHeader      = 16 << 10
)

// ErrCABundle is returned for a CA bundle without certificates.
var ErrCABundle = errors.New("caBundle must contain only certificates in PEM format")

// ParseCABundle returns the certificate authorities in a bundle, or nil, which stands for the public
// ones, if the bundle is empty. The error is ErrCABundle.
func ParseCABundle(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil //nolint:nilnil // crypto/tls uses the public authorities then.
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, ErrCABundle
	}
	return pool, nil
}

// getter sends the requests for the keys of one issuer.
type getter struct {
	issuer Issuer
	client *http.Client
}

// newGetter returns a getter that connects to local addresses only if allowLocal is set. Issuers are
// not trusted beyond their keys: they get no connection to keep, no redirect, no compression that
// expands, and no proxy, behind which addresses could not be checked.
func newGetter(issuer Issuer, allowLocal bool) (*getter, error) {
	authorities, err := ParseCABundle(issuer.CABundle)
	if err != nil {
		return nil, fmt.Errorf("issuer %q: %w", issuer.Name, err)
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	if !allowLocal {
		dialer.ControlContext = denyLocal
	}
	return &getter{issuer: issuer, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
		},
	}}, nil
}

// keys fetches the issuer's keys. The error is a FetchError.
func (g *getter) keys(ctx context.Context) ([]signingkey.PublicKey, error) {
	limited, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	location := g.issuer.JWKSURI
	if location == "" {
		metadata, err := g.get(limited, metadataURL(g.issuer.URL))
		if err != nil {
			return nil, err
		}
		if location, err = parseMetadata(metadata, g.issuer.URL); err != nil {
			return nil, err
		}
	}
	set, err := g.get(limited, location)
	if err != nil {
		return nil, err
	}
	return parseKeys(set)
}

// get returns the body of a response. The error is a FetchError.
func (g *getter) get(ctx context.Context, location string) ([]byte, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, http.NoBody)
	if err != nil {
		return nil, ErrConnection
	}
	// There is no Accept header, because the API server rejects application/json for its keys.
	request.Header.Set("User-Agent", "realmkeeper-operator")
	response, err := g.client.Do(request)
	if err != nil {
		return nil, fetchErrorOf(err, connected)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, ErrRedirect
	case response.StatusCode != http.StatusOK:
		return nil, badStatus(response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return nil, fetchErrorOf(err, true)
	}
	if len(body) > maxBody {
		return nil, ErrTooLarge
	}
	return body, nil
}
