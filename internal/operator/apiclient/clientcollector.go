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

// Census counts ApiClients whenever metrics are read: by realm and by what Ready says, for a
// label of their own would be too many. It is a prometheus.Collector.
type Census struct {
	cache   client.Reader
	clients *prometheus.Desc
}

// NewCensus returns a census of what a cache holds.
func NewCensus(cache client.Reader) *Census {
	return &Census{cache: cache, clients: prometheus.NewDesc("realmkeeper_clients",
		`ApiClients by realm and by state: "Ready", or the reason why not. The realm is empty where it doesn't exist. Each replica of the operator counts all.`,
		[]string{"realm", "state"}, nil)}
}

// censusTimeout bounds the wait for a cache that is not filled yet.
const censusTimeout = time.Second

// Describe tells what is counted.
func (c *Census) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.clients }

// Collect counts. There is no count while the cache can't be read.
func (c *Census) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), censusTimeout)
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
			realm = "" // anybody can name anything
		}
		counts[[2]string{realm, state(&clients.Items[i])}]++
	}
	for labels, n := range counts {
		metrics <- prometheus.MustNewConstMetric(c.clients, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

// state is the reason of Ready. There are as many as there are constants.
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
