package rotation_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/heartbeat"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/load"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

// Two of three token servers are cut off from the API server while a signing key and a client secret
// rotate, and while a client is suspended. One connection refuses, the other one hangs. What works
// at which server is as docs/operations.md documents it. Both leave the Service, and return when
// they are current again.
func TestPartition(t *testing.T) {
	cluster := env.Start(t)
	// A key is published 12 s before it becomes active.
	inst := install.New(t, cluster, install.Settings{DefaultTokenLifetime: "10s", SpeedUp: 300})
	inst.MaxStaleness = heartbeat.Duration
	inst.StartOperator(t, "")
	p := &partition{inst: inst, connected: inst.StartTokenServer(t)}
	refusing, hanging := inst.StartLink(t), inst.StartLink(t)
	for _, link := range []*install.Link{refusing, hanging} {
		s := inst.LaunchTokenServer(t, inst.KubeconfigFor(t, link.URL))
		s.AwaitReady(t)
		p.cutOff = append(p.cutOff, s)
	}
	team := cluster.Namespace(t)
	p.realm = install.Realm("acme")
	p.steady, p.suspended = install.ApiClient(team, "steady", "acme"), install.ApiClient(team, "suspended", "acme")
	p.rotated = install.ApiClient(team, "rotated", "acme", func(c *v1alpha1.ApiClient) { c.Spec.Secret = scenario.RotatingSecret(nil, time.Second) })
	inst.Create(t, p.realm, p.steady, p.suspended, p.rotated)
	for _, c := range []*v1alpha1.ApiClient{p.steady, p.suspended, p.rotated} {
		scenario.AwaitUsable(t, inst, c)
	}
	inst.AwaitReady(t, p.realm, metav1.ConditionTrue, v1alpha1.ReasonReady)
	p.oldKey, p.oldSecret = activeKey(p.realm), inst.CredentialsSecret(t, p.rotated)

	refusing.Refuse()
	hanging.Hang()
	install.Change(t, inst, p.realm, func(r *v1alpha1.Realm) {
		r.Spec.Signing.RotateAfter = &metav1.Time{Time: r.Status.SigningKeys[0].CreatedAt.Add(time.Second)}
	})
	install.Change(t, inst, p.suspended, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
	scenario.RotateSecret(t, inst, p.rotated)
	p.added = install.ApiClient(team, "added", "acme")
	inst.Create(t, p.added)

	p.awaitRotationWithoutCutOff(t)
	scenario.AwaitSecretRotated(t, inst, p.rotated)
	inst.AwaitReady(t, p.added, metav1.ConditionTrue, v1alpha1.ReasonReady)
	t.Run("previous key is published", func(t *testing.T) { p.check(t, true) })
	scenario.AwaitSigningKeys(t, inst, p.realm, v1alpha1.SigningKeyActive)
	t.Run("previous key is removed", func(t *testing.T) { p.check(t, false) })
	p.awaitUnready(t)

	refusing.Restore(t)
	hanging.Restore(t)
	p.checkReturn(t)
}

// partition is an installation with token servers that can't reach the API server.
type partition struct {
	inst      *install.Installation
	connected *install.TokenServer
	cutOff    []*install.TokenServer
	realm     *v1alpha1.Realm
	oldKey    string
	oldSecret *corev1.Secret // credentials of rotated before the rotation
	// Clients: unchanged, suspended during the partition, with a rotated secret, and added during the
	// partition.
	steady, suspended, rotated, added *v1alpha1.ApiClient
}

// awaitRotationWithoutCutOff waits until the operator has given up on the servers that are cut off,
// and then until the new key is active. It checks that neither the new key nor the new secret is in use
// before the operator has given up.
func (p *partition) awaitRotationWithoutCutOff(t *testing.T) {
	t.Helper()
	install.Eventually(t, "the operator to give up on the servers that are cut off", func() error {
		if err := p.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.realm), p.realm); err != nil {
			return err
		}
		delivered := scenario.ClientSecret(p.inst.CredentialsSecret(t, p.rotated)) != scenario.ClientSecret(p.oldSecret)
		active := activeKey(p.realm) != p.oldKey
		var live []string
		for _, s := range p.cutOff {
			lease := &coordinationv1.Lease{}
			err := p.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: p.inst.RecordsNamespace, Name: heartbeat.LeaseName(s.Name)}, lease)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if beat, invalid := heartbeat.Parse(lease); err == nil && (invalid != nil || !beat.Dead) {
				live = append(live, s.Name)
			}
		}
		if len(live) == 0 {
			return nil
		}
		if active || delivered {
			t.Fatalf("%v are live, and the new key is active: %t, the new secret is delivered: %t", live, active, delivered)
		}
		return fmt.Errorf("%v are live", live)
	})
	install.Eventually(t, "the new key to be active", func() error {
		err := p.inst.Env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.realm), p.realm)
		if err == nil && activeKey(p.realm) == p.oldKey {
			err = fmt.Errorf("the states of the keys are %v", scenario.SigningKeyStates(p.realm))
		}
		return err
	})
}

