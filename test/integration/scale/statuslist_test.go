//go:build scale

package scale_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/api/verify"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/load"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
	"github.com/realmkeeper/realmkeeper/test/framework/statuslist"
)

// defaultTTL is how long verifiers use a list before they load it again.
var defaultTTL = v1beta1.StatusList{}.EffectiveTTL()

var statusListTries = flag.Int("statuslist.tries", 10, "Number of tries of each change that revokes a token")

const (
	// maxRefusal is the time within which an offline verifier must reject a revoked token: the default ttl of a
	// list, and the propagation of a change.
	maxRefusal = 12 * time.Second
	// pollInterval is the time between two calls of a verifier.
	pollInterval = 20 * time.Millisecond
)

// TestStatusListScale measures how long offline verifiers still accept a revoked token while token servers are under
// load: from the response of the API server to the change, or from the time in it, to the rejection by the last of
// the verifiers, of which each asks another token server. It also shows what they do without the API server.
func TestStatusListScale(t *testing.T) {
	inst := install.New(t, env.Start(t), install.Settings{})
	inst.MaxStaleness = 30 * time.Second // of the token servers, so that their lists expire after 90 s
	inst.StartOperator(t, "")
	inst.StartTokenServer(t)
	inst.StartTokenServer(t)
	r := newRevocations(t, inst)
	busy := install.ApiClient(inst.Env.Namespace(t), "busy", r.realm.Name)
	inst.Create(t, busy)
	scenario.AwaitUsable(t, inst, busy)
	credentials := inst.CredentialsSecret(t, busy)
	running := load.Start(t, load.Options{Servers: inst.Servers(), Credentials: func() *corev1.Secret { return credentials }, Workers: 8, PerSecond: 200})

	onClient := func(change func(*v1beta1.ApiClient)) func(*testing.T, *v1beta1.ApiClient) {
		return func(t *testing.T, c *v1beta1.ApiClient) { install.Change(t, inst, c, change) }
	}
	for _, change := range []struct {
		name   string
		revoke func(*testing.T, *v1beta1.ApiClient)
		ahead  time.Duration // of the time in the change
	}{
		{"suspension", onClient(func(c *v1beta1.ApiClient) { c.Spec.Suspend = true }), 0},
		{"deletion", func(t *testing.T, c *v1beta1.ApiClient) { inst.Delete(t, c) }, 0},
		{"tokensValidAfterTime", nil, time.Second},
		{"expiration", nil, 3 * time.Second},
		{"lost grant", r.removeScope, 0}, // the last one, because clients have the same scopes
	} {
		times := r.measure(t, change.name, func(t *testing.T, c *v1beta1.ApiClient) time.Time {
			at := &metav1.Time{Time: time.Now().Truncate(time.Second).Add(time.Second + change.ahead)}
			switch change.name {
			case "tokensValidAfterTime":
				install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.TokensValidAfterTime = at })
			case "expiration":
				install.Change(t, inst, c, func(c *v1beta1.ApiClient) { c.Spec.ExpirationTime = at })
			default:
				change.revoke(t, c)
				return time.Now()
			}
			return at.Time
		})
		longest, middle := slices.Max(times), times[len(times)/2]
		addRow(t, longest <= maxRefusal, fmt.Sprintf("offline verifier rejects after a %s, longest of %d", change.name, len(times)),
			fmt.Sprintf("%s (median %s)", longest.Round(10*time.Millisecond), middle.Round(10*time.Millisecond)), "at most "+maxRefusal.String())
	}
	result := running.Stop()
	t.Logf("load: %d tokens, %d failed %v", result.Tokens, result.Failed, result.Failures)
	r.withoutAPIServer(t, credentials)
}

// revocations measures how long the tokens of the clients of a realm are accepted after they were revoked.
type revocations struct {
	inst      *install.Installation
	realm     *v1beta1.Realm
	namespace string

	mu sync.Mutex // serializes changes of the realm
}

func newRevocations(t *testing.T, inst *install.Installation) *revocations {
	t.Helper()
	r := &revocations{inst: inst, namespace: inst.Env.Namespace(t)}
	r.realm = install.Realm("offline", func(realm *v1beta1.Realm) {
		realm.Spec.StatusList.Enabled = true
		realm.Spec.Audiences = v1beta1.Audiences{ordersAPI}
		var scopes v1beta1.GrantedScopes
		for n := range *statusListTries {
			realm.Spec.Scopes = append(realm.Spec.Scopes, scopeOf(n))
			scopes = append(scopes, scopeOf(n))
		}
		realm.Spec.Grants[0].Scopes = scopes
	})
	inst.Create(t, r.realm)
	inst.AwaitReady(t, r.realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	return r
}

func scopeOf(n int) string { return fmt.Sprintf("scope-%d", n) }

// removeScope removes the scope of a client from the grant.
func (r *revocations) removeScope(t *testing.T, c *v1beta1.ApiClient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	install.Change(t, r.inst, r.realm.DeepCopy(), func(realm *v1beta1.Realm) {
		grant := &realm.Spec.Grants[0]
		grant.Scopes = slices.DeleteFunc(grant.Scopes, func(s string) bool { return s == c.Spec.Scopes[0] })
	})
}

// measure revokes tokens of several clients. revoke
// returns the time from which on a token must be rejected. The result is sorted.
func (r *revocations) measure(t *testing.T, name string, revoke func(*testing.T, *v1beta1.ApiClient) time.Time) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var times []time.Duration
	t.Run(name, func(t *testing.T) {
		for n := range *statusListTries {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				took := r.once(t, name, n, revoke)
				mu.Lock()
				defer mu.Unlock()
				times = append(times, took)
			})
		}
	})
	if len(times) != *statusListTries {
		t.FailNow()
	}
	slices.Sort(times)
	return times
}

