package clients_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

const (
	noisyClients = 1000
	rounds       = 5
	// suspensions is the number of suspensions in each round under each load, and calm the time for
	// which only tokens are measured.
	suspensions = 20
	calm        = 10 * time.Second
	// tokenInterval is the time between two token requests to the same server.
	tokenInterval = 10 * time.Millisecond
)

// BenchmarkNoisyTenant measures another tenant while one tenant makes 100 writes per second to 1,000
// ApiClients with slow hashes and their Secrets: the time until every token server rejects a
// suspended client, and the latency of token requests. It compares them with the same load in a
// namespace that the operator ignores; the two loads alternate. Run it with -benchtime=1x.
func BenchmarkNoisyTenant(b *testing.B) {
	cluster := env.Start(b)
	inst := install.New(b, cluster, install.Settings{})
	inst.StartOperator(b, "")
	inst.StartTokenServer(b)
	inst.StartTokenServer(b)
	inst.Create(b, install.Realm("acme"))
	team := cluster.Namespace(b)
	var victims []*v1alpha1.ApiClient
	for i := range 2*rounds*suspensions + 1 {
		victims = append(victims, install.ApiClient(team, fmt.Sprintf("victim-%d", i), "acme"))
		inst.Create(b, victims[i])
	}
	noisy := &tenant{inst: inst, namespace: cluster.Namespace(b), size: noisyClients}
	ignored := &tenant{inst: inst, namespace: cluster.Namespace(b), size: noisyClients, ignored: true}
	ignored.create(b)
	noisy.create(b)
	noisy.awaitReady(b)
	tokens := inst.CredentialsSecret(b, victims[len(victims)-1])
	inst.AwaitTokens(b, tokens, true)

	loads := []*measurement{{tenant: ignored}, {tenant: noisy}}
	for b.Loop() {
		for range rounds {
			for _, m := range loads {
				m.run(b, tokens, victims[:suspensions])
				victims = victims[suspensions:]
			}
		}
	}
	for name, values := range map[string]func(*measurement) []time.Duration{
		"token":   func(m *measurement) []time.Duration { return m.tokens },
		"refusal": func(m *measurement) []time.Duration { return m.refusals },
	} {
		baseline, noise := milliseconds(values(loads[0]), 99), milliseconds(values(loads[1]), 99)
		b.ReportMetric(baseline, name+"-p99-ignored-ms")
		b.ReportMetric(noise, name+"-p99-ms")
		b.ReportMetric(noise/baseline, name+"-p99-ratio")
	}
	b.ReportMetric(milliseconds(loads[1].refusals, 50), "refusal-p50-ms")
}

// waiting returns the number of clients that are not Ready.
func (o *tenant) waiting(t testing.TB) int {
	t.Helper()
	return o.count(t, func(c *v1alpha1.ApiClient) bool {
		return !meta.IsStatusConditionTrue(c.Status.Conditions, string(v1alpha1.ConditionReady))
	})
}

// awaitReady waits until all ApiClients are Ready.
func (o *tenant) awaitReady(b *testing.B) {
	b.Helper()
	for o.waiting(b) > 0 {
		time.Sleep(time.Second)
	}
}

// measurement contains the times that were measured while a tenant makes noise.
type measurement struct {
	tenant           *tenant
	writes           int
	tokens, refusals []time.Duration
}

// run measures token requests, then the suspensions of the given clients.
func (m *measurement) run(b *testing.B, credentials *corev1.Secret, clients []*v1alpha1.ApiClient) {
	b.Helper()
	inst := m.tenant.inst
	stop := m.tenant.makeNoise(b, m.writes)
	m.tokens = append(m.tokens, requestTokens(b, inst, credentials, calm)...)
	for _, c := range clients {
		credentials := inst.CredentialsSecret(b, c)
		install.Change(b, inst, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
		m.refusals = append(m.refusals, untilRejected(b, inst, credentials))
	}
	m.writes = stop()
	m.tenant.awaitReady(b)
}

// requestTokens requests tokens from every server at a constant rate and returns the latencies.
func requestTokens(b *testing.B, inst *install.Installation, credentials *corev1.Secret, duration time.Duration) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var latencies []time.Duration
	var requesting sync.WaitGroup
	for _, s := range inst.Servers() {
		requesting.Go(func() {
			httpClient := s.Client(b)
			ticker := time.NewTicker(tokenInterval)
			defer ticker.Stop()
			for begin := time.Now(); time.Since(begin) < duration; <-ticker.C {
				sent := time.Now()
				a, err := install.RequestToken(b, s, httpClient, credentials)
				took := time.Since(sent)
				if err != nil || a.Status != http.StatusOK {
					b.Errorf("%s responded with %d: %v", s.Name, a.Status, err)
					return
				}
				mu.Lock()
				latencies = append(latencies, took)
				mu.Unlock()
			}
		})
	}
	requesting.Wait()
	return latencies
}

// untilRejected returns the time until every token server rejects a client.
func untilRejected(b *testing.B, inst *install.Installation, credentials *corev1.Secret) time.Duration {
	b.Helper()
	begin := time.Now()
	var requesting sync.WaitGroup
	for _, s := range inst.Servers() {
		requesting.Go(func() {
			httpClient := s.Client(b)
			for time.Since(begin) < time.Minute {
				if a, err := install.RequestToken(b, s, httpClient, credentials); err != nil || a.Status != http.StatusOK {
					return
				}
			}
			b.Errorf("%s still issues tokens after a minute", s.Name)
		})
	}
	requesting.Wait()
	return time.Since(begin)
}

func milliseconds(times []time.Duration, percentile int) float64 {
	slices.Sort(times)
	return float64(times[(len(times)-1)*percentile/100].Microseconds()) / 1000
}
