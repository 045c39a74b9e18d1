// Package buildinfo has the metric that says which build runs. Packages that need only the version import
// package version, which doesn't link Prometheus.
package buildinfo

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/contract/version"
)

// NewMetric returns a metric with the value 1 and the version of this build in its labels.
func NewMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "realmkeeper_build_info",
		Help:        "Always 1. The labels contain the version of the program, its Git revision, and the version of Go that built it.",
		ConstLabels: prometheus.Labels{"version": version.Version, "revision": version.Revision, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
