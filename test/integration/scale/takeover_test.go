//go:build scale

package scale_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var takeoverTries = flag.Int("takeover.tries", 3, "Number of suspensions in each part of TestTakeover")

const (
	// kubeletDelay is how long a kubelet takes at most to notice that a container was killed.
	kubeletDelay = time.Second
	// standbyAge is how long a standby operator has run before the leader is killed.
	standbyAge = 20 * time.Second
)

// TestTakeover suspends clients just after the leader's container was killed, or the API server was away, and logs
// how long it takes from when the API server has accepted that until each token server refuses the client.
func TestTakeover(t *testing.T) {
	cluster := env.Start(t)
	t.Setenv("GOGC", "50") // of the operator, as in the chart
	inst := scenario.Running(t, cluster)
	realm := install.Realm("acme")
	inst.Create(t, realm)
	inst.AwaitReady(t, realm, metav1.ConditionTrue, v1beta1.ReasonReady)
	m := takeovers{inst: inst, namespace: create(t, inst, realm.Name, *size, 0)}
	inst.StopOperator(t)
	t.Run("standby", func(t *testing.T) {
		started := time.Now()
		replicas := []*install.Replica{inst.StartReplica(t, "a", ""), inst.StartReplica(t, "b", "")}
		m.measure(t, replicas, func(leader *install.Replica) (repair func()) {
			<-time.After(time.Until(started.Add(standbyAge)))
			leader.Kill(t)
			reported := after(kubeletDelay, func() { leader.ReportKilled(t) })
			return func() {
				<-reported
				leader.Start(t)
				started = time.Now()
			}
		})
	})
	t.Run("alone", func(t *testing.T) {
		m.measure(t, []*install.Replica{inst.StartReplica(t, "c", "")}, func(leader *install.Replica) (repair func()) {
			leader.Kill(t)
			started := after(kubeletDelay, func() { leader.Start(t) })
			return func() { <-started }
		})
	})
	t.Run("API server", func(t *testing.T) {
		m.measure(t, []*install.Replica{inst.StartReplica(t, "d", "")}, func(*install.Replica) (repair func()) {
			cluster.StopAPIServer(t)
			<-time.After(time.Second)
			cluster.StartAPIServer(t)
			return func() {}
		})
	})
}

// after calls do after a time, and closes done then.
func after(d time.Duration, do func()) (done <-chan struct{}) {
	called := make(chan struct{})
	time.AfterFunc(d, func() {
		defer close(called)
		do()
	})
	return called
}

type takeovers struct {
	inst      *install.Installation
	namespace string
	next      int // the number of the next client to suspend
}

// measure suspends clients just after a failure, and repairs it once the suspension is in effect.
func (m *takeovers) measure(t *testing.T, replicas []*install.Replica, fail func(leader *install.Replica) (repair func())) {
	t.Helper()
	var took []time.Duration
	for range *takeoverTries {
		leader := m.awaitIdle(t, replicas)
		c := &v1beta1.ApiClient{}
		if err := m.inst.Env.Client.Get(t.Context(), client.ObjectKey{Namespace: m.namespace, Name: fmt.Sprintf("client-%d", m.next)}, c); err != nil {
			t.Fatal(err)
		}
		m.next++
		m.inst.AwaitTokens(t, m.inst.CredentialsSecret(t, c), true)
		repair := fail(leader)
		if err := m.inst.Env.Client.Patch(t.Context(), c, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))); err != nil {
			t.Fatal(err)
		}
		took = append(took, m.untilRefused(t, c)...)
		repair()
	}
	slices.Sort(took)
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%d ApiClients: in effect after %s (median of %d), at most %s; load average %s",
		*size, took[len(took)/2], len(took), took[len(took)-1], strings.Join(strings.Fields(string(load))[:3], " "))
}

// awaitIdle waits until all operators are ready, and one of them has reconciled all ApiClients, and returns it.
func (m *takeovers) awaitIdle(t *testing.T, replicas []*install.Replica) (leader *install.Replica) {
	t.Helper()
	for _, r := range replicas {
		r.AwaitReady(t)
	}
	for last, since := -1, time.Now(); leader == nil || time.Since(since) < 3*time.Second; <-time.After(500 * time.Millisecond) {
		for _, r := range replicas {
			if now := reconcilesIn(t, r.Metrics(t)); now >= *size {
				leader = r
				if now != last {
					last, since = now, time.Now()
				}
			}
		}
	}
	return leader
}

// untilRefused waits until each token server refuses the client, and returns how long that took for each.
func (m *takeovers) untilRefused(t *testing.T, c *v1beta1.ApiClient) []time.Duration {
	t.Helper()
	since, credentials, servers := time.Now(), m.inst.CredentialsSecret(t, c), m.inst.Servers()
	took, clients := make([]time.Duration, len(servers)), make([]*http.Client, len(servers))
	for i, s := range servers {
		clients[i] = s.Client(t)
	}
	for pending := len(servers); pending > 0; <-time.After(10 * time.Millisecond) {
		for i, s := range servers {
			if took[i] > 0 {
				continue
			}
			a, err := install.RequestToken(t, s, clients[i], credentials)
			if err != nil {
				t.Fatal(err)
			}
			if a.Status == http.StatusUnauthorized {
				took[i] = time.Since(since).Round(10 * time.Millisecond)
				pending--
			}
		}
		if time.Since(since) > 2*time.Minute {
			t.Fatalf("%s still gets tokens after %s", c.Name, time.Since(since))
		}
	}
	return took
}
