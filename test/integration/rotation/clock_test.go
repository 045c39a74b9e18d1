package rotation_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// A token server on a machine whose clock is wrong from the beginning takes the API
// server's time; and when it has the time, the API server's clock may step.
func TestTokensAreOfTheTimeThatMostClocksShow(t *testing.T) {
	cluster := env.Start(t)
	inst, realm, c := scenario.InUse(t, cluster)
	consumer := inst.ConsumerSecret(t, c)
	const lastBeat = "realmkeeper_heartbeat_last_success_timestamp_seconds"

	for name, test := range map[string]struct {
		serverAhead []time.Duration // of the machine's clock, one after another
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
				beat := s.Metric(t, lastBeat)
				install.Change(t, inst, realm, func(r *v1alpha1.Realm) { // news for the server
					r.Spec.Scopes = []string{"scope-" + strconv.FormatInt(r.Generation, 10)}
				})
				install.Eventually(t, "the server to hear from the API server", func() error {
					if s.Metric(t, lastBeat) == beat {
						return fmt.Errorf("its last heartbeat is that of %s", beat)
					}
					return nil
				})
				before := time.Now()
				a, err := install.RequestToken(t, s, httpClient, consumer)
				if err != nil || a.AccessToken == "" {
					t.Fatalf("%+v, %v", a, err)
				}
				off := issuedAt(t, a.AccessToken).Sub(before)
				if off > test.want+time.Since(before) || off < test.want-10*time.Second {
					t.Errorf("with the API server's clock %s ahead a token is issued %s ahead, want %s", ahead, off, test.want)
				}
			}
		})
	}
}

// Operator and token servers take one time for the beginning, so that no heartbeat looks old:
// here that of an API server whose clock is hours behind their machine's.
func TestHeartbeatsAreOfTheTimeThatMostClocksShow(t *testing.T) {
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

// issuedAt returns the iat of a token.
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
