package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// report is the JSON line that a load prints when it stops.
type report struct {
	// Requests is the number of requests, including failed ones.
	Requests int `json:"requests"`
	// OnNewConnections is the number of requests that used a new connection.
	OnNewConnections int `json:"onNewConnections"`
	// Failed is the number of requests that got no token.
	Failed int `json:"failed"`
	// Errors contains the first few errors with timestamps.
	Errors []string `json:"errors,omitempty"`
	// Certificates is the number of different serving certificates that were seen.
	Certificates int `json:"certificates"`
}

const (
	maxErrors = 10
	// keptAlive is the number of persistent connections each for HTTP/1.1 and HTTP/2. One additional
	// worker opens a new connection for each request.
	keptAlive = 4
)

type loader struct {
	limiter *rate.Limiter
	request func(context.Context) (*http.Request, error)
	enough  int

	mu           sync.Mutex
	report       report
	certificates map[string]bool
}

// load requests tokens until ctx is done: on persistent HTTP/1.1 and HTTP/2 connections and on new
// connections. It prints a line when it has made enough requests and each time it sees a new
// serving certificate.
func load(ctx context.Context, flags *flag.FlagSet, args []string) error {
	directory := flags.String("credentials", "/credentials", "`Directory` in which the client's Secret is mounted")
	address := flags.String("address", "", "`Host:port` to connect to instead of the token URL's host")
	perSecond := flags.Float64("rate", 2000, "Maximum number of token requests per second")
	enough := flags.Int("enough", 20_000, "Number of `requests` after which to print \"enough\"")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, trusted, err := credentials(*directory)
	if err != nil {
		return err
	}
	l := &loader{limiter: rate.NewLimiter(rate.Limit(*perSecond), 1), enough: *enough, certificates: map[string]bool{}}
	l.request = func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, config.TokenURL+"?grant_type=client_credentials", http.NoBody)
		if err == nil {
			req.SetBasicAuth(config.ClientID, config.ClientSecret)
		}
		return req, err
	}
	var running sync.WaitGroup
	for range keptAlive {
		running.Go(func() { l.run(ctx, client(trusted, *address, true), false) })
		running.Go(func() { l.run(ctx, client(trusted, *address, false), false) })
	}
	running.Go(func() { l.run(ctx, client(trusted, *address, false), true) })
	fmt.Println("running")
	running.Wait()
	l.report.Certificates = len(l.certificates)
	return json.NewEncoder(os.Stdout).Encode(l.report)
}

// client returns a client with its own connections.
func client(trusted *http.Client, address string, http2 bool) *http.Client {
	transport := trusted.Transport.(*http.Transport).Clone() //nolint:forcetypeassert // By construction.
	transport.ForceAttemptHTTP2 = http2
	if !http2 {
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	if address != "" {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	}
	return &http.Client{Timeout: trusted.Timeout, Transport: transport}
}

func (l *loader) run(ctx context.Context, httpClient *http.Client, newConnections bool) {
	for l.limiter.Wait(ctx) == nil {
		// Requests that have started are finished, so that stopping the load causes no failures.
		l.count(l.ask(context.WithoutCancel(ctx), httpClient), newConnections)
		if newConnections {
			httpClient.CloseIdleConnections()
		}
	}
	httpClient.CloseIdleConnections()
}

var errNoToken = errors.New("no token")

func (l *loader) ask(ctx context.Context, httpClient *http.Client) error {
	req, err := l.request(ctx)
	if err != nil {
		return err
	}
	response, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &token); err != nil || token.AccessToken == "" {
		return fmt.Errorf("%w: %s", errNoToken, response.Status)
	}
	l.see(response.TLS.PeerCertificates[0].SerialNumber.String())
	return nil
}

func (l *loader) see(certificate string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.certificates[certificate] {
		l.certificates[certificate] = true
		fmt.Println("certificate", len(l.certificates))
	}
}

func (l *loader) count(err error, newConnection bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Requests++
	if l.report.Requests == l.enough {
		fmt.Println("enough")
	}
	if newConnection {
		l.report.OnNewConnections++
	}
	if err == nil {
		return
	}
	l.report.Failed++
	if len(l.report.Errors) < maxErrors {
		l.report.Errors = append(l.report.Errors, time.Now().UTC().Format(time.RFC3339Nano)+" "+err.Error())
	}
}
