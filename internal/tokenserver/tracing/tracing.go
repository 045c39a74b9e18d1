// Package tracing sends spans to an OpenTelemetry collector if one is configured.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// serviceName is the default of service.name, like the name of the Deployment.
const serviceName = "realmkeeper-token-server"

// Enabled reports whether the environment configures a collector. This requires that
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set and OTEL_SDK_DISABLED is
// not true.
func Enabled() bool {
	if off, err := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); err == nil && off {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Start returns a tracer that sends spans to the collector with OTLP over HTTP. The caller must
// call stop, which flushes the remaining spans. If tracing is not enabled, the tracer is nil. The
// standard OTEL_* environment variables configure headers, certificates, the sampler and the
// service name. If the collector is unavailable, spans are lost but requests are not affected.
//
// An error means that an environment variable is invalid.
func Start(ctx context.Context, version string, logger *slog.Logger) (tracer trace.Tracer, stop func(context.Context), err error) {
	if !Enabled() {
		return nil, func(context.Context) {}, nil
	}
	otel.SetLogger(logr.Discard()) // It would log headers that it can't parse, and they can contain a token.
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the OTLP trace exporter from OTEL_* variables: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", serviceName), attribute.String("service.version", version)),
		resource.WithFromEnv(), // takes precedence over the attributes above
		resource.WithTelemetrySDK(),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("Failed to export traces", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return provider.Tracer("github.com/realmkeeper/realmkeeper"), func(ctx context.Context) {
		if err := provider.Shutdown(ctx); err != nil {
			logger.Warn("Failed to export traces", "error", err)
		}
	}, nil
}
