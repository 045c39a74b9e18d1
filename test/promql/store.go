package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrape contains the metrics of one process at one time in the Prometheus text format.
type scrape struct {
	At     time.Time         `json:"at"`
	Labels map[string]string `json:"labels"` // labels that Prometheus adds, such as job and pod
	Text   string            `json:"text"`
}

// store holds the samples of scrapes in memory.
type store struct {
	series map[string]*entry // by label text
}

type entry struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func load(scrapes []scrape) (*store, error) {
	s := &store{series: map[string]*entry{}}
	for _, one := range scrapes {
		if err := s.add(one); err != nil {
			return nil, fmt.Errorf("read the metrics scraped from %v: %w", one.Labels, err)
		}
	}
	return s, nil
}

func (s *store) add(one scrape) error {
	parser, err := textparse.New([]byte(one.Text), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		kind, err := parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case kind != textparse.EntrySeries:
			continue
		}
		var own labels.Labels
		parser.Labels(&own)
		builder := labels.NewBuilder(own)
		for name, value := range one.Labels {
			builder.Set(name, value)
		}
		all := builder.Labels()
		e, ok := s.series[all.String()]
		if !ok {
			e = &entry{labels: all}
			s.series[all.String()] = e
		}
		_, _, value := parser.Series()
		e.samples = append(e.samples, sample{at: one.At.UnixMilli(), value: value})
	}
}

// Querier returns the store itself, which contains all samples.
func (s *store) Querier(int64, int64) (storage.Querier, error) { return s, nil }

// Select returns the series that match the matchers.
func (s *store) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, e := range s.series {
		if matches(e.labels, matchers) {
			found = append(found, storage.NewListSeries(e.labels, e.samples))
		}
	}
	return &seriesSet{series: found}
}

func matches(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

// LabelValues is required by the interface, but queries don't call it.
func (s *store) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames is required by the interface, but queries don't call it.
func (s *store) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close does nothing.
func (s *store) Close() error { return nil }

// sample is a float value at a time.
type sample struct {
	at    int64 // milliseconds since 1970
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 } // start time, which the text format doesn't have
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// seriesSet iterates over series.
type seriesSet struct {
	series []storage.Series
	at     int // one more than the index
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.at-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
