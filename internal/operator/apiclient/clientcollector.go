package apiclient

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
)

// ClientCollector is a prometheus.Collector that counts ApiClients by realm and state whenever
// metrics are scraped. A label for each client would create too many time series.
type ClientCollector struct {
	cache   client.Reader
	clients *prometheus.Desc
}

// NewClientCollector returns a collector that counts the ApiClients in the cache.
func NewClientCollector(cache client.Reader) *ClientCollector {
	return &ClientCollector{cache: cache, clients: prometheus.NewDesc("realmkeeper_clients",
		`ApiClients by realm and state, which is "Ready" or the reason why the client is not Ready. The realm is empty if it does not exist. Each replica of the operator reports all ApiClients.`,
		[]string{"realm", "state"}, nil)}
}

// collectTimeout limits how long Collect waits for the cache to sync.
const collectTimeout = time.Second

// Describe sends the descriptor of the metric.
func (c *ClientCollector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.clients }

// Collect counts the clients. It sends nothing if the cache cannot be read.
func (c *ClientCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	realms, clients := &v1alpha1.RealmList{}, &v1alpha1.ApiClientList{}
	if c.cache.List(ctx, realms, client.UnsafeDisableDeepCopy) != nil || c.cache.List(ctx, clients, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	exists := make(map[string]bool, len(realms.Items))
	for i := range realms.Items {
		exists[realms.Items[i].Name] = true
	}
	counts := map[[2]string]int{}
	for i := range clients.Items {
		realm := clients.Items[i].Spec.RealmRef.Name
		if !exists[realm] {
			realm = "" // Names of nonexistent Realms are unbounded, so they must not become label values.
		}
		counts[[2]string{realm, state(&clients.Items[i])}]++
	}
	for labels, n := range counts {
		metrics <- prometheus.MustNewConstMetric(c.clients, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

// state returns the reason of the Ready condition. All reasons are constants.
func state(c *v1alpha1.ApiClient) string {
	ready := meta.FindStatusCondition(c.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case ready == nil:
		return string(v1alpha1.ReasonProgressing)
	case ready.Status == metav1.ConditionTrue:
		return string(v1alpha1.ReasonReady)
	}
	return ready.Reason
}
