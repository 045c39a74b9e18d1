package operator

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// The short timeout of the Lease's requests must not end the lists and watches of the operator, which take
// longer with many clients.
func TestElectionHasItsOwnConfig(t *testing.T) {
	cfg := &rest.Config{Host: "https://127.0.0.1:6443"}
	testkit.Value(newLock(cfg, Options{Pod: "operator-0", Instance: &config.Instance{SystemNamespace: "realmkeeper"}}))(t)
	if cfg.Timeout != 0 || cfg.UserAgent != "" {
		t.Errorf("timeout %s and user agent %q of all requests", cfg.Timeout, cfg.UserAgent)
	}
}
