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

// report is what a load prints when it ends, a line of JSON.
type report struct {
	// Requests are those that were answered or failed.
	Requests int `json:"requests"`
	// OnNewConnections are how many of them had a connection of their own.
	OnNewConnections int `json:"onNewConnections"`
	// Failed are those without a token.
	Failed int `json:"failed"`
	// Errors are the first few of them, with the time.
	Errors []string `json:"errors,omitempty"`
	// Certificates are how many serving certificates were seen.
	Certificates int `json:"certificates"`
}

const (
	maxErrors = 10
	// keptAlive is how many connections each of HTTP/1.1 and HTTP/2 has. Beside them one
	// worker makes a new connection for each request.
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

// load asks for tokens on connections that are kept alive, by HTTP/1.1 and HTTP/2, and on
// new ones, until ctx ends. It prints when it has made enough requests, and when it meets
// a serving certificate that it hasn't seen.
func load(ctx context.Context, flags *flag.FlagSet, args []string) error {
	directory := flags.String("credentials", "/credentials", "the `directory` at which the client's Secret is mounted")
	address := flags.String("address", "", "connect to this `host:port` instead of the token URL's")
	perSecond := flags.Float64("rate", 2000, "token requests a second, at most")
	enough := flags.Int("enough", 100_000, "how many `requests` to make before saying so")
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
	fmt.Println("runs")
	running.Wait()
	l.report.Certificates = len(l.certificates)
	return json.NewEncoder(os.Stdout).Encode(l.report)
}

// client returns a client with connections of its own.
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
		// A request that has begun is ended in good order: the load's end is no failure.
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
	answer, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &token); err != nil || token.AccessToken == "" {
		return fmt.Errorf("%w: %s", errNoToken, answer.Status)
	}
	l.see(answer.TLS.PeerCertificates[0].SerialNumber.String())
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
