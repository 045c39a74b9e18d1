package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// throughputs measures tokens a second over loopback, for each algorithm. The limit
// is what a server would reach that did nothing but speak HTTP and sign.
func throughputs() []experiment {
	targets := map[signingkey.Algorithm]target{
		signingkey.ES256: atLeast(0.80), signingkey.EdDSA: atLeast(0.80), signingkey.RS256: atLeast(0.95),
	}
	var all []experiment
	for _, algorithm := range signingkey.Algorithms {
		all = append(all, experiment{
			rows: []row{{
				name: "tokens/" + string(algorithm), unit: perSecond, judge: ratio, target: targets[algorithm],
				limit: "1/(1/plain + 1/sign), where plain is a net/http server without time limits whose handler only answers the same bytes, and sign the signature of crypto/* on all cores",
				parts: []string{"plain", "sign"},
			}},
			prepare: func(part time.Duration) (func(int) ([]sample, error), func(), error) {
				return prepareThroughput(algorithm, part)
			},
		})
	}
	return all
}

func prepareThroughput(algorithm signingkey.Algorithm, part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	people, err := newPopulation(algorithm)
	if err != nil {
		return nil, nil, err
	}
	answer, err := answerTo(people.server.Handler, people.requests[0])
	if err != nil {
		return nil, nil, err
	}
	sign, err := rawSignature(algorithm, signingInput(answer))
	if err != nil {
		return nil, nil, err
	}
	return prepareRates(people, people.requests, sign, part)
}

// prepareRates measures what the product answers to the requests, against a server that only
// answers the same bytes and what it has to compute for each.
func prepareRates(people *population, requests [][]byte, compute func() error, part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	answer, err := answerTo(people.server.Handler, requests[0])
	if err != nil {
		return nil, nil, err
	}
	product, err := serve("product", people.server, requests)
	if err != nil {
		return nil, nil, err
	}
	//nolint:gosec // Time limits cost time, and the limit is to be as high as can be.
	plainServer, err := serve("bare", &http.Server{Handler: bare(answer)}, requests)
	if err != nil {
		product.close()
		return nil, nil, err
	}
	round = func(turn int) ([]sample, error) {
		var measured, plain, computed float64
		err := inTurn(turn,
			func() (err error) { plain, err = plainServer.rate(part); return err },
			func() (err error) { measured, err = product.rate(part); return err },
			func() (err error) { computed, err = parallelRate(compute, part); return err },
		)
		return []sample{{measured: measured, limit: 1 / (1/plain + 1/computed), parts: []float64{plain, computed}}}, err
	}
	return round, func() { product.close(); plainServer.close() }, nil
}

// signingInput returns what was signed of the token in an answer (RFC 7515 §5.1).
func signingInput(answer *httptest.ResponseRecorder) []byte {
	token := strings.Split(answer.Body.String(), `"`)[3]
	return []byte(token[:strings.LastIndexByte(token, '.')])
}

// parallelRate returns how often a second do runs on all cores together.
func parallelRate(do func() error, window time.Duration) (float64, error) {
	var (
		stop   atomic.Bool
		count  atomic.Int64
		failed = make(chan error, runtime.GOMAXPROCS(0))
		doing  sync.WaitGroup
	)
	watch := startStopwatch()
	for range runtime.GOMAXPROCS(0) {
		doing.Go(func() {
			n := int64(0)
			for !stop.Load() {
				if err := do(); err != nil {
					failed <- err
					return
				}
				n++
			}
			count.Add(n)
		})
	}
	time.Sleep(window)
	stop.Store(true)
	doing.Wait()
	elapsed := watch.elapsed()
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(count.Load()) / elapsed.Seconds(), nil
	}
}

// documents measures the answers that are prepared when a realm changes.
func documents() []experiment {
	path := map[string]string{
		"jwks":     "/realm-0" + oauth.JWKSPath,
		"metadata": oauth.ServerMetadataPath + "/realm-0",
	}
	var all []experiment
	for _, name := range []string{"jwks", "metadata"} {
		all = append(all, experiment{
			rows: []row{{
				name: "documents/" + name, unit: perSecond, judge: ratio, target: atLeast(0.95),
				limit: "the product's HTTP server with a handler that only answers the same bytes",
			}},
			prepare: func(part time.Duration) (func(int) ([]sample, error), func(), error) {
				return prepareDocument(path[name], part)
			},
		})
	}
	return all
}

func prepareDocument(path string, part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	people, err := newPopulation(signingkey.ES256)
	if err != nil {
		return nil, nil, err
	}
	requests := [][]byte{getRequest(path)}
	answer, err := answerTo(people.server.Handler, requests[0])
	if err != nil {
		return nil, nil, err
	}
	product, err := serve("product", people.server, requests)
	if err != nil {
		return nil, nil, err
	}
	plainServer, err := serve("bare", httpserver.New(bare(answer), tokenserver.ServerLimits(), nil, slog.New(slog.DiscardHandler)), requests)
	if err != nil {
		product.close()
		return nil, nil, err
	}
	round = func(turn int) ([]sample, error) {
		var measured, plain float64
		err := inTurn(turn,
			func() (err error) { plain, err = plainServer.rate(part); return err },
			func() (err error) { measured, err = product.rate(part); return err },
		)
		return []sample{{measured: measured, limit: plain}}, err
	}
	return round, func() { product.close(); plainServer.close() }, nil
}
