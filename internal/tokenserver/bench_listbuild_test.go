package tokenserver_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkListBuild measures how long it takes to build and sign the list of a realm, of whose clients some
// are suspended, and the sizes of the response.
func BenchmarkListBuild(b *testing.B) {
	for _, size := range []int{1_000, 100_000} {
		for _, suspended := range []int{0, 1, 50, 100} {
			b.Run(fmt.Sprintf("%d-clients-%d%%-suspended", size, suspended), func(b *testing.B) { benchmarkListBuild(b, size, suspended) })
		}
	}
}

func benchmarkListBuild(b *testing.B, size, suspended int) {
	at := now
	s := start(b, func(o *tokenserver.Options) {
		o.Confirmed, o.Now = func() time.Time { return confirmed }, func() time.Time { return at }
	})
	capacity := 1024
	for capacity < size {
		capacity *= 2
	}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	var clients []*registry.Client
	var held []registry.Index
	for i, index := range random.Perm(capacity)[:size] {
		held = append(held, registry.Index{RealmUID: "uid-acme", Index: index})
		clients = append(clients, &registry.Client{
			Record: fmt.Sprintf("client-%064x", i), UID: fmt.Sprintf("uid-%d", i), RealmUID: "uid-acme", ID: fmt.Sprintf("team.client-%d", i),
			StatusIndex: &record.StatusIndex{Index: index}, Disabled: i*100 < suspended*size,
		})
	}
	realm := newRealm(b, "acme", func(r *registry.RealmSettings) { r.StatusLists = lists() })
	s.registry.Replace([]*registry.Realm{realm}, clients, nil, held, func(string) bool { return false })
	client := s.direct()
	var plain, compressed response
	for b.Loop() {
		at = at.Add(time.Second)
		s.registry.SetClient(clients[0]) // a change, so that the list is built
		plain = s.send(b, client, request{method: "GET", path: currentList})
	}
	compressed = s.send(b, client, request{method: "GET", path: currentList, header: map[string][]string{"Accept-Encoding": {"gzip"}}})
	b.ReportMetric(float64(len(plain.body)), "bytes")
	b.ReportMetric(float64(len(compressed.body)), "gzip-bytes")
}
