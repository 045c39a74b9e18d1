package scale_test

import (
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	env "github.com/realmkeeper/realmkeeper/test/framework/env"
	install "github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var bystanders = flag.Int("bystanders", 1000, "how many other clients are loaded while refusals are measured; docs/operations.md says how to go further")

// BenchmarkRefusal measures how long it takes from the API server's answer to what ends a
// client's right to tokens, or a secret's, until every token server refuses it. Reported are
// percentiles in milliseconds.
func BenchmarkRefusal(b *testing.B) {
	cluster := env.Start(b)
	inst := install.New(b, cluster, install.Settings{})
	inst.StartOperator(b, "")
	inst.StartTokenServer(b)
	inst.StartTokenServer(b)
	realm := install.Realm("acme")
	inst.Create(b, realm)
	crowd(b, inst, cluster.Namespace(b), realm.Name, *bystanders)
	team := cluster.Namespace(b)

	n := 0
	next := func() (*v1alpha1.ApiClient, *corev1.Secret) {
		n++
		c := install.ApiClient(team, fmt.Sprintf("client-%d", n), "acme")
		inst.Create(b, c)
		inst.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		return c, inst.ConsumerSecret(b, c)
	}
	// taken measures a change that takes tokens from a client. Each time it is another one: who
	// is refused for one client again and again is answered late.
	taken := func(take func(*v1alpha1.ApiClient)) func(*testing.B) {
		return func(b *testing.B) {
			measure(b, func() time.Duration {
				c, consumer := next()
				take(c)
				return untilRefused(b, inst, consumer)
			})
		}
	}
	changed := func(change func(*v1alpha1.ApiClient)) func(*testing.B) {
		return taken(func(c *v1alpha1.ApiClient) { install.Change(b, inst, c, change) })
	}
	b.Run("delete", taken(func(c *v1alpha1.ApiClient) { inst.Delete(b, c) }))
	b.Run("suspend client", changed(func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true }))
	b.Run("expire", changed(func(c *v1alpha1.ApiClient) { c.Spec.ExpiresAt = &metav1.Time{Time: time.Now().Add(-time.Minute)} }))
	b.Run("change hash", func(b *testing.B) {
		measure(b, func() time.Duration {
			n++
			secret, hash := hashed(b)
			c := install.ApiClient(team, fmt.Sprintf("hashed-%d", n), "acme", hash)
			inst.Create(b, c)
			inst.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			old := scenario.Credentials(c, secret)
			_, another := hashed(b)
			install.Change(b, inst, c, another)
			return untilRefused(b, inst, old)
		})
	})
	b.Run("suspend realm", func(b *testing.B) {
		measure(b, func() time.Duration {
			c, consumer := next()
			install.Change(b, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = true })
			took := untilRefused(b, inst, consumer)
			install.Change(b, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = false })
			inst.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			return took
		})
	})
}

// hashed makes a secret, and lets an ApiClient have its hash alone.
func hashed(b *testing.B) (secret string, set func(*v1alpha1.ApiClient)) {
	b.Helper()
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	verifier, err := clientsecret.Hash(secret, rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	return secret, func(c *v1alpha1.ApiClient) {
		c.Spec.Secret = &v1alpha1.ClientSecretSource{Hashed: []v1alpha1.HashedSecret{{ID: "only", Hash: verifier.String()}}}
	}
}

func measure(b *testing.B, once func() time.Duration) {
	b.Helper()
	var times []time.Duration
	for b.Loop() {
		times = append(times, once())
	}
	slices.Sort(times)
	percentile := func(p int) float64 { return float64(times[(len(times)-1)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(percentile(50), "p50-ms")
	b.ReportMetric(percentile(99), "p99-ms")
	b.ReportMetric(percentile(100), "max-ms")
}

// untilRefused asks every token server until it refuses, and returns when the last did.
func untilRefused(b *testing.B, inst *install.Installation, consumer *corev1.Secret) time.Duration {
	b.Helper()
	begin := time.Now()
	var asking sync.WaitGroup
	for _, s := range inst.Servers() {
		asking.Go(func() {
			httpClient := s.Client(b)
			for time.Since(begin) < time.Minute {
				a, err := install.RequestToken(b, s, httpClient, consumer)
				if err != nil || a.Status != http.StatusOK {
					if err != nil {
						b.Error(err)
					}
					return
				}
			}
			b.Errorf("%s still gives tokens after a minute", s.Name)
		})
	}
	asking.Wait()
	return time.Since(begin)
}
