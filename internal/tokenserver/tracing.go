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

// traced gives each request of routes a span, in the trace that its caller has begun, if there
// is one (W3C Trace Context). A span has names and results, and nothing of a header or query.
func traced(routes http.Handler, tracer trace.Tracer) http.Handler {
	callers := propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := callers.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, "HTTP "+method(r), trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", method(r))))
		defer span.End()
		r = r.WithContext(ctx)
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		routes.ServeHTTP(answer, r)
		// The mux has found the route by now; before, there is nothing but the path, which may hold anything.
		if r.Pattern != "" {
			_, route, _ := strings.Cut(" "+r.Pattern, " /")
			span.SetName("HTTP " + method(r) + " /" + route)
			span.SetAttributes(attribute.String("http.route", "/"+route))
		}
		span.SetAttributes(attribute.Int("http.response.status_code", answer.status))
		if answer.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// method is the request's, where it is one that HTTP knows: it may be anything.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
		return r.Method
	}
	return "_OTHER"
}

// describe adds to the request's span who asked and what came of it, as the audit has it.
func (e *clientEndpoint) describe(ctx context.Context, request *clientRequest, result string) {
	if e.Tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("realmkeeper.result", result))
	if request.realm != nil {
		span.SetAttributes(attribute.String("realmkeeper.realm", request.realm.Name))
	}
	if request.Client != nil {
		span.SetAttributes(attribute.String("realmkeeper.client_id", request.Client.ID))
	}
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets net/http find what the writer beneath can do.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
