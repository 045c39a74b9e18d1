// Command oauthclients sends a request with the HTTP client of Prometheus or of the OpenTelemetry
// Collector, which gets an access token first. It reads the client's configuration as YAML from standard
// input and prints the status of the response. The interoperability tests use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/oauth2clientauthextension"
	"github.com/prometheus/common/config"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.uber.org/zap"
)

// timeout limits the request.
const timeout = 30 * time.Second

// transports returns the HTTP transport of a program for its configuration: http_config of Prometheus, and
// oauth2client of the OpenTelemetry Collector.
var transports = map[string]func(ctx context.Context, yaml []byte) (http.RoundTripper, error){
	"prometheus":              prometheus,
	"opentelemetry-collector": collector,
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oauthclients:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: oauthclients prometheus|opentelemetry-collector URL < CONFIGURATION")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 || transports[args[0]] == nil {
		return errUsage
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	yaml, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	transport, err := transports[args[0]](ctx, yaml)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[1], http.NoBody)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, response.Status)
	return errors.Join(err, response.Body.Close())
}

func prometheus(_ context.Context, yaml []byte) (http.RoundTripper, error) {
	c, err := config.LoadHTTPConfig(string(yaml))
	if err != nil {
		return nil, err
	}
	return config.NewRoundTripperFromConfig(*c, "test")
}

func collector(ctx context.Context, yaml []byte) (http.RoundTripper, error) {
	factory := oauth2clientauthextension.NewFactory()
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
	client, ok := authenticator.(extensionauth.HTTPClient)
	if !ok {
		return nil, fmt.Errorf("the extension is %T, not an HTTP client", authenticator)
	}
	return client.RoundTripper(http.DefaultTransport)
}
