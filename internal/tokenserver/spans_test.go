package tokenserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// Each request has a span with the client and the result. It must contain no secrets and no
// arbitrary client-supplied text.
func TestRequestsHaveSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	s := startLoaded(t, func(o *tokenserver.Options) { o.Tracer = provider.Tracer("") })
	client := s.direct()
	tests := map[string]struct {
		request  request
		wantName string
		want     map[string]any
		wantCode codes.Code
	}{
		"a token": {
			request{query: grant, authorization: good},
			"HTTP POST /{realm}/oauth2/token",
			map[string]any{"http.request.method": "POST", "http.route": "/{realm}/oauth2/token", "http.response.status_code": int64(200), "realmkeeper.result": "granted", "realmkeeper.realm": "acme", "realmkeeper.client_id": "billing"},
			codes.Unset,
		},
		"an unknown client": {
			request{query: grant, authorization: basic(canary, canary)},
			"HTTP POST /{realm}/oauth2/token",
			map[string]any{"http.request.method": "POST", "http.route": "/{realm}/oauth2/token", "http.response.status_code": int64(401), "realmkeeper.result": "unknown_client", "realmkeeper.realm": "acme"},
			codes.Unset,
		},
		"an unknown path": {
			request{method: canary, path: "/" + canary + "/" + canary},
			"HTTP _OTHER /",
			map[string]any{"http.request.method": "_OTHER", "http.route": "/", "http.response.status_code": int64(404)},
			codes.Unset,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spans.Reset()
			r := tc.request
			r.header = http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
			s.send(t, client, r)
			ended := spans.Ended()
			if len(ended) != 1 {
				t.Fatalf("got %d spans, want 1", len(ended))
			}
			span := ended[0]
			got := map[string]any{}
			for _, a := range span.Attributes() {
				got[string(a.Key)] = a.Value.AsInterface()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || span.Name() != tc.wantName || span.Status().Code != tc.wantCode {
				t.Errorf("got span %q with status %v, want %q with %v; attributes (-want +got):\n%s", span.Name(), span.Status(), tc.wantName, tc.wantCode, diff)
			}
			if span.Parent().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || span.SpanContext().TraceID() != span.Parent().TraceID() {
				t.Errorf("got trace %s with parent trace %s, want that of the request", span.SpanContext().TraceID(), span.Parent().TraceID())
			}
			if strings.Contains(span.Name(), canary) {
				t.Errorf("span %q repeats input", span.Name())
			}
		})
	}
}
