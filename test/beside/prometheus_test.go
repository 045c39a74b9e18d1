package beside_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// target is an API with a certificate that all clients trust. It remembers the ID of the last token.
func target(t *testing.T) (server *httptest.Server, last *atomic.Value) {
	t.Helper()
	last = &atomic.Value{}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(claim(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "jti"))
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	}))
	t.Cleanup(server.Close)
	return server, last
}

// mounted returns a value of the mounted Secret.
func (s setup) mounted(t *testing.T, key string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, key))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// prometheus scrapes an API each second. Its calls wait for the next scrape.
func prometheus(t *testing.T, s setup) instance {
	api, last := target(t)
	config := s.write(t, "prometheus.yml", "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"+s.fill(s.block(t, "yaml"),
		"orders.acme.example]", strings.TrimPrefix(api.URL, "https://")+"]", "https://api.example.com/acme/oauth2/token", s.mounted(t, v1beta1.SecretKeyTokenURL),
		"acme-apps.prometheus", s.mounted(t, v1beta1.SecretKeyClientID), "/etc/prometheus/orders-ca.crt", s.authority))
	s.start(t, process.Command{Name: "prometheus", Path: built("prometheus"), Args: []string{
		"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(s.dir, "data"), "--web.listen-address=" + s.address,
	}}, func() error {
		_, _, err := lastScrape(s.address)
		return err
	})
	return instance{call: func(string) string {
		for called := time.Now(); time.Since(called) < 20*time.Second; time.Sleep(200 * time.Millisecond) {
			scraped, failure, err := lastScrape(s.address)
			switch {
			case err != nil:
				return err.Error()
			case !scraped.After(called):
			case failure == "":
				return last.Load().(string)
			default:
				return strings.TrimPrefix(failure, fmt.Sprintf("Get %q: ", api.URL+"/metrics"))
			}
		}
		return "doesn't end"
	}}
}

// lastScrape returns when Prometheus began the last scrape, and why it failed.
func lastScrape(address string) (began time.Time, failure string, err error) {
	response, err := http.Get("http://" + address + "/api/v1/targets")
	if err != nil {
		return began, "", err
	}
	defer response.Body.Close()
	var body struct {
		Data struct {
			ActiveTargets []struct {
				LastScrape time.Time `json:"lastScrape"`
				LastError  string    `json:"lastError"`
			} `json:"activeTargets"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil || len(body.Data.ActiveTargets) != 1 {
		return began, "", err
	}
	return body.Data.ActiveTargets[0].LastScrape, body.Data.ActiveTargets[0].LastError, nil
}
