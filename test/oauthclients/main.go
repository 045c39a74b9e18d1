// Command oauthclients sends requests with the HTTP client of Prometheus or of the OpenTelemetry
// Collector, which gets an access token or reads one from a file. It reads the client's configuration as YAML
// from standard input and prints the status of the response. With an interval, it prints a line for each
// response or error, until it is killed.
//
// With the argument envoy, it checks messages of Envoy in standard input instead: responses of a discovery
// service, or anything with a type, as JSON.
//
// The interoperability tests use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/oauth2clientauthextension"
	"github.com/prometheus/common/config"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.uber.org/zap"
)

// timeout limits each request.
const timeout = 30 * time.Second

// transports returns the HTTP transport of a program for its configuration: http_config of Prometheus, and
// the extensions oauth2client and bearertokenauth of the OpenTelemetry Collector.
var transports = map[string]func(ctx context.Context, yaml []byte) (http.RoundTripper, error){
	"prometheus":              prometheus,
	"opentelemetry-collector": collector(oauth2clientauthextension.NewFactory()),
	"bearertokenauth":         collector(bearertokenauthextension.NewFactory()),
}

func main() {
	run := run
	if len(os.Args) == 2 && os.Args[1] == "envoy" {
		run = func(_ context.Context, _ []string, in io.Reader, _ io.Writer) error { return envoy(in) }
	}
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oauthclients:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: oauthclients prometheus|opentelemetry-collector|bearertokenauth URL [INTERVAL] < CONFIGURATION, or oauthclients envoy < MESSAGES")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 2 || len(args) > 3 || transports[args[0]] == nil {
		return errUsage
	}
	yaml, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	transport, err := transports[args[0]](ctx, yaml)
	if err != nil {
		return err
	}
	if len(args) == 2 {
		status, err := request(ctx, transport, args[1])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, status)
		return err
	}
	interval, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	for ; ; <-time.After(interval) {
		status, err := request(ctx, transport, args[1])
		if err != nil {
			status = err.Error()
		}
		if _, err := fmt.Fprintln(out, status); err != nil {
			return err
		}
	}
}

func request(ctx context.Context, transport http.RoundTripper, url string) (status string, err error) {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, response.Body) // so that the connection is reused
	return response.Status, errors.Join(err, response.Body.Close())
}

func prometheus(_ context.Context, yaml []byte) (http.RoundTripper, error) {
	c, err := config.LoadHTTPConfig(string(yaml))
	if err != nil {
		return nil, err
	}
	return config.NewRoundTripperFromConfig(*c, "test")
}

func collector(factory extension.Factory) func(context.Context, []byte) (http.RoundTripper, error) {
	return func(ctx context.Context, yaml []byte) (http.RoundTripper, error) {
		c := factory.CreateDefaultConfig()
		retrieved, err := confmap.NewRetrievedFromYAML(yaml)
		if err != nil {
			return nil, err
		}
		conf, err := retrieved.AsConf()
		if err != nil {
			return nil, err
		}
		if err = errors.Join(conf.Unmarshal(c), confmap.Validate(c)); err != nil {
			return nil, err
		}
		settings := extension.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: component.TelemetrySettings{Logger: zap.NewNop()}}
		authenticator, err := factory.Create(ctx, settings, c)
		if err != nil {
			return nil, err
		}
		if err := authenticator.Start(ctx, nil); err != nil {
			return nil, err
		}
		client, ok := authenticator.(extensionauth.HTTPClient)
		if !ok {
			return nil, fmt.Errorf("the extension is %T, not an HTTP client", authenticator)
		}
		return client.RoundTripper(http.DefaultTransport)
	}
}
