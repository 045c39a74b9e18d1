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
	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/scenario"
)

var bystanders = flag.Int("bystanders", 1000, "Number of other clients that are loaded during the measurement; docs/operations.md describes longer runs")

// BenchmarkRevocation measures the time from when the API server accepts the revocation of a client
// or a secret until every token server rejects it. It reports percentiles in milliseconds.
func BenchmarkRevocation(b *testing.B) {
	cluster := env.Start(b)
	inst := install.New(b, cluster, install.Settings{})
	inst.StartOperator(b, "")
	inst.StartTokenServer(b)
	inst.StartTokenServer(b)
	realm := newRealm(b)
	inst.Create(b, realm)
	createClients(b, inst, cluster.Namespace(b), realm.Name, *bystanders)
	team := cluster.Namespace(b)

	n := 0
	next := func() (*v1alpha1.ApiClient, *corev1.Secret) {
		n++
		c := install.ApiClient(team, fmt.Sprintf("client-%d", n), "acme")
		inst.Create(b, c)
		inst.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		return c, inst.CredentialsSecret(b, c)
	}
	// revoked measures a change that revokes a client. It uses a different client each time, because
	// token servers delay responses after repeated failures of the same client.
	revoked := func(revoke func(*v1alpha1.ApiClient)) func(*testing.B) {
		return func(b *testing.B) {
			measure(b, func() time.Duration {
				c, credentials := next()
				revoke(c)
				return untilRejected(b, inst, credentials)
			})
		}
	}
	changed := func(change func(*v1alpha1.ApiClient)) func(*testing.B) {
		return revoked(func(c *v1alpha1.ApiClient) { install.Change(b, inst, c, change) })
	}
	b.Run("delete", revoked(func(c *v1alpha1.ApiClient) { inst.Delete(b, c) }))
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
			return untilRejected(b, inst, old)
		})
	})
	b.Run("suspend realm", func(b *testing.B) {
		measure(b, func() time.Duration {
			c, credentials := next()
			install.Change(b, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = true })
			took := untilRejected(b, inst, credentials)
			install.Change(b, inst, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = false })
			inst.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			return took
		})
	})
}

// hashed generates a secret and returns a change that sets its hash in an ApiClient.
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

// untilRejected requests tokens from every token server, and returns the time until the last of
// them rejects a request.
func untilRejected(b *testing.B, inst *install.Installation, credentials *corev1.Secret) time.Duration {
	b.Helper()
	begin := time.Now()
	var requesting sync.WaitGroup
	for _, s := range inst.Servers() {
		requesting.Go(func() {
			httpClient := s.Client(b)
			for time.Since(begin) < time.Minute {
				a, err := install.RequestToken(b, s, httpClient, credentials)
				if err != nil || a.Status != http.StatusOK {
					if err != nil {
						b.Error(err)
					}
					return
				}
			}
			b.Errorf("%s still issues tokens after a minute", s.Name)
		})
	}
	requesting.Wait()
	return time.Since(begin)
}
