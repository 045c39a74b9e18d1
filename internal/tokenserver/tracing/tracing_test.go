package tracing_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/tracing"
)

func TestDisabledByDefault(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"not configured": {},
		"disabled":       {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range env {
				t.Setenv(key, value)
			}
			tracer, stop, err := tracing.Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
			if tracer != nil || err != nil {
				t.Errorf("tracer %v, error %v, want neither", tracer, err)
			}
			stop(t.Context())
		})
	}
}

// The configured collector receives spans with the resource attributes from the environment.
func TestSpansReachTheCollector(t *testing.T) {
	var got atomic.Pointer[collectorpb.ExportTraceServiceRequest]
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := &collectorpb.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		got.Store(request)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=custom,k8s.pod.name=a")
	tracer, stop, err := tracing.Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(t.Context(), "request")
	span.End()
	stop(t.Context())
	if got.Load() == nil {
		t.Fatal("the collector received no spans")
	}
	spans := got.Load().GetResourceSpans()[0]
	testkit.Diff(t, "name of the span", "request", spans.GetScopeSpans()[0].GetSpans()[0].GetName())
	attributes := map[string]string{}
	for _, a := range spans.GetResource().GetAttributes() {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	if attributes["service.name"] != "custom" || attributes["service.version"] != "v1" || attributes["k8s.pod.name"] != "a" {
		t.Errorf("unexpected resource attributes %v", attributes)
	}
}

// OpenTelemetry logs headers that it can't parse to standard error, and they can contain a token. The test runs
// again in a process of its own, whose standard error it reads.
func TestHeadersAreNotLogged(t *testing.T) {
	const child = "REALMKEEPER_WITH_INVALID_HEADERS"
	if os.Getenv(child) != "" {
		_, stop, err := tracing.Start(t.Context(), "v1", slog.New(slog.DiscardHandler))
		testkit.Do(t, err)
		stop(t.Context())
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"=1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS=confidential,b=%zzconfidential")
	output, err := again.CombinedOutput()
	if err != nil || strings.Contains(string(output), "confidential") {
		t.Errorf("%v, output %s", err, output)
	}
}
