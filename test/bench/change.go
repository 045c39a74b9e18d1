package main

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/record"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	fewClients  = 100
	manyClients = 100_000
)

// changes measures what a token server needs for the records of many clients: memory,
// and the time to take one change. Records go through the registry feed, as a watch
// would bring them.
func changes() experiment {
	return experiment{
		rows: []row{
			{name: "memory/client of " + count(manyClients), unit: kibibytes, judge: itself(kibibytes), target: atMost(1.5)},
			{
				name: "change/" + count(manyClients) + " : " + count(fewClients), unit: microseconds, judge: ratio, target: atMost(2),
				limit: "the same with 100 clients",
			},
		},
		prepare: prepareChanges,
	}
}

func prepareChanges(part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	few, _, err := newFeeding(fewClients)
	if err != nil {
		return nil, nil, err
	}
	many, memory, err := newFeeding(manyClients)
	if err != nil {
		return nil, nil, err
	}
	round = func(turn int) ([]sample, error) {
		withFew, withMany, err := compareCosts(turn, part/2, few.change, many.change)
		return []sample{{measured: memory}, {measured: withMany.time, limit: withFew.time}}, err
	}
	return round, func() { runtime.KeepAlive(many) }, nil
}

// feeding is a feed whose registry holds clients, with records of some of them to change.
type feeding struct {
	feed    *feed.Feed
	changed []*corev1.Secret
	next    int
}

// newFeeding loads that many clients, and returns the memory that each takes, in KiB of
// live heap.
func newFeeding(clients int) (*feeding, float64, error) {
	reg := registry.New()
	f := &feeding{feed: feed.New(feed.Options{
		Registry: reg, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})}
	before := liveHeap()
	if err := f.load(clients); err != nil {
		return nil, 0, err
	}
	each := float64(liveHeap()-before) / float64(clients) / (1 << 10)
	if _, got := reg.Size(); got != clients {
		return nil, 0, fmt.Errorf("%w: %d clients loaded, want %d", errAnswer, got, clients)
	}
	for range min(clients, 1000) {
		secret, err := clientRecord(mathrand.IntN(clients), true) //nolint:gosec // It only chooses what changes.
		if err != nil {
			return nil, 0, err
		}
		f.changed = append(f.changed, secret)
	}
	return f, each, nil
}

func (f *feeding) load(clients int) error {
	list := make([]any, 0, clients)
	for i := range clients {
		secret, err := clientRecord(i, false)
		if err != nil {
			return err
		}
		list = append(list, secret)
	}
	return f.feed.Replace(list, "1")
}

func (f *feeding) change() error {
	f.next = (f.next + 1) % len(f.changed)
	return f.feed.Update(f.changed[f.next])
}

func clientRecord(i int, disabled bool) (*corev1.Secret, error) {
	verifier, err := clientsecret.Hash("secret", rand.Reader)
	if err != nil {
		return nil, err
	}
	owner := &v1alpha1.ApiClient{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprintf("team-%03d", i%1000), Name: fmt.Sprintf("service-%07d", i),
		UID: types.UID(fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i)),
	}}
	now := time.Now().UTC()
	applied, err := record.ForClient("realmkeeper-system", owner, record.Client{
		RealmUID: "0d3b1a52-0000-4000-8000-000000000000", ClientID: clientID(i), CreatedAt: now, Disabled: disabled,
		Scopes:  []string{"orders:read", "orders:write"},
		Secrets: []record.ClientSecret{{ID: verifier.ID(), CreatedAt: now, Hash: verifier.String()}},
	})
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: *applied.Name, Namespace: *applied.Namespace, ResourceVersion: "1",
			Labels: applied.Labels, Annotations: applied.Annotations,
		},
		Type: corev1.SecretTypeOpaque, Data: applied.Data,
	}, nil
}

func liveHeap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one empties the pools
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
