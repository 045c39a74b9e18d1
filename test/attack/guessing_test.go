package attack_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/test/attack/honest"
	"github.com/realmkeeper/realmkeeper/test/attack/report"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/framework/env"
)

// maxFirstToken is how long the owner of a guessed secret waits at most for the first token.
const maxFirstToken = 10 * time.Second

// guessingTime is the duration of the guesses. It is long enough for an owner who waits that long.
func guessingTime() time.Duration { return max(*duration, 2*maxFirstToken) }

// guessing is a way to guess the secret of a client.
type guessing struct {
	name string
	rate int // requests per second
}

// Guesses at a secret with an Argon2id hash don't lock out its owner, who has the same address, and
// other clients hardly notice them.
func TestGuessing(t *testing.T) {
	writeReport(t)
	cluster := env.Start(t)
	guessed, generated := slowClient(t, "guessed"), target.NewClient(t, "generated")
	others := []target.Client{target.NewClient(t, "fast"), slowClient(t, "slow")}
	records := target.Fill(t, cluster, 100, append([]target.Client{guessed, generated}, others...)...)
	g := guessing{"50 guesses/s", 50}                      // unit tests of slowhash simulate others
	server := target.StartTokenServer(t, cluster, records) // it doesn't know the secret yet
	// The same requests at a client without a slow hash are the baseline. It excludes the cost of the
	// requests and of the machine.
	baseline := g.run(t, server, generated, others)
	attacked := g.run(t, server, guessed, others)
	attacked.owner.check(t)
	g.report(t, server, baseline, attacked)
}

// slowClient returns a client whose secret is hashed as the operator hashes chosen secrets.
func slowClient(t *testing.T, id string) target.Client {
	t.Helper()
	c := target.NewClient(t, id)
	verifier, err := clientsecret.HashArgon2id(c.Secret, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.Hash = verifier.String()
	return c
}

// guessed is what the owner of the guessed secret and the other clients see.
type guessed struct {
	owner  *owner
	others []honest.Result // in the order of the clients
	cpu    float64         // seconds of processor time of the server
}

// run guesses the secret of a client for the given time. Its owner joins after the guesses have
// filled all tables.
func (g guessing) run(t *testing.T, server *target.Server, victim target.Client, others []target.Client) guessed {
	t.Helper()
	start := func(source string, rate int, call honest.Call) *honest.Load {
		return honest.Start(t, honest.Options{
			Address: server.Address, HostName: target.HostName, Roots: server.Roots, Source: source, Rate: rate, Call: call,
		})
	}
	tokens := func(c target.Client) honest.Call {
		return honest.Tokens("https://"+target.HostName+target.TokenPath, c.ID, c.Secret)
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
	}
	// Guesses share a connection. A connection for each would be a flood of handshakes.
	var (
		once   sync.Once
		shared *http.Client
	)
	guesses := start(attackerSource, g.rate, func(ctx context.Context, client *http.Client, number int) error {
		once.Do(func() { shared = client })
		guess := target.Client{ID: victim.ID, Secret: fmt.Sprintf("guess number %d", number)}
		return tokens(guess)(ctx, shared, number)
	})
	const cpu = "process_cpu_seconds_total"
	used := server.Metric(t, cpu)
	var loads []*honest.Load
	for _, c := range others {
		loads = append(loads, start(honestSource, rate/2, tokens(c)))
	}
	wait(guessingTime() / 4)
	result := guessed{owner: &owner{began: time.Now()}}
	owned := start(attackerSource, 1, result.owner.watch(tokens(victim)))
	wait(guessingTime() * 3 / 4)
	owned.Stop()
	for _, load := range loads {
		result.others = append(result.others, load.Stop())
	}
	result.cpu = server.Metric(t, cpu) - used
	t.Logf("responses to guesses at %s: %v", victim.ID, guesses.Stop().Errors)
	return result
}

// owner records when the owner of a secret gets tokens. It requests one every second.
type owner struct {
	began time.Time

	mu     sync.Mutex
	first  time.Duration // until the first token, or 0
	later  []time.Duration
	failed map[string]int // errors of requests that began after the first token
}

func (o *owner) watch(call honest.Call) honest.Call {
	return func(ctx context.Context, client *http.Client, number int) error {
		began := time.Now()
		o.mu.Lock()
		known := o.first > 0
		o.mu.Unlock()
		err := call(ctx, client, number)
		o.mu.Lock()
		defer o.mu.Unlock()
		switch {
		case err == nil && o.first == 0:
			o.first = time.Since(o.began)
		case err == nil && known:
			o.later = append(o.later, time.Since(began))
		case known:
			if o.failed == nil {
				o.failed = map[string]int{}
			}
			o.failed[err.Error()]++
		}
		return err
	}
}

func (o *owner) check(t *testing.T) {
	t.Helper()
	if o.first == 0 || o.first > maxFirstToken {
		t.Errorf("the owner got its first token after %s (0 is never), want at most %s", o.first, maxFirstToken)
	}
	if len(o.later) == 0 || len(o.failed) > 0 {
		t.Errorf("the owner got %d later tokens, with these errors: %v", len(o.later), o.failed)
	}
}

// report adds a row for each of the other clients.
func (g guessing) report(t *testing.T, server *target.Server, baseline, attacked guessed) {
	t.Helper()
	peak, err := server.Peak()
	if err != nil {
		t.Fatal(err)
	}
	later := slices.Max(append(attacked.owner.later, 0))
	for i, name := range []string{"fast client", "slow client"} {
		before, got := baseline.others[i].Percentile(0.99), attacked.others[i].Percentile(0.99)
		row := report.Row{
			Server: "token-server", Attack: g.name + " (" + name + ")", Sources: "one", Seconds: int(guessingTime().Seconds()),
			Peak: peak, Limit: server.Group.Limit, Restarts: server.Restarts(), Calls: attacked.others[i].Calls, Success: attacked.others[i].Success(),
			P99: fmt.Sprintf("%s, %.2f × %s", got.Round(10*time.Microsecond), float64(got)/float64(before), before.Round(10*time.Microsecond)),
			Attacked: fmt.Sprintf("owner's first token after %s, later ones within %s, hashes took %.1f %% of a core",
				attacked.owner.first.Round(time.Millisecond), later.Round(time.Millisecond), 100*(attacked.cpu-baseline.cpu)/guessingTime().Seconds()),
			Shed: target.Describe(nil, server.Shed(t)),
		}
		results.Add(row)
		t.Logf("%+v", row)
		if oneSource.fails(attacked.others[i]) {
			t.Errorf("%.2f %% of %d calls of the %s succeeded; errors: %v", 100*row.Success, row.Calls, name, attacked.others[i].Errors)
		}
	}
}
