package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// asking is how many clients ask for tokens beside a flood, one request at a time each.
const asking = 4

// floods measures how long clients wait for their tokens while wrong secrets come from one
// source, as fast as they are answered, on as many connections as the load has otherwise.
func floods() experiment {
	return experiment{
		rows: []row{{
			name: "flood of wrong secrets/p99 of others", unit: microseconds, judge: ratio, target: atMost(2),
			limit: "the same clients without the flood; an answer other than a token to any of them is an error",
		}},
		prepare: prepareFlood,
	}
}

func prepareFlood(part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	people, err := newPopulation(signingkey.ES256)
	if err != nil {
		return nil, nil, err
	}
	product, err := serve("product", people.server, people.requests)
	if err != nil {
		return nil, nil, err
	}
	address := product.connections[0].conn.RemoteAddr().String()
	round = func(turn int) ([]sample, error) {
		var quiet, flooded float64
		err := inTurn(turn,
			func() (err error) { quiet, err = product.p99(part); return err },
			func() (err error) {
				stop, err := flood(address, people.server.ReadTimeout)
				if err != nil {
					return err
				}
				defer stop()
				flooded, err = product.p99(part)
				return err
			},
		)
		return []sample{{measured: flooded, limit: quiet}}, err
	}
	return round, product.close, nil
}

// p99 returns how many microseconds 99 of 100 answers take at most.
func (s *loadedServer) p99(window time.Duration) (float64, error) {
	var (
		mu     sync.Mutex
		times  []time.Duration
		failed error
		doing  sync.WaitGroup
	)
	end := time.Now().Add(window)
	for _, c := range s.connections[:asking] {
		doing.Go(func() {
			var own []time.Duration
			var err error
			for err == nil && time.Now().Before(end) {
				start := time.Now()
				err = c.exchange()
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			if err != nil {
				failed = err
			}
		})
	}
	doing.Wait()
	slices.Sort(times)
	return float64(times[(len(times)-1)*99/100].Nanoseconds()) / 1e3, failed
}

// flood asks with wrong secrets until stop: on every other connection for one client, and on
// the rest each time for another that doesn't exist.
func flood(address string, patience time.Duration) (stop func(), err error) {
	var (
		attackers []net.Conn
		flooding  sync.WaitGroup
		stopped   atomic.Bool
	)
	stop = func() {
		stopped.Store(true)
		for _, conn := range attackers {
			conn.Close()
		}
		flooding.Wait()
	}
	for n := range connections {
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			stop()
			return nil, fmt.Errorf("connecting for a flood: %w", err)
		}
		attackers = append(attackers, conn)
		flooding.Go(func() {
			buffer := make([]byte, 4<<10)
			for i := 0; !stopped.Load(); i++ {
				id := clientID(0)
				if n%2 == 0 {
					id = fmt.Sprintf("junk-%d-%d", n, i)
				}
				request := tokenRequest("realm-0", "Basic "+base64.StdEncoding.EncodeToString([]byte(id+":wrong")))
				if _, err := conn.Write(request); err != nil {
					return
				}
				if _, err := conn.Read(buffer); err != nil { // a refusal fits into one segment
					return
				}
			}
		})
	}
	return stop, nil
}
