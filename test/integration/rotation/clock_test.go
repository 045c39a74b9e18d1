package rotation_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A token server uses the median of its clocks. If the machine's clock is wrong when the server
// starts, it uses the API server's time. If the API server's clock steps later, the token server
// ignores the step.
func TestTokenTimesFollowMedianOfClocks(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	credentials := inst.CredentialsSecret(t, c)
	const lastHeartbeat = "realmkeeper_heartbeat_last_success_timestamp_seconds"

	for name, test := range map[string]struct {
		serverAhead []time.Duration // successive offsets from the machine's clock
		want        time.Duration
	}{
		"the machine's clock is an hour ahead": {[]time.Duration{-time.Hour}, -time.Hour},
		"the API server's clock steps":         {[]time.Duration{0, 2 * time.Hour, -9 * time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := inst.StartFaultProxy(t, install.Faults{})
			proxy.SetClock(test.serverAhead[0])
			s := inst.LaunchTokenServer(t, inst.KubeconfigFor(t, proxy.URL))
			s.AwaitReady(t)
			httpClient := s.Client(t)
			for _, ahead := range test.serverAhead {
				proxy.SetClock(ahead)
				before := s.Metric(t, lastHeartbeat)
				install.Change(t, inst, realm, func(r *v1alpha1.Realm) { // causes the server to receive a change
					r.Spec.Scopes = []string{"scope-" + strconv.FormatInt(r.Generation, 10)}
				})
				install.Eventually(t, "a heartbeat of the server", func() error {
					if s.Metric(t, lastHeartbeat) == before {
						return fmt.Errorf("its last heartbeat is still at %s", before)
					}
					return nil
				})
				requested := time.Now()
				a, err := install.RequestToken(t, s, httpClient, credentials)
				if err != nil || a.AccessToken == "" {
					t.Fatalf("%s did not issue a token: %+v, %v", s.Name, a, err)
				}
				off := issuedAt(t, a.AccessToken).Sub(requested)
				if off > test.want+time.Since(requested) || off < test.want-10*time.Second {
					t.Errorf("if the API server's clock is %s ahead, iat is %s ahead, want %s", ahead, off, test.want)
				}
			}
		})
	}
}

// The operator and the token servers start with the same time, so no heartbeat appears stale. In
// this test, it is the time of an API server whose clock is two hours behind the machine's clock.
func TestHeartbeatTimesFollowMedianOfClocks(t *testing.T) {
	cluster := env.Start(t)
	inst := install.New(t, cluster, install.Settings{})
	proxy := inst.StartFaultProxy(t, install.Faults{})
	proxy.SetClock(-2 * time.Hour)
	kubeconfig := inst.KubeconfigFor(t, proxy.URL)
	inst.StartOperator(t, kubeconfig)
	inst.LaunchTokenServer(t, kubeconfig).AwaitReady(t)
	c := install.ApiClient(cluster.Namespace(t), "billing", "acme")
	inst.Create(t, install.Realm("acme"), c)
	scenario.AwaitUsable(t, inst, c)
}

// issuedAt returns the iat claim of a token.
func issuedAt(t *testing.T, accessToken string) time.Time {
	t.Helper()
	token, err := jwt.ParseSigned(accessToken, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	return claims.IssuedAt.Time()
}
