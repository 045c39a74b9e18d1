// Command bench compares the token server and api/verify with baselines measured on the same machine. It runs
// the benchmarks below internal/tokenserver, in api/verify, and in this folder, and checks their results against
// targets.
//
// Times depend on the machine and change from minute to minute. Each benchmark therefore alternates
// between a baseline and the product, and the targets apply to their ratio or difference.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
)

const usage = `Usage: go run -C test ./bench [flags]

Measures the token server and api/verify against limits of this machine. With the defaults, it takes
about 7 min and 1 GB of memory on two cores. The machine should be idle.

The exit code is 1 if a benchmark fails or a target is missed. After a failure, the other
rows are still measured. A row misses its target if its median and most of its rounds do,
and again when the row is repeated. Rows during which other processes used more than 10 %
of the cores don't count as missed, except handler and memory.

Flags:
`

var (
	// errMissed means that all measurements succeeded but a row missed its target.
	errMissed = errors.New("missed targets")
	errFailed = errors.New("failed benchmarks")
)

type options struct {
	rounds     int
	duration   time.Duration
	row        *regexp.Regexp
	reportOnly bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	err = run(context.Background(), o, os.Stdout)
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
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.rounds, "rounds", 7, "Number of `rounds` per benchmark")
	flags.DurationVar(&o.duration, "duration", 500*time.Millisecond, "Duration of a round; slow benchmarks take longer")
	row := flags.String("row", "", "Measure only rows whose names match this `regexp`")
	flags.BoolVar(&o.reportOnly, "report-only", false, "Exit with 0 if a target is missed")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	var err error
	if o.row, err = regexp.Compile(*row); err == nil && (o.rounds < 1 || o.duration <= 0 || flags.NArg() > 0) {
		err = errors.New("-rounds and -duration must be positive, and arguments are not allowed")
	}
	if err != nil {
		fmt.Fprintln(out, "bench:", err)
	}
	return o, err
}

// run measures the rows, repeats those that miss their targets, and prints all of them.
func run(ctx context.Context, o options, out io.Writer) error {
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Measuring on %d cores with %s, load %s. Each row has %d rounds of %s.\n\n",
		runtime.GOMAXPROCS(0), runtime.Version(), load(), o.rounds, o.duration)
	fmt.Fprintf(out, format, "ROW", "MEDIAN", "SPREAD", "TARGET", "", "MEDIANS OF ALL METRICS")

	started := time.Now()
	var wanted []row
	for _, r := range rows {
		if o.row.MatchString(r.name) {
			wanted = append(wanted, r)
		}
	}
	missed, failed := measureAll(ctx, root, o, wanted, out)
	if len(missed) > 0 {
		fmt.Fprintf(out, "\nRepeating the rows that missed their targets:\n")
		var repeated []row
		missed, repeated = measureAll(ctx, root, o, missed, out)
		failed = append(failed, repeated...)
	}
	fmt.Fprintf(out, "\n%s\nTook %s, load %s.\n", limits, time.Since(started).Round(time.Second), load())
	switch {
	case len(failed) > 0:
		return fmt.Errorf("%w: %s", errFailed, names(failed))
	case len(missed) > 0:
		return fmt.Errorf("%w: %s", errMissed, names(missed))
	}
	return nil
}

func names(rows []row) string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	return strings.Join(names, ", ")
}

// measureAll measures and prints the rows. It returns those that missed their targets and those whose
// benchmark failed, which it prints with the output of the benchmark.
func measureAll(ctx context.Context, root string, o options, wanted []row, out io.Writer) (missed, failed []row) {
	for len(wanted) > 0 {
		n := 1 // rows of the same benchmark share its setup
		for n < len(wanted) && wanted[n].parent() == wanted[0].parent() {
			n++
		}
		watch := startWatch()
		rounds, used, err := measure(ctx, root, o, wanted[:n])
		if err != nil {
			for _, r := range wanted[:n] {
				fmt.Fprintf(out, format, r.name, "", "", r.target, "FAILED", "")
			}
			fmt.Fprintln(out, err)
			failed = append(failed, wanted[:n]...)
			wanted = wanted[n:]
			continue
		}
		busy := watch.others(used) > tolerated
		for _, r := range wanted[:n] {
			metrics := rounds["Benchmark"+r.benchmark]
			noisy := busy && !r.robust()
			r.print(out, metrics, noisy)
			if r.missed(metrics[r.metric]) && !noisy {
				missed = append(missed, r)
			}
		}
		wanted = wanted[n:]
	}
	return missed, failed
}

// cores matches the suffix that go test adds to the name of a benchmark.
var cores = regexp.MustCompile(`-\d+$`)

// measure runs the benchmark of the rows. It returns the values of each metric by benchmark, and the
// CPU time that was used. It is an error if a row doesn't have a value for each round.
func measure(ctx context.Context, root string, o options, wanted []row) (map[string]map[string][]float64, time.Duration, error) {
	pattern := "^Benchmark" + wanted[0].parent() + "$"
	if wanted[0].benchmark != wanted[0].parent() {
		var names []string
		for _, r := range wanted {
			names = append(names, strings.TrimPrefix(r.benchmark, r.parent()+"/"))
		}
		pattern += "/^(" + strings.Join(names, "|") + ")$"
	}
	command := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench="+pattern, "-timeout=0",
		fmt.Sprintf("-count=%d", o.rounds), fmt.Sprintf("-benchtime=%s", o.duration))
	command.Dir = filepath.Join(root, wanted[0].dir) // of any module
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := command.CombinedOutput()
	if err != nil {
		return nil, 0, fmt.Errorf("measure %s: %w\n%s", wanted[0].name, err, out)
	}
	rounds := map[string]map[string][]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := cores.ReplaceAllString(fields[0], "")
		if rounds[name] == nil {
			rounds[name] = map[string][]float64{}
		}
		for i := 4; i+1 < len(fields); i += 2 { // after the name, the iterations and ns/op
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, 0, fmt.Errorf("read %q: %w", lines.Text(), err)
			}
			rounds[name][fields[i+1]] = append(rounds[name][fields[i+1]], value)
		}
	}
	for _, r := range wanted {
		if got := len(rounds["Benchmark"+r.benchmark][r.metric]); got != o.rounds {
			return nil, 0, fmt.Errorf("measure %s: got %d rounds, want %d", r.name, got, o.rounds)
		}
	}
	return rounds, command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}
