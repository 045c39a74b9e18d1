package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// unit is what a number counts.
type unit string

const (
	times        unit = ""
	perSecond    unit = "/s"
	microseconds unit = "µs"
	kibibytes    unit = "KiB"
	allocations  unit = "allocs"
)

// format writes a number with its unit and the digits that mean something.
func (u unit) format(x float64) string {
	digits := 2
	switch u {
	case perSecond:
		return count(int(x)) + " " + string(u)
	case allocations:
		digits = 0
	case times, microseconds, kibibytes:
	}
	return strings.TrimSpace(strconv.FormatFloat(x, 'f', digits, 64) + " " + string(u))
}

// count writes a whole number with its thousands apart.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// report prints results as they come, and keeps them.
type report struct {
	out      io.Writer
	watch    stopwatch
	load     string
	results  []outcome
	explains []string
}

// outcome is a result as it is printed and written to -json.
type outcome struct {
	Row      string             `json:"row"`
	Unit     unit               `json:"unit"`
	Measured float64            `json:"measured"`        // median
	Limit    float64            `json:"limit,omitempty"` // median
	Parts    map[string]float64 `json:"parts,omitempty"` // medians of what the limit is computed from
	Judged   float64            `json:"judged"`          // median
	Low      float64            `json:"low"`
	High     float64            `json:"high"`
	Target   string             `json:"target,omitempty"`
	Met      bool               `json:"met"`
}

// tolerated is the share of the cores that other processes may have before the report says so.
const tolerated = 0.1

const line = "%-44s %12s %12s %12s  %-19s %-11s %s\n"

func newReport(o options, out io.Writer) *report {
	r := &report{out: out, watch: startStopwatch(), load: load()}
	fmt.Fprintf(out, `Measuring the token server against the limits of this machine; about %s with the defaults.
Machine:  %s; load before: %s
Method:   %d rounds, each part of a round %s, in turn; medians, and in brackets lowest and highest.
          A limit is measured in the same round as what it limits. Time is the cores' time that
          was this process's to use, so that other processes don't count; an idle machine is still better.
Requests: %d connections over loopback, plain TCP on both sides, HTTP/1.1 kept alive, one request at a
          time on each, from this process; %s clients in %d realms with generated secrets, asked at random.

`, usualTime, machine(), r.load, o.rounds, o.duration, connections, count(clientCount), realmCount)
	fmt.Fprintf(out, line, "ROW", "MEASURED", "LIMIT", "JUDGED", "SPREAD", "TARGET", "")
	return r
}

func (r *report) add(results []result) {
	for i := range results {
		o := results[i].outcome()
		r.results = append(r.results, o)
		r.print(o, &results[i].row)
	}
}

func (r *result) outcome() outcome {
	figures := r.figures()
	o := outcome{
		Row: r.name, Unit: r.unit,
		Measured: median(r.sorted(func(s sample) float64 { return s.measured })),
		Limit:    median(r.sorted(func(s sample) float64 { return s.limit })),
		Judged:   median(figures), Low: figures[0], High: figures[len(figures)-1],
	}
	for i, name := range r.parts {
		if o.Parts == nil {
			o.Parts = map[string]float64{}
		}
		o.Parts[name] = median(r.sorted(func(s sample) float64 { return s.parts[i] }))
	}
	if r.target.sign != "" {
		o.Target = r.target.sign + " " + r.judge.unit.format(r.target.bound)
	}
	o.Met = r.target.met(o.Judged)
	return o
}

func (r *report) print(o outcome, of *row) {
	limit, verdict, in := "", "", of.judge.unit
	if o.Limit != 0 {
		limit = of.unit.format(o.Limit)
	}
	switch {
	case o.Target == "":
	case o.Met:
		verdict = "ok"
	default:
		verdict = "MISSED"
	}
	spread := fmt.Sprintf("(%s to %s)", times.format(o.Low), times.format(o.High))
	fmt.Fprintf(r.out, line, o.Row, of.unit.format(o.Measured), limit, in.format(o.Judged), spread, o.Target, verdict)

	if len(of.parts) > 0 {
		parts := make([]string, 0, len(of.parts))
		for _, name := range of.parts {
			parts = append(parts, name+" "+of.unit.format(o.Parts[name]))
		}
		fmt.Fprintf(r.out, "%-44s %12s %12s  %s\n", "", "", "", strings.Join(parts, ", "))
	}
	if of.limit != "" {
		explain := fmt.Sprintf("%s: %s.", strings.Split(of.name, "/")[0], of.limit)
		if n := len(r.explains); n == 0 || r.explains[n-1] != explain {
			r.explains = append(r.explains, explain)
		}
	}
}

// finish prints what the limits are and which targets are missed, and writes the
// results to the file, if one is named.
//
// Errors: errMissed; those of writing.
func (r *report) finish(jsonFile string) error {
	fmt.Fprintln(r.out, "\nLimits:")
	for _, e := range r.explains {
		fmt.Fprintln(r.out, "  "+e)
	}
	others := r.watch.others()
	fmt.Fprintf(r.out, "Took %s; load after: %s; other processes had %.0f %% of the cores.\n", time.Since(r.watch.started).Round(time.Second), load(), 100*others)
	if others > tolerated {
		fmt.Fprintln(r.out, "That is much: they push this one out of cores and caches, which costs the product more than its limits. Repeat on an idle machine.")
	}
	if jsonFile != "" {
		data, err := json.MarshalIndent(map[string]any{
			"machine": machine(), "started": r.watch.started.UTC(), "loadBefore": r.load, "loadAfter": load(), "othersShare": others, "rows": r.results,
		}, "", "  ")
		if err == nil {
			err = os.WriteFile(jsonFile, append(data, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing -json: %w", err)
		}
	}
	var missed []string
	for _, o := range r.results {
		if !o.Met {
			missed = append(missed, fmt.Sprintf("%s (%.2f, want %s)", o.Row, o.Judged, o.Target))
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("%w: %s", errMissed, strings.Join(missed, "; "))
	}
	return nil
}
