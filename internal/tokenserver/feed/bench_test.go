package feed_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/contract/record/recordsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/feed"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkRecords measures how much memory a token server needs for each of 100,000 clients and
// how long it takes to load a change. The baseline is the load time with 100 clients. Medians
// ignore batches that other processes interrupted.
func BenchmarkRecords(b *testing.B) {
	const batch = 100
	few, _ := newLoadedFeed(b, 100, nil)
	many, memory := newLoadedFeed(b, 100_000, nil)
	var times [2][]time.Duration
	for turn := 0; b.Loop(); turn++ {
		for i := range times {
			n := (turn + i) % len(times)
			start := time.Now()
			for range batch {
				if err := []*loadedFeed{few, many}[n].change(); err != nil {
					b.Fatal(err)
				}
			}
			times[n] = append(times[n], time.Since(start))
		}
	}
	var medians [2]float64
	for i := range times {
		slices.Sort(times[i])
		medians[i] = float64(times[i][len(times[i])/2].Nanoseconds()) / 1e3 / batch
	}
	b.ReportMetric(memory, "KiB/client")
	b.ReportMetric(medians[0], "µs-limit")
	b.ReportMetric(medians[1], "µs")
	b.ReportMetric(medians[1]/medians[0], "ratio")
	runtime.KeepAlive(many)
}

// BenchmarkFederatedRecords measures how much memory a token server needs for each of 20,000 clients
// with 16 static claims, an identity, and the record of the subject that the client holds.
func BenchmarkFederatedRecords(b *testing.B) {
	for b.Loop() {
		many, memory := newLoadedFeed(b, 20_000, func(c *record.Client) *record.Subject {
			for i := range 16 {
				c.Claims = append(c.Claims, record.Claim{Name: fmt.Sprintf("claim-%02d", i), Value: json.RawMessage(`"aaaaaaaaaa"`)})
			}
			const issuer = "https://token.actions.githubusercontent.com"
			subject := "repo:acme/" + c.ClientID + ":environment:production"
			c.Identities = []record.Identity{{ID: "github", Issuer: issuer, IssuerName: "github", Subject: subject}}
			return &record.Subject{
				RealmUID: c.RealmUID, RealmName: c.RealmName, IssuerName: "github", Issuer: issuer, Subject: subject,
				ClientID: c.ClientID, UID: c.UID, Namespace: c.Namespace, Name: c.Name,
			}
		})
		b.ReportMetric(memory, "KiB/client")
		runtime.KeepAlive(many)
	}
}

// loadedFeed is a feed with loaded clients, and modified records for some of them.
type loadedFeed struct {
	feed    *feed.Feed
	changes []*corev1.Secret
	next    int
}

// newLoadedFeed loads the given number of clients and also returns the live heap per client in KiB.
// federate, if any, changes the record of a client and returns that of its subject.
func newLoadedFeed(b *testing.B, clients int, federate func(*record.Client) *record.Subject) (*loadedFeed, float64) {
	b.Helper()
	reg := registry.New()
	f := &loadedFeed{feed: feed.New(feed.Options{
		Registry: reg, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})}
	before := liveHeap()
	load := func() error {
		var records []any
		for i := range clients {
			body := clientBody(b, i, false)
			if federate != nil {
				subject, err := recordsecret.ForSubject("realmkeeper-system", *federate(&body))
				records = append(records, secretOf(b, subject, err))
			}
			client, err := recordsecret.ForClient("realmkeeper-system", body)
			records = append(records, secretOf(b, client, err))
		}
		return f.feed.Replace(records, "1")
	}
	testkit.Do(b, load())
	memory := float64(liveHeap()-before) / float64(clients) / (1 << 10)
	if _, got := reg.Size(); got != clients {
		b.Fatalf("loaded %d clients, want %d", got, clients)
	}
	for range min(clients, 1000) {
		changed, err := recordsecret.ForClient("realmkeeper-system", clientBody(b, mathrand.IntN(clients), true))
		f.changes = append(f.changes, secretOf(b, changed, err))
	}
	return f, memory
}

func (f *loadedFeed) change() error {
	f.next = (f.next + 1) % len(f.changes)
	return f.feed.Update(f.changes[f.next])
}

func clientBody(b *testing.B, i int, disabled bool) record.Client {
	b.Helper()
	verifier := testkit.Value(clientsecret.Hash("secret", rand.Reader))(b)
	namespace, name, now := fmt.Sprintf("team-%03d", i%1000), fmt.Sprintf("service-%07d", i), time.Now().UTC()
	uid := types.UID(fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i))
	return record.Client{
		UID: uid, Namespace: namespace, Name: name, Identity: uid,
		RealmUID: "0d3b1a52-0000-4000-8000-000000000000", RealmName: "acme", ClientID: namespace + "." + name, Disabled: disabled,
		Scopes: []string{"orders:read", "orders:write"}, Audiences: []string{"https://orders.example"},
		Secrets: []record.ClientSecret{{ID: verifier.ID(), CreatedAt: now, Hash: verifier.String()}},
	}
}

// secretOf returns the Secret of an encoded record, as a token server reads it.
func secretOf(b *testing.B, applied *corev1ac.SecretApplyConfiguration, err error) *corev1.Secret {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: *applied.Name, Namespace: *applied.Namespace, ResourceVersion: "1", Labels: applied.Labels, Annotations: applied.Annotations,
		},
		Type: corev1.SecretTypeOpaque, Data: applied.Data,
	}
}

func liveHeap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the second run clears sync.Pools
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
