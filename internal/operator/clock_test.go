package operator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	testenv "github.com/realmkeeper/realmkeeper/test/framework/env"
	testinstall "github.com/realmkeeper/realmkeeper/test/framework/install"
)

// A token server on a machine whose clock is wrong from the beginning takes the API
// server's time; and when it has the time, the API server's clock may step.
func TestTokensAreOfTheTimeThatMostClocksShow(t *testing.T) {
	env := testenv.Start(t)
	install, realm, c := inUse(t, env)
	consumer := install.ConsumerSecret(t, c)
	const lastBeat = "realmkeeper_heartbeat_last_success_timestamp_seconds"

	for name, test := range map[string]struct {
		serverAhead []time.Duration // of the machine's clock, one after another
		want        time.Duration
	}{
		"the machine's clock is an hour ahead": {[]time.Duration{-time.Hour}, -time.Hour},
		"the API server's clock steps":         {[]time.Duration{0, 2 * time.Hour, -9 * time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := install.StartFaultProxy(t, testinstall.Faults{})
			proxy.SetClock(test.serverAhead[0])
			s := install.LaunchTokenServer(t, install.KubeconfigFor(t, proxy.URL))
			s.AwaitReady(t)
			httpClient := s.Client(t)
			for _, ahead := range test.serverAhead {
				proxy.SetClock(ahead)
				beat := s.Metric(t, lastBeat)
				testinstall.Change(t, install, realm, func(r *v1alpha1.Realm) { // news for the server
					r.Spec.Scopes = []string{"scope-" + strconv.FormatInt(r.Generation, 10)}
				})
				testinstall.Eventually(t, "the server to hear from the API server", func() error {
					if s.Metric(t, lastBeat) == beat {
						return errorf("its last heartbeat is that of %s", beat)
					}
					return nil
				})
				before := time.Now()
				a, err := testinstall.RequestToken(t, s, httpClient, consumer)
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
	env := testenv.Start(t)
	install := testinstall.New(t, env, testinstall.Settings{})
	proxy := install.StartFaultProxy(t, testinstall.Faults{})
	proxy.SetClock(-2 * time.Hour)
	kubeconfig := install.KubeconfigFor(t, proxy.URL)
	install.StartOperator(t, kubeconfig)
	install.LaunchTokenServer(t, kubeconfig).AwaitReady(t)
	c := testinstall.ApiClient(env.Namespace(t), "billing", "acme")
	install.Create(t, testinstall.Realm("acme"), c)
	converges(t, install, c)
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
