package registry_test

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkLookup measures how long it takes to find a client and check its secret. The baseline is
// a realm with 10 clients. With ten active clients, the client data is in the CPU cache in both
// realms, so the ratio compares only the work. With all clients active, the data must be read from
// memory.
func BenchmarkLookup(b *testing.B) {
	const most = 1_000_000
	few := newLookup(b, 10)
	for _, size := range []int{1_000, 100_000, most} {
		b.Run(fmt.Sprintf("%d-ten-active", size), func(b *testing.B) {
			many := newLookup(b, size)
			compare(b, few.pass(10, few.authenticate), many.pass(10, many.authenticate))
		})
	}
	b.Run(fmt.Sprintf("%d-all-active", most), func(b *testing.B) {
		many := newLookup(b, most)
		known := many.realm.Client(clientID(0))
		lookup := many.pass(most, func(id string) bool { return many.realm.Client(id) != nil })
		check := many.pass(most, func(string) bool { return clientsecret.VerifyHMAC(known.Secrets, many.secret, time.Time{}) != nil })
		times := compare(b, few.pass(10, few.authenticate), many.pass(most, many.authenticate), lookup, check)
		b.ReportMetric(times[2], "µs-lookup")
		b.ReportMetric(times[3], "µs-check")
	})
}

// compare runs the passes alternately and returns the median time of each in microseconds. The
// first pass is the baseline for the second. Medians ignore passes that other processes
// interrupted.
func compare(b *testing.B, passes ...func() time.Duration) []float64 {
	b.Helper()
	times := make([][]time.Duration, len(passes))
	for turn := 0; b.Loop(); turn++ {
		for i := range passes {
			n := (turn + i) % len(passes)
			times[n] = append(times[n], passes[n]())
		}
	}
	medians := make([]float64, len(passes))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = float64(times[i][len(times[i])/2].Nanoseconds()) / 1e3 / passSize
	}
	b.ReportMetric(medians[0], "µs-limit")
	b.ReportMetric(medians[1], "µs")
	b.ReportMetric(medians[1]/medians[0], "ratio")
	return medians
}

// passSize is the number of calls in a pass. Passes are short, so that few are interrupted by other
// processes.
const passSize = 1 << 8

// lookup is a realm whose clients have the same secret with different salts.
type lookup struct {
	realm  *registry.Realm
	secret string
	size   int
}

// lookups caches the realms by size, because creating a million clients takes seconds.
var lookups = map[int]*lookup{}

func newLookup(b *testing.B, size int) *lookup {
	b.Helper()
	if lookups[size] != nil {
		return lookups[size]
	}
	secret := testkit.Value(clientsecret.Generate(rand.Reader))(b)
	key := testkit.Value(signingkey.Generate(signingkey.EdDSA, time.Now(), rand.Reader))(b)
	key.State = signingkey.Active
	realm, err := registry.NewRealm(registry.RealmSettings{
		UID: "realm", Name: "bench", Issuer: "https://bench.example/bench", TokenLifetime: time.Minute, KeyCache: time.Minute,
		Keys: []signingkey.Key{key},
	})
	if err != nil {
		b.Fatal(err)
	}
	reg := registry.New()
	reg.SetRealm(realm)
	for i := range size {
		verifier := testkit.Value(clientsecret.Hash(secret, rand.Reader))(b)
		reg.SetClient(&registry.Client{
			Record: fmt.Sprintf("client-%064x", i), UID: fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i), RealmUID: realm.UID, ID: clientID(i),
			Audiences: []string{"https://orders.example"}, Secrets: []clientsecret.Stored{{Verifier: verifier}},
		})
	}
	lookups[size] = &lookup{realm: realm, secret: secret, size: size}
	return lookups[size]
}

func (l *lookup) authenticate(id string) bool {
	client := l.realm.Client(id)
	return client != nil && clientsecret.VerifyHMAC(client.Secrets, l.secret, time.Time{}) != nil
}

// pass returns a function that times calls with the IDs of random active clients. The time excludes
// generating the IDs, because a real server has the ID in memory after reading the request.
func (l *lookup) pass(active int, call func(id string) bool) func() time.Duration {
	ids := make([]string, passSize)
	return func() time.Duration {
		for i := range ids {
			ids[i] = clientID(mathrand.IntN(active) * (l.size / active))
		}
		start := time.Now()
		for _, id := range ids {
			if !call(id) {
				panic("client " + id + " or its secret was not found")
			}
		}
		return time.Since(start)
	}
}

// clientID returns a client ID as long as a typical <namespace>.<name>.
func clientID(i int) string { return fmt.Sprintf("team-%03d.service-%07d", i%1000, i) }
