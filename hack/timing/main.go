// Command timing measures whether the time of the token endpoint's answers tells a client id
// that doesn't exist from one that does, to somebody who has no secret of it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

const usage = `timing measures whether the token endpoint's answer to a wrong secret takes as long for a
client that doesn't exist as for one that does.

It runs the product's own handler, registry and HTTP server in this process, on literal
data. Two kinds of requests are asked in pairs, in random order within each, with one wrong
secret for both. Their times are compared by Welch's t-test: of all samples, and of
those below each of 100 percentiles of both kinds together, 1 - 0.5^(i/10), as dudect has them
(Reparaz, Balasch, Verbauwhede: "Dude, is my code constant time?", 2017). The largest |t|
counts. The controls compare two kinds that are the same, and two that must differ.

With the defaults it takes about %s on two cores. It exits with 1 when |t| is %.1f or more
where nothing may be told, or when a control fails: then it can't tell anything. Of the
handler alone, which nobody outside can time, a difference of less than %s passes too.

Flags:
`

const (
	usualTime = "1 min"
	// threshold is the |t| from which on a difference counts as found. Chance reaches it in
	// one test of 150,000.
	threshold = 4.5
	// negligible is a difference within the handler that is lost on the way out: a branch
	// that was guessed wrong, or one word more from the CPU's caches.
	negligible = 20 * time.Nanosecond
)

var (
	errTold   = errors.New("the time tells which clients exist")
	errUseful = errors.New("a control failed; repeat on an idle machine")
)

func main() {
	samples, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := run(samples, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "timing:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (samples int, err error) {
	flags := flag.NewFlagSet("timing", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintf(out, usage, usualTime, threshold, negligible)
		flags.PrintDefaults()
	}
	flags.IntVar(&samples, "samples", 100_000, "how `many` answers of each kind are timed")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if samples < 1000 || flags.NArg() > 0 {
		err = errors.New("-samples must be 1000 or more, and there are no arguments")
		fmt.Fprintln(out, "timing:", err)
	}
	return samples, err
}

const line = "%-10s %-46s %10s %10s %8s  %s\n"

// run makes every comparison, in both ways to ask, and prints what came of it.
func run(samples int, out io.Writer) error {
	people, err := newPopulation()
	if err != nil {
		return err
	}
	loopback, err := serve(people.server)
	if err != nil {
		return err
	}
	defer loopback.close()
	ways := []struct {
		name string
		asker
		negligible time.Duration
	}{{"handler", &direct{handler: people.server.Handler}, negligible}, {"loopback", loopback, 0}}

	random := rand.New(rand.NewPCG(rand.Uint64(), 0)) //nolint:gosec // It only chooses who asks, and in which order.
	started := time.Now()
	fmt.Fprintf(out, "%d answers of each kind; times are medians; t is that of the largest |t| of 101 croppings.\n\n", samples)
	fmt.Fprintf(out, line, "WAY", "KINDS", "FIRST", "SECOND", "t", "VERDICT")
	var failed []error
	for _, way := range ways {
		for _, c := range comparisons(people, random) {
			first, second, err := sample(way.asker, c, samples, random)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", way.name, c.name, err)
			}
			t := largestT(first, second)
			a, b := median(first), median(second)
			verdict, err := c.judge(t, (a-b).Abs() < way.negligible)
			failed = append(failed, err)
			fmt.Fprintf(out, line, way.name, c.name, a, b, fmt.Sprintf("%+.2f", t), verdict)
		}
	}
	fmt.Fprintf(out, "\nTook %s.\n", time.Since(started).Round(time.Second))
	return errors.Join(failed...)
}

// comparison is of two kinds of clients.
type comparison struct {
	name          string
	first, second kind
	expect        expectation
}

type expectation int

const (
	alike      expectation = iota // or the product tells something
	same                          // or the machine is too busy
	noticeable                    // or the tool is blind
)

func comparisons(p *population, random *rand.Rand) []comparison {
	some, others := p.known.halves(random)
	return []comparison{
		{"control: existing, existing", some, others, same},
		{"control: one verifier, two verifiers", p.known, p.rotating, noticeable},
		{"unknown, existing", p.unknown, p.known, alike},
		{"unknown, existing; each id 10 times", p.unknown.each(10), p.known.each(10), alike},
		{"unknown, existing; two verifiers each", p.unknownRotating, p.rotating, alike},
	}
}

// judge says what the t of a comparison means whose medians may be as good as the same.
//
// Errors: errTold, errUseful.
func (c *comparison) judge(t float64, negligible bool) (string, error) {
	found := math.Abs(t) >= threshold
	switch {
	case c.expect == noticeable && found:
		return "noticed, as it must be", nil
	case c.expect == noticeable:
		return "NOT NOTICED", errUseful
	case !found:
		return fmt.Sprintf("ok, below %.1f", threshold), nil
	case negligible:
		return "ok, seen and negligible", nil
	case c.expect == same:
		return "NOTICED", errUseful
	}
	return "TOLD", fmt.Errorf("%w: %s", errTold, c.name)
}

// sample times the answers to pairs of requests.
func sample(a asker, c comparison, samples int, random *rand.Rand) (first, second []time.Duration, err error) {
	ask := func(k *kind, secret string, times *[]time.Duration) error {
		took, err := a.ask(k.realm, authorization(k.next(random), secret))
		*times = append(*times, took)
		return err
	}
	const warmUp = 1000
	for i := range warmUp + samples {
		secret, err := wrongSecret()
		if err != nil {
			return nil, nil, err
		}
		if i == warmUp {
			first, second = make([]time.Duration, 0, samples), make([]time.Duration, 0, samples)
		}
		if random.IntN(2) == 0 {
			err = errors.Join(ask(&c.first, secret, &first), ask(&c.second, secret, &second))
		} else {
			err = errors.Join(ask(&c.second, secret, &second), ask(&c.first, secret, &first))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return first, second, nil
}