// check compares what works at the servers with what is documented. published tells whether the
// connected server still publishes the previous key.
func (p *partition) check(t *testing.T, published bool) {
	newSecret := p.inst.CredentialsSecret(t, p.rotated)
	suspendedToken := ""
	got, want := map[string]bool{}, map[string]bool{}
	expect := func(what string, works, documented bool) { got[what], want[what] = works, documented }

	newToken, _ := p.token(t, p.connected, p.inst.CredentialsSecret(t, p.steady))
	expect("connected: signs with the previous key", keyID(t, newToken) == p.oldKey, false)
	expect("connected: verifies its token", p.inst.ValidAt(t, p.connected, p.realm.Name, newToken), true)
	for what, credentials := range map[string]*corev1.Secret{"old secret": p.oldSecret, "suspended client": p.inst.CredentialsSecret(t, p.suspended)} {
		_, ok := p.token(t, p.connected, credentials)
		expect("connected: accepts "+what, ok, false)
	}
	for what, credentials := range map[string]*corev1.Secret{"new secret": newSecret, "added client": p.inst.CredentialsSecret(t, p.added)} {
		_, ok := p.token(t, p.connected, credentials)
		expect("connected: accepts "+what, ok, true)
	}
	for _, s := range p.cutOff {
		name := s.Name + ": "
		oldToken, _ := p.token(t, s, p.inst.CredentialsSecret(t, p.steady))
		expect(name+"signs with the previous key", keyID(t, oldToken) == p.oldKey, true)
		expect(name+"verifies its token", p.inst.ValidAt(t, s, p.realm.Name, oldToken), true)
		expect(name+"its token verifies with its keys", p.verifies(t, s, oldToken), true)
		expect(name+"its token is valid at the connected server", p.inst.ValidAt(t, p.connected, p.realm.Name, oldToken), published)
		expect(name+"its token verifies with the connected server's keys", p.verifies(t, p.connected, oldToken), published)
		expect(name+"verifies a token with the new key", p.inst.ValidAt(t, s, p.realm.Name, newToken), false)
		expect(name+"a token with the new key verifies with its keys", p.verifies(t, s, newToken), false)

		for what, credentials := range map[string]*corev1.Secret{"old secret": p.oldSecret, "suspended client": p.inst.CredentialsSecret(t, p.suspended)} {
			token, ok := p.token(t, s, credentials)
			expect(name+"accepts "+what, ok, true)
			if what == "suspended client" {
				suspendedToken = token
			}
		}
		for what, credentials := range map[string]*corev1.Secret{"new secret": newSecret, "added client": p.inst.CredentialsSecret(t, p.added)} {
			_, ok := p.token(t, s, credentials)
			expect(name+"accepts "+what, ok, false)
		}
		expect(name+"the suspended client's token is valid there", p.inst.ValidAt(t, s, p.realm.Name, suspendedToken), true)
		expect(name+"the suspended client's token is valid at the connected server", p.inst.ValidAt(t, p.connected, p.realm.Name, suspendedToken), false)
		expect(name+"the suspended client's token verifies with the connected server's keys", p.verifies(t, p.connected, suspendedToken), published)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-documented +got):\n%s", diff)
	}
}

