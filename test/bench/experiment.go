package main

import (
	"fmt"
	"slices"
	"time"
)

// row is a line of the report: what is measured, what it is held against, and what
// is asked of the two.
type row struct {
	name  string
	unit  unit
	limit string   // what the limit is, for the legend
	parts []string // names of what the limit is computed from, as in sample.parts
	judge judge
	// target bounds what judge gives; none when it has no sign.
	target target
}

// judge makes the figure that counts of a measurement and its limit.
type judge struct {
	of   func(measured, limit float64) float64
	unit unit
}

var (
	ratio   = judge{of: func(measured, limit float64) float64 { return measured / limit }, unit: times}
	itself  = func(u unit) judge { return judge{of: func(measured, _ float64) float64 { return measured }, unit: u} }
	surplus = func(u unit) judge {
		return judge{of: func(measured, limit float64) float64 { return measured - limit }, unit: u}
	}
)

// target is the bound that a figure is to keep.
type target struct {
	sign  string // "≥", "≤", or empty
	bound float64
}

func atLeast(bound float64) target { return target{"≥", bound} }
func atMost(bound float64) target  { return target{"≤", bound} }

func (t target) met(figure float64) bool {
	switch t.sign {
	case "≥":
		return figure >= t.bound
	case "≤":
		return figure <= t.bound
	}
	return true
}

// sample is one measurement of a row. A limit of 0 means that there is none.
type sample struct {
	measured, limit float64
	parts           []float64
}

// experiment measures some rows in one setup.
type experiment struct {
	rows []row
	// prepare sets up, and returns what measures all rows once and what tears down. Each
	// part of a round takes about the duration.
	prepare func(part time.Duration) (round func(turn int) ([]sample, error), teardown func(), err error)
}

// result is a row with its samples, one a round.
type result struct {
	row
	samples []sample
}

func (e experiment) run(o options) ([]result, error) {
	var results []result
	for _, r := range e.rows {
		results = append(results, result{row: r})
	}
	wanted := func(r result) bool { return o.row.MatchString(r.name) }
	if !slices.ContainsFunc(results, wanted) {
		return nil, nil
	}
	round, teardown, err := e.prepare(o.duration)
	if err != nil {
		return nil, err
	}
	defer teardown()
	for turn := range o.rounds {
		samples, err := round(turn)
		if err != nil {
			return nil, fmt.Errorf("in round %d: %w", turn+1, err)
		}
		for i := range results {
			results[i].samples = append(results[i].samples, samples[i])
		}
	}
	return slices.DeleteFunc(results, func(r result) bool { return !wanted(r) }), nil
}

// figures returns what is judged, one a round, in ascending order.
func (r *result) figures() []float64 {
	return r.sorted(func(s sample) float64 { return r.judge.of(s.measured, s.limit) })
}

func (r *result) sorted(of func(sample) float64) []float64 {
	values := make([]float64, 0, len(r.samples))
	for _, s := range r.samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values
}

// median returns the middle of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// inTurn runs the parts of a round, each time beginning with another one, so that a
// machine that slows down or speeds up favours none.
func inTurn(turn int, parts ...func() error) error {
	for i := range parts {
		if err := parts[(turn+i)%len(parts)](); err != nil {
			return err
		}
	}
	return nil
}