func (r *revocations) once(t *testing.T, change string, n int, revoke func(*testing.T, *v1beta1.ApiClient) time.Time) time.Duration {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(fmt.Sprintf("%s-%d", change, n), " ", "-"))
	c := install.ApiClient(r.namespace, name, r.realm.Name, func(c *v1beta1.ApiClient) {
		c.Spec.Scopes, c.Spec.Audiences = v1beta1.Scopes{scopeOf(n)}, v1beta1.Audiences{ordersAPI}
	})
	r.inst.Create(t, c)
	r.inst.AwaitReady(t, c, metav1.ConditionTrue, v1beta1.ReasonReady)
	credentials := r.inst.CredentialsSecret(t, c)
	var token string
	install.Eventually(t, "a token with a status", func() error {
		if token = r.inst.AccessToken(t, credentials); statuslist.Of(t, token).URI == "" {
			return errors.New("it has none")
		}
		return nil
	})
	var verifiers []*verify.Verifier
	for _, s := range r.inst.Servers() {
		v := r.verifier(t, s, verify.StatusRequired)
		install.Eventually(t, "a verifier that accepts the token", func() error {
			_, err := v.Verify(t.Context(), token)
			return err
		})
		verifiers = append(verifiers, v)
	}
	// The changes are spread over the time between two loads of a list.
	<-time.After(time.Duration(n) * defaultTTL / time.Duration(*statusListTries))
	since := revoke(t, c)
	for _, v := range verifiers {
		for err := error(nil); !errors.Is(err, verify.ErrRevoked); {
			if _, err = v.Verify(t.Context(), token); err != nil && !errors.Is(err, verify.ErrRevoked) {
				t.Errorf("a verifier rejects the token of %s with another error: %v", c.Name, err)
			}
			if time.Since(since) > 10*maxRefusal {
				t.Fatalf("the token of %s is still accepted: %v", c.Name, err)
			}
			<-time.After(pollInterval)
		}
	}
	return time.Since(since)
}

func (r *revocations) verifier(t *testing.T, s *install.TokenServer, policy verify.StatusPolicy) *verify.Verifier {
	t.Helper()
	v, err := verify.New(t.Context(), r.realm.Status.Issuer, verify.Options{Audience: ordersAPI, Client: s.Client(t), Status: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// withoutAPIServer stops the API server. Verifiers use the last list until it expires, and do then what they were
// told. When the API server is back, they have a new list.
func (r *revocations) withoutAPIServer(t *testing.T, other *corev1.Secret) {
	t.Helper()
	c := install.ApiClient(r.namespace, "outage", r.realm.Name, func(c *v1beta1.ApiClient) { c.Spec.Audiences = v1beta1.Audiences{ordersAPI} })
	r.inst.Create(t, c)
	scenario.AwaitUsable(t, r.inst, c)
	s := r.inst.Servers()[0]
	var token string
	install.Eventually(t, "a token with a status", func() error {
		if token = r.inst.AccessToken(t, r.inst.CredentialsSecret(t, c)); statuslist.Of(t, token).URI == "" {
			return errors.New("it has none")
		}
		return nil
	})
	strict, lenient := r.verifier(t, s, verify.StatusIfPresent), r.verifier(t, s, verify.StatusBestEffort)
	accepted := func(v *verify.Verifier) error {
		_, err := v.Verify(t.Context(), token)
		return err
	}
	for _, v := range []*verify.Verifier{strict, lenient} {
		install.Eventually(t, "a verifier that accepts the token", func() error { return accepted(v) })
	}
	r.inst.Env.StopAPIServer(t)
	stopped := time.Now()
	list, err := statuslist.Get(t.Context(), s.Client(t), statuslist.Of(t, token).URI, other)
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Unix(list.Expires, 0)
	for err = nil; err == nil; err = accepted(strict) {
		if time.Since(stopped) > 3*time.Minute {
			t.Fatal("a list has not expired")
		}
		<-time.After(pollInterval)
	}
	rejected := time.Now()
	addRow(t, errors.Is(err, verify.ErrStatusUnavailable) && rejected.Sub(expires).Abs() <= 2*defaultTTL,
		"offline verifier without the API server, last list used for", fmt.Sprintf("%s, until %s after it expired (%v)", rejected.Sub(stopped).Round(time.Second), rejected.Sub(expires).Round(10*time.Millisecond), verify.Reason(err)), "until it expires")
	addRow(t, accepted(lenient) == nil, "offline verifier with StatusBestEffort, without the API server", fmt.Sprintf("accepted: %t", accepted(lenient) == nil), "accepted")
	r.inst.Env.StartAPIServer(t)
	back := time.Now()
	install.Eventually(t, "a verifier that accepts the token again", func() error { return accepted(strict) })
	t.Logf("the verifier accepts the token %s after the API server is back", time.Since(back).Round(time.Second))
}
