// Package version holds the version of this build.
package version

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Version and Revision are set at link time.
var (
	Version  = "dev"
	Revision = "unknown"
)

// String returns the version followed by the revision in parentheses.
func String() string { return Version + " (" + Revision + ")" }

// NewMetric returns a metric with the value 1 and the version of this build in its labels.
func NewMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "realmkeeper_build_info",
		Help:        "Always 1. The labels contain the version of the program, its Git revision, and the version of Go that built it.",
		ConstLabels: prometheus.Labels{"version": Version, "revision": Revision, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