// awaitUnready waits until the servers that are cut off are unready. The connected one stays ready.
func (p *partition) awaitUnready(t *testing.T) {
	t.Helper()
	for _, s := range p.cutOff {
		install.Eventually(t, s.Name+" to be unready", func() error {
			if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "--max-staleness") {
				return fmt.Errorf("/readyz reports: %w", err)
			}
			return nil
		})
		if got := staleness(t, s); got < heartbeat.Duration {
			t.Errorf("%s reports a staleness of %s", s.Name, got)
		}
	}
	if err := p.connected.Ready(t.Context()); err != nil {
		t.Errorf("the connected server is not ready: %v", err)
	}
	if got := staleness(t, p.connected); got != 0 {
		t.Errorf("the connected server reports a staleness of %s", got)
	}
}

// checkReturn waits until the servers are current and ready, and live for the operator.
func (p *partition) checkReturn(t *testing.T) {
	t.Helper()
	for _, s := range p.cutOff {
		s.AwaitReady(t)
		if got := staleness(t, s); got != 0 {
			t.Errorf("%s is ready and reports a staleness of %s", s.Name, got)
		}
		// What made it ready must have been loaded, too.
		if _, ok := p.token(t, s, p.inst.CredentialsSecret(t, p.suspended)); ok {
			t.Errorf("%s is ready and issues tokens to the suspended client", s.Name)
		}
	}
	p.inst.AwaitTokens(t, p.oldSecret, false)
	p.inst.AwaitTokens(t, p.inst.CredentialsSecret(t, p.rotated), true)
	p.inst.AwaitTokens(t, p.inst.CredentialsSecret(t, p.added), true)
	scenario.AwaitPublishedKeys(t, p.inst, p.realm, p.inst.CredentialsSecret(t, p.steady))
	for _, s := range p.cutOff {
		install.Eventually(t, "the heartbeat of "+s.Name, func() error {
			lease := &coordinationv1.Lease{}
			return p.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: p.inst.RecordsNamespace, Name: heartbeat.LeaseName(s.Name)}, lease)
		})
	}
	install.Change(t, p.inst, p.suspended, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
	scenario.AwaitUsable(t, p.inst, p.suspended)
}

// token requests a token and reports whether the server accepts the credentials.
func (p *partition) token(t *testing.T, s *install.TokenServer, credentials *corev1.Secret) (string, bool) {
	t.Helper()
	a, err := install.RequestToken(t, s, s.Client(t), credentials)
	if err != nil || a.Status != http.StatusOK && (a.Status != http.StatusUnauthorized || a.Error != "invalid_client") {
		t.Fatalf("%s responded with %d %s: %v", s.Name, a.Status, a.Error, err)
	}
	return a.AccessToken, a.Status == http.StatusOK
}

// verifies reports whether a verifier accepts the token with the keys that the server publishes.
func (p *partition) verifies(t *testing.T, s *install.TokenServer, token string) bool {
	t.Helper()
	credentials := p.inst.CredentialsSecret(t, p.steady)
	verifier := load.NewVerifier(s.Client(t), string(credentials.Data[v1alpha1.SecretKeyIssuer]), string(credentials.Data[v1alpha1.SecretKeyJWKSURL]))
	_, err := verifier.Verify(t.Context(), token)
	if err != nil && !errors.Is(err, load.ErrNotVerified) {
		t.Fatal(err)
	}
	return err == nil
}

func keyID(t *testing.T, accessToken string) string {
	t.Helper()
	token, err := jwt.ParseSigned(accessToken, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return token.Headers[0].KeyID
}

func staleness(t *testing.T, s *install.TokenServer) time.Duration {
	t.Helper()
	seconds, err := strconv.ParseFloat(s.Metric(t, "realmkeeper_records_staleness_seconds"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}
