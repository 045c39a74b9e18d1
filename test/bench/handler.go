package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// handlerAlone measures what the token endpoint costs beyond the signature, on one
// core and without a socket.
func handlerAlone() experiment {
	return experiment{
		rows: []row{
			{
				name: "handler/time", unit: microseconds, judge: surplus(microseconds), target: atMost(6),
				limit: "one ES256 signature of crypto/*, on one core; judged is what the handler takes beyond it",
			},
			{
				name: "handler/allocations", unit: allocations, judge: surplus(allocations), target: atMost(40),
				limit: "one ES256 signature of crypto/*, on one core; judged is what the handler takes beyond it",
			},
		},
		prepare: prepareHandler,
	}
}

func prepareHandler(part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	people, err := newPopulation(signingkey.ES256)
	if err != nil {
		return nil, nil, err
	}
	answer, err := answerTo(people.server.Handler, people.requests[0])
	if err != nil {
		return nil, nil, err
	}
	sign, err := rawSignature(signingkey.ES256, signingInput(answer))
	if err != nil {
		return nil, nil, err
	}
	requests := make([]*http.Request, 0, realmCount)
	for _, request := range people.requests[:realmCount] {
		r, err := parseRequest(request)
		if err != nil {
			return nil, nil, err
		}
		requests = append(requests, r)
	}
	var (
		writer = &nullWriter{header: http.Header{}}
		random = rand.New(rand.NewPCG(0, 0)) //nolint:gosec // It only chooses who asks.
	)
	ask := func() error {
		i := random.IntN(len(people.requests))
		r := requests[i%realmCount] // as new as a request just read: in the CPU's caches
		r.Header["Authorization"][0] = people.authorizations[i]
		writer.reset()
		people.server.Handler.ServeHTTP(writer, r)
		if writer.refused {
			return fmt.Errorf("%w: refused", errAnswer)
		}
		return nil
	}
	round = func(turn int) ([]sample, error) {
		whole, signature, err := compareCosts(turn, part, ask, sign)
		return []sample{{measured: whole.time, limit: signature.time}, {measured: whole.allocations, limit: signature.allocations}}, err
	}
	return round, func() {}, nil
}

// cost is what one call takes.
type cost struct {
	time        float64 // microseconds of CPU time
	allocations float64
}

// compareCosts calls two functions in many short turns on one core, each for about the
// duration. What the garbage collector does meanwhile is part of the cost.
func compareCosts(turn int, about time.Duration, a, b func() error) (costOfA, costOfB cost, err error) {
	const turns = 10
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var spentOnA, spentOnB spent
	for i := range turns {
		err := inTurn(turn+i,
			func() error { return spentOnA.call(a, about/turns) },
			func() error { return spentOnB.call(b, about/turns) },
		)
		if err != nil {
			return cost{}, cost{}, err
		}
	}
	return spentOnA.each(), spentOnB.each(), nil
}

// spent adds up what calls took.
type spent struct {
	calls       int
	time        time.Duration
	allocations uint64
}

func (s *spent) call(do func() error, about time.Duration) error {
	const batch = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, used := time.Now(), cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)
	for time.Since(start) < about {
		for range batch {
			if err := do(); err != nil {
				return err
			}
		}
		s.calls += batch
	}
	s.time += cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - used
	runtime.ReadMemStats(&after)
	s.allocations += after.Mallocs - before.Mallocs
	return nil
}

func (s *spent) each() cost {
	calls := float64(s.calls)
	return cost{time: float64(s.time.Nanoseconds()) / 1e3 / calls, allocations: float64(s.allocations) / calls}
}

var _ io.StringWriter = (*nullWriter)(nil) // as net/http's is

// nullWriter is a http.ResponseWriter that keeps nothing and costs next to nothing.
type nullWriter struct {
	header  http.Header
	refused bool
}

func (w *nullWriter) Header() http.Header               { return w.header }
func (w *nullWriter) Write(b []byte) (int, error)       { return len(b), nil }
func (w *nullWriter) WriteString(s string) (int, error) { return len(s), nil }
func (w *nullWriter) WriteHeader(status int)            { w.refused = status != http.StatusOK }

func (w *nullWriter) reset() {
	clear(w.header)
	w.refused = false
}
