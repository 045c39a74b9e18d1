package beside_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// openFGA runs OpenFGA with the environment on the page. Its callers list the stores.
func openFGA(t *testing.T, s setup) instance {
	_, err := s.tryStart(t, process.Command{Name: "openfga", Path: built("openfga"), Args: []string{"run"}, Env: append(
		strings.Fields(s.fill(s.block(t, "ini"))),
		"OPENFGA_HTTP_ADDR="+s.address, "OPENFGA_GRPC_ADDR=127.0.0.1:"+reservePort(t), "OPENFGA_PLAYGROUND_ENABLED=false",
		"OPENFGA_METRICS_ENABLED=false",
	)}, reachable(s.address))
	if err != nil {
		return unstarted(err, "OpenFGA doesn't start")
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	return instance{call: func(token string) string {
		return timed(func() string {
			request, err := http.NewRequest(http.MethodGet, "http://"+s.address+"/stores", http.NoBody)
			if err != nil {
				return err.Error()
			}
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			response, err := client.Do(request)
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			var body struct{ Code string }
			if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
				return err.Error()
			}
			return strings.TrimSpace(response.Status[:3] + " " + body.Code)
		})
	}}
}
