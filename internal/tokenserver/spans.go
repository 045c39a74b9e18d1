package tokenserver

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traced creates a span for each request, as a child of the caller's span if there is one (W3C
// Trace Context). Spans contain names and results, but no other values from headers or the query.
func traced(routes http.Handler, tracer trace.Tracer) http.Handler {
	propagator := propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, "HTTP "+method(r), trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", method(r))))
		defer span.End()
		r = r.WithContext(ctx)
		response := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		routes.ServeHTTP(response, r)
		// The mux has set the route by now. Until then only the raw path is known, and it may
		// contain anything.
		if r.Pattern != "" {
			_, route, _ := strings.Cut(" "+r.Pattern, " /")
			span.SetName("HTTP " + method(r) + " /" + route)
			span.SetAttributes(attribute.String("http.route", "/"+route))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", response.status))
		if response.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// method returns the request method, or "_OTHER" if it is not a standard method. Clients may send
// any text as the method.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
		return r.Method
	}
	return "_OTHER"
}

// describe adds the realm, client and result to the request's span, as in the audit log.
func (e *clientEndpoint) describe(ctx context.Context, request *clientRequest, result string) {
	if e.Tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("realmkeeper.result", result))
	if request.realm != nil {
		span.SetAttributes(attribute.String("realmkeeper.realm", request.realm.Name))
	}
	if client := request.caller.Client; client != nil {
		span.SetAttributes(attribute.String("realmkeeper.client_id", client.ID))
	}
}

// statusWriter records the status of the response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status and writes it.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController access to the underlying writer's features.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
