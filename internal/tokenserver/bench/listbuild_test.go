package bench_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
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
	at := time.Now()
	confirmed := at.Add(-3 * time.Second)
	reg := registry.New()
	handler := benchHandler(reg, func(o *tokenserver.Options) {
		o.Confirmed, o.Now = func() time.Time { return confirmed }, func() time.Time { return at }
	})
	realm := benchRealm(b, "acme", signingkey.ES256, func(r *registry.RealmSettings) {
		r.StatusLists = &record.StatusLists{Number: 1, TTLSeconds: 10}
	})
	capacity := 1024
	for capacity < size {
		capacity *= 2
	}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	var clients []*registry.Client
	var held []registry.Index
	for i, index := range random.Perm(capacity)[:size] {
		held = append(held, registry.Index{RealmUID: realm.UID, Index: index})
		clients = append(clients, &registry.Client{
			Record: fmt.Sprintf("client-%064x", i), UID: fmt.Sprintf("uid-%d", i), RealmUID: realm.UID, ID: fmt.Sprintf("team.client-%d", i),
			StatusIndex: &record.StatusIndex{Index: index}, Disabled: i*100 < suspended*size,
		})
	}
	reg.Replace([]*registry.Realm{realm}, clients, nil, held, func(string) bool { return false })
	get := func(header string) int {
		return responseTo(b, handler, fmt.Appendf(nil, "GET /acme%s1 HTTP/1.1\r\nHost: %s\r\n%s\r\n", oauth.StatusListPath, host, header)).Body.Len()
	}
	plain := 0
	for b.Loop() {
		at = at.Add(time.Second)
		reg.SetClient(clients[0]) // a change, so that the list is built
		plain = get("")
	}
	b.ReportMetric(float64(plain), "bytes")
	b.ReportMetric(float64(get("Accept-Encoding: gzip\r\n")), "gzip-bytes")
}
