package beside_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// collectorMain is what the configurations on the page assume. It lets the sender of spans see the error of an export.
var collectorMain = strings.NewReplacer(
	"service:\n", "service:\n  telemetry: {metrics: {level: none}}\n",
	"exporters:\n  otlp_http:\n", "exporters:\n  otlp_http:\n    sending_queue: {enabled: false}\n    retry_on_failure: {enabled: false}\n")

func (s setup) collector(t *testing.T, config string) error {
	t.Helper()
	_, err := s.tryStart(t, process.Command{
		Name: "collector", Path: built("collector"), Args: []string{"--config", "file:" + s.write(t, "collector.yaml", collectorMain.Replace(config))},
	}, reachable(s.address))
	return err
}

// oidcCollector receives spans with tokens. It doesn't start if it can't load the metadata of the realm.
func oidcCollector(t *testing.T, s setup) instance {
	if err := s.collector(t, s.fill(s.block(t, "yaml"), "0.0.0.0:4318", s.address, "http://traces.internal:4318", "http://127.0.0.1:1")); err != nil {
		return unstarted(err, "doesn't start")
	}
	return instance{call: func(token string) string {
		return timed(func() string {
			response, _, err := s.send(token, `{}`)
			switch {
			case err != nil:
				return err.Error()
			case response.StatusCode == http.StatusOK:
				return "200"
			}
			return seen(response, token)
		})
	}}
}

// oauth2Collector exports the spans that it receives.
func oauth2Collector(t *testing.T, s setup) instance {
	api, last := target(t)
	if err := s.collector(t, s.fill(s.block(t, "yaml"), "localhost:4318", s.address, "https://traces.acme.example", api.URL,
		"https://api.example.com/acme/oauth2/token", s.mounted(t, v1beta1.SecretKeyTokenURL), "/etc/otelcol/traces-ca.crt", s.authority)); err != nil {
		t.Fatal(err)
	}
	return instance{call: func(string) string {
		response, message, err := s.send("", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"order"}]}]}]}`)
		switch {
		case err != nil:
			return err.Error()
		case response.StatusCode == http.StatusOK:
			return last.Load().(string)
		}
		_, reason, _ := strings.Cut(message, "failed to get security token from token endpoint ")
		return reason
	}}
}

// send sends a request with spans, and returns the response with its message.
func (s setup) send(token, spans string) (response *http.Response, message string, err error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/v1/traces", strings.NewReader(spans))
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err = (&http.Client{Timeout: patience}).Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	var body struct {
		Message string `json:"message"`
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		body.Message = response.Status // Not all responses are JSON.
	}
	return response, body.Message, nil
}
