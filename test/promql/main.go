// Command promql evaluates PromQL queries on scraped metrics with the Prometheus engine. It reads
// requests as JSON from standard input and writes the results of each as JSON. The tests of the chart
// use it for the queries of alerts and dashboards.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// request contains the queries and the metrics to evaluate them on.
type request struct {
	Queries []string  `json:"queries"`
	At      time.Time `json:"at"`
	Scrapes []scrape  `json:"scrapes"` // in chronological order
}

// result is the result of one query: an error or the series.
type result struct {
	Query  string   `json:"query"`
	Error  string   `json:"error,omitempty"`
	Series []series `json:"series,omitempty"`
}

type series struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"` // as formatted by Prometheus, because JSON has no NaN and +Inf
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
	})
	for requests := json.NewDecoder(in); ; {
		var r request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		store, err := load(r.Scrapes)
		if err != nil {
			return err
		}
		results := make([]result, 0, len(r.Queries))
		for _, query := range r.Queries {
			found, err := evaluate(ctx, engine, store, query, r.At)
			one := result{Query: query, Series: found}
			if err != nil {
				one.Error = err.Error()
			}
			results = append(results, one)
		}
		if err := json.NewEncoder(out).Encode(results); err != nil {
			return err
		}
	}
}

func evaluate(ctx context.Context, engine *promql.Engine, store *store, text string, at time.Time) ([]series, error) {
	query, err := engine.NewInstantQuery(ctx, store, nil, text, at)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	got := query.Exec(ctx)
	if got.Err != nil {
		return nil, got.Err
	}
	switch value := got.Value.(type) {
	case promql.Vector:
		var all []series
		for _, sample := range value {
			all = append(all, series{Labels: sample.Metric.Map(), Value: fmt.Sprint(sample.F)})
		}
		return all, nil
	case promql.Scalar:
		return []series{{Value: fmt.Sprint(value.V)}}, nil
	}
	return nil, fmt.Errorf("%q returns neither a vector nor a scalar; panels and alerts need one of them", text)
}
