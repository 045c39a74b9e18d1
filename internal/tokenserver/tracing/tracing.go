// Package tracing sends spans to an OpenTelemetry collector, where one is configured.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Enabled reports whether the environment names a collector: OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, unless OTEL_SDK_DISABLED is true.
func Enabled() bool {
	if off, err := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); err == nil && off {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Start returns a tracer whose spans go to the collector by OTLP over HTTP, and what sends
// the last of them; nil where none is enabled. The usual variables OTEL_* say the rest, such as
// headers, certificates, the sampler and the service's name, which otherwise is service. A collector
// that can't be reached costs spans, and no request.
//
// The error is about a variable that can't be used.
func Start(ctx context.Context, service, version string, logger *slog.Logger) (tracer trace.Tracer, stop func(context.Context), err error) {
	if !Enabled() {
		return nil, func(context.Context) {}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing to send traces: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithFromEnv(), // what it says goes first
		resource.WithTelemetrySDK(),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("Traces are lost", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return provider.Tracer("github.com/realmkeeper/realmkeeper"), func(ctx context.Context) {
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("Traces are lost", "error", err)
		}
	}, nil
}
