package operator

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The operator ends if it can't create its manager. That must not depend on the API server.
func TestNewManagerSendsNoRequests(t *testing.T) {
	instance := testkit.Value(config.Parse([]byte(
		"apiVersion: config.realmkeeper.dev/v1beta1\nkind: InstanceConfiguration\ninstanceDomain: example.com\nsecurity: {defaultTokenLifetime: 5m}\n")))(t)
	instance.SystemNamespace, instance.RecordsNamespace = "realmkeeper-system", "realmkeeper-system-records"
	cfg := &rest.Config{Host: "https://api.invalid", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("It sends %s %s", r.Method, r.URL)
		return nil, errors.New("no API server")
	})}
	o := Options{Instance: instance, Image: "realmkeeper:test", Pod: "operator-0", LeaderElection: true}
	for _, served := range [][]string{nil, {"apps", "shop"}} {
		_, _, err := newManager(t.Context(), cfg, o, served, &rollbacks{now: time.Now}, time.Now, prometheus.NewRegistry())
		testkit.Do(t, err)
	}
}
