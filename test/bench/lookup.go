package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

var lookupSizes = []int{10, 1_000, 100_000, 1_000_000}

// fewAsk is how many clients of a crowd ask when all are to be in the CPU's caches.
const fewAsk = 10

// lookups measures finding a client and checking its secret, by the number of clients in
// the realm. Where the same few ask of every crowd, what differs is the work. Where any may ask,
// it is also memory: nearly nothing of one client among a million is in a cache.
func lookups() experiment {
	most := count(lookupSizes[len(lookupSizes)-1])
	rows := []row{{
		name: "lookup/time of " + most + " clients, any asks", unit: microseconds, judge: itself(microseconds), target: atMost(2),
		parts: []string{"look-up", "check"},
	}}
	for _, size := range lookupSizes[1:] {
		rows = append(rows, row{
			name: "lookup/" + count(size) + " : 10 clients, ten ask", unit: microseconds, judge: ratio, target: atMost(2),
			limit: "the same with 10 clients in the realm; where ten ask of every realm, work is compared, and where any asks, also memory that no cache holds",
		})
	}
	return experiment{
		rows: append(rows, row{
			name: "lookup/" + most + " : 10 clients, any asks", unit: microseconds, judge: ratio, limit: rows[len(rows)-1].limit,
		}),
		prepare: prepareLookups,
	}
}

func prepareLookups(part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	secret, err := clientsecret.Generate(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	crowds := make([]*crowd, 0, len(lookupSizes))
	for _, size := range lookupSizes {
		c, err := newCrowd(size, secret)
		if err != nil {
			return nil, nil, err
		}
		crowds = append(crowds, c)
	}
	most := crowds[len(crowds)-1]
	known := most.realm.Client(clientID(0))
	part /= 4 // there are many parts

	round = func(turn int) ([]sample, error) {
		var alone, check, mixed float64
		few := make([]float64, len(crowds))
		parts := []func() error{
			func() (err error) {
				alone, err = timeOf(part, most.size, most.size, func(id string) bool { return most.realm.Client(id) != nil })
				return err
			},
			func() (err error) {
				check, err = timeOf(part, most.size, most.size, func(string) bool { return clientsecret.VerifyHMAC(known.Secrets, secret, time.Time{}) != nil })
				return err
			},
			func() (err error) { mixed, err = timeOf(part, most.size, most.size, most.authenticate); return err },
		}
		for i, c := range crowds {
			parts = append(parts, func() (err error) { few[i], err = timeOf(part, c.size, fewAsk, c.authenticate); return err })
		}
		err := inTurn(turn, parts...)
		samples := []sample{{measured: mixed, parts: []float64{alone, check}}}
		for _, t := range few[1:] {
			samples = append(samples, sample{measured: t, limit: few[0]})
		}
		return append(samples, sample{measured: mixed, limit: few[0]}), err
	}
	return round, func() {}, nil
}

// crowd is a realm of many clients, who all have the same secret under salts of their own.
type crowd struct {
	realm  *registry.Realm
	secret string
	size   int
}

func newCrowd(size int, secret string) (*crowd, error) {
	realm, err := newRealm(fmt.Sprintf("crowd-%d", size), signingkey.EdDSA)
	if err != nil {
		return nil, err
	}
	reg := registry.New()
	reg.SetRealm(realm)
	for i := range size {
		client, err := newClient(realm.UID, i, secret)
		if err != nil {
			return nil, err
		}
		reg.SetClient(client)
	}
	return &crowd{realm: realm, secret: secret, size: size}, nil
}

func (c *crowd) authenticate(id string) bool {
	client := c.realm.Client(id)
	return client != nil && clientsecret.VerifyHMAC(client.Secrets, c.secret, time.Time{}) != nil
}

var errNotFound = errors.New("a client or its secret was refused")

// timeOf returns how many microseconds do takes with the id of a random one among asking of
// size clients: the median of several passes that take the duration together. Choosing
// the ids and writing them, as a request would bring them, doesn't count.
func timeOf(about time.Duration, size, asking int, do func(id string) bool) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var (
		ids    = make([]string, 1<<12)
		passes []float64
	)
	for end := time.Now().Add(about); time.Now().Before(end); {
		for i := range ids {
			ids[i] = clientID(mathrand.IntN(asking) * (size / asking)) //nolint:gosec // It only chooses who asks.
		}
		start := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
		for _, id := range ids {
			if !do(id) {
				return 0, errNotFound
			}
		}
		elapsed := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) - start
		passes = append(passes, float64(elapsed.Nanoseconds())/1e3/float64(len(ids)))
	}
	slices.Sort(passes)
	return median(passes), nil
}
