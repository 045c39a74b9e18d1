// Command bench measures Realmkeeper against the limits of the machine that it runs on.
//
// Times differ from machine to machine and from minute to minute. So each limit is
// measured beside what it limits, in turn with it, several rounds long, and what is judged
// is the ratio of the two, or their difference, by its median.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/pprof"
	"time"
)

const usage = `bench measures the token server against the limits of this machine.

It runs the product's own handler, registry and HTTP server in this process, with the
operator's records or literal data in place of a cluster. Nothing else is needed. With
the defaults it takes about %s on two cores, 1 GB of memory, and the cores for itself.

It exits with 1 when a target is missed.

Flags:
`

const usualTime = "2 min"

// errMissed says that everything was measured and something is slower than it should be.
var errMissed = errors.New("target missed")

type options struct {
	rounds     int
	duration   time.Duration
	row        *regexp.Regexp
	reportOnly bool
	jsonFile   string
	cpuProfile string
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	err = run(o, os.Stdout)
	if err == nil || o.reportOnly && errors.Is(err, errMissed) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintf(out, usage, usualTime)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.rounds, "rounds", 7, "how many `rounds` each row is measured")
	flags.DurationVar(&o.duration, "duration", 500*time.Millisecond, "how long each part of a round takes; more where one step takes longer")
	row := flags.String("row", "", "measure only the rows whose names match this `regexp`")
	flags.BoolVar(&o.reportOnly, "report-only", false, "exit with 0 when a target is missed")
	flags.StringVar(&o.jsonFile, "json", "", "write the results to this `file` too, as JSON")
	flags.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this `file`; it slows what it measures a little")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	var err error
	if o.row, err = regexp.Compile(*row); err == nil && (o.rounds < 1 || o.duration <= 0 || flags.NArg() > 0) {
		err = errors.New("-rounds and -duration must be positive, and there are no arguments")
	}
	if err != nil {
		fmt.Fprintln(out, "bench:", err)
	}
	return o, err
}

func run(o options, out io.Writer) error {
	if o.cpuProfile != "" {
		file, err := os.Create(o.cpuProfile)
		if err != nil {
			return fmt.Errorf("writing -cpuprofile: %w", err)
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("writing -cpuprofile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}

	report := newReport(o, out)
	for _, e := range experiments() {
		results, err := e.run(o)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", e.rows[0].name, err)
		}
		report.add(results)
	}
	return report.finish(o.jsonFile)
}

func experiments() []experiment {
	var all []experiment
	all = append(all, throughputs()...)
	all = append(all, verifications()...)
	all = append(all, documents()...)
	return append(all, audits(), floods(), handlerAlone(), lookups(), changes())
}
