package metrics

import (
	"context"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// ClientCollector is a prometheus.Collector that counts ApiClients by realm and state, and their stale
// credentials by realm, whenever metrics are scraped. A label for each client would create too many
// time series.
type ClientCollector struct {
	cache          cache.Cache
	all            iter.Seq[*v1beta1.ApiClient]
	staleAfter     time.Duration
	now            func() time.Time
	clients, stale *prometheus.Desc
}

// NewClientCollector returns a collector that counts all ApiClients, by the Realms in the cache. A credential is
// stale if it has been unused for staleAfter. The collector doesn't list the ApiClients from the cache, because
// a list copies them.
func NewClientCollector(cache cache.Cache, all iter.Seq[*v1beta1.ApiClient], staleAfter time.Duration, now func() time.Time) *ClientCollector {
	return &ClientCollector{
		cache: cache, all: all, staleAfter: staleAfter, now: now,
		clients: prometheus.NewDesc("realmkeeper_clients",
			`ApiClients by realm and state, which is "Ready" or the reason why the client is not Ready. The realm is empty if it does not exist. Each replica of the operator reports all ApiClients.`,
			[]string{"realm", "state"}, nil),
		stale: prometheus.NewDesc("realmkeeper_stale_credentials",
			"Credentials of ApiClients that have been unused for usage.staleAfter. The realm is empty if it does not exist. Each replica of the operator reports all credentials.",
			[]string{"realm"}, nil),
	}
}

// collectTimeout limits how long Collect waits for the cache to sync.
const collectTimeout = time.Second

// Describe sends the descriptors of the metrics.
func (c *ClientCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.clients
	descriptions <- c.stale
}

// Collect counts the clients. It sends nothing if the cache cannot be read.
func (c *ClientCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	realms := &v1beta1.RealmList{}
	if !c.cache.WaitForCacheSync(ctx) || c.cache.List(ctx, realms) != nil {
		return
	}
	stale := make(map[string]int, len(realms.Items)+1)
	for i := range realms.Items {
		stale[realms.Items[i].Name] = 0
	}
	counts := map[[2]string]int{}
	limit := c.now().Add(-c.staleAfter)
	for client := range c.all {
		realm := client.Spec.RealmRef.Name
		if _, exists := stale[realm]; !exists {
			realm = "" // Names of nonexistent Realms are unbounded, so they must not become label values.
		}
		counts[[2]string{realm, state(client)}]++
		for i := range client.Status.Credentials {
			if client.UnusedSince(&client.Status.Credentials[i]).Before(limit) {
				stale[realm]++
			}
		}
	}
	for labels, n := range counts {
		metrics <- prometheus.MustNewConstMetric(c.clients, prometheus.GaugeValue, float64(n), labels[:]...)
	}
	for realm, n := range stale {
		metrics <- prometheus.MustNewConstMetric(c.stale, prometheus.GaugeValue, float64(n), realm)
	}
}

// state returns the reason of the Ready condition. All reasons are constants.
func state(c *v1beta1.ApiClient) string {
	ready := meta.FindStatusCondition(c.Status.Conditions, string(v1beta1.ConditionReady))
	switch {
	case ready == nil:
		return string(v1beta1.ReasonProgressing)
	case ready.Status == metav1.ConditionTrue:
		return string(v1beta1.ReasonReady)
	}
	return ready.Reason
}
