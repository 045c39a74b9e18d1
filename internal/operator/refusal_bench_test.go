package operator_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/testenv"
	"github.com/realmkeeper/realmkeeper/internal/testinstall"
)

// bystanders are other clients that are loaded while refusals are measured.
const bystanders = 1000

// BenchmarkRefusal measures how long it takes from the API server's answer to a delete or
// suspend until every token server refuses the client. Reported are percentiles in milliseconds.
func BenchmarkRefusal(b *testing.B) {
	env := testenv.Start(b)
	install := testinstall.New(b, env, testinstall.Settings{})
	install.StartOperator(b, "")
	install.StartTokenServer(b)
	install.StartTokenServer(b)
	realm := testinstall.Realm("acme")
	install.Create(b, realm)
	team := env.Namespace(b)
	for i := range bystanders {
		install.Create(b, testinstall.ApiClient(team, fmt.Sprintf("bystander-%d", i), "acme"))
	}
	install.AwaitSettled(b)

	n := 0
	next := func() (*v1alpha1.ApiClient, *corev1.Secret) {
		n++
		c := testinstall.ApiClient(team, fmt.Sprintf("client-%d", n), "acme")
		install.Create(b, c)
		install.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
		return c, install.ConsumerSecret(b, c)
	}
	b.Run("delete", func(b *testing.B) {
		measure(b, func() time.Duration {
			c, consumer := next()
			install.Delete(b, c)
			return untilRefused(b, install, consumer)
		})
	})
	c, consumer := next()
	b.Run("suspend client", func(b *testing.B) {
		measure(b, func() time.Duration {
			testinstall.Change(b, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = true })
			took := untilRefused(b, install, consumer)
			testinstall.Change(b, install, c, func(c *v1alpha1.ApiClient) { c.Spec.Suspend = false })
			install.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			return took
		})
	})
	b.Run("suspend realm", func(b *testing.B) {
		measure(b, func() time.Duration {
			testinstall.Change(b, install, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = true })
			took := untilRefused(b, install, consumer)
			testinstall.Change(b, install, realm, func(r *v1alpha1.Realm) { r.Spec.Suspend = false })
			install.AwaitReady(b, c, metav1.ConditionTrue, v1alpha1.ReasonReady)
			return took
		})
	})
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
func untilRefused(b *testing.B, install *testinstall.Installation, consumer *corev1.Secret) time.Duration {
	b.Helper()
	begin := time.Now()
	var asking sync.WaitGroup
	for _, s := range install.Servers() {
		asking.Go(func() {
			httpClient := s.Client(b)
			for time.Since(begin) < time.Minute {
				a, err := testinstall.RequestToken(b, s, httpClient, consumer)
				if err != nil || a.Status == http.StatusUnauthorized {
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
