package httpserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/connections"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver/requests"
)

// shed counts what a server rejected to stay within its limits.
type shed struct {
	connections, requests *prometheus.CounterVec
}

func newShed() shed {
	s := shed{
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_http_connections_closed_total",
			Help: `Connections to the public port that were closed to stay within the limits, by reason: "idle" if the oldest idle one made room for another, "source" if its source had too many, "limit" if there were too many in total, "abuse" if the client sent a lot without completing a request, "memory" if memory was short, or "proxy_header" if the PROXY protocol header was missing or malformed.`,
		}, []string{"reason"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realmkeeper_http_requests_rejected_total",
			Help: `Requests to the public port that were rejected to stay within the limits, by reason: "busy" if too many were in progress, "displaced" if one of them had waited longest for its body, "body_timeout" if the body did not arrive in time, "headers" if there were too many headers, or "unsent" if too many HTTP/2 responses could not be sent.`,
		}, []string{"reason"}),
	}
	// All series exist from the start, so that alerts see the first increase.
	for _, reason := range connections.Reasons {
		s.connections.WithLabelValues(reason)
	}
	for _, reason := range requests.Reasons {
		s.requests.WithLabelValues(reason)
	}
	return s
}

func (s *shed) connection(reason string) { s.connections.WithLabelValues(reason).Inc() }

func (s *shed) request(reason string) { s.requests.WithLabelValues(reason).Inc() }

// register registers the metrics of the public port.
func (s *shed) register(registerer prometheus.Registerer, listener *connections.Listener, limiter *requests.Limiter, memory Memory) {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	registerer.MustRegister(s.connections, s.requests,
		gauge("realmkeeper_http_connections", "Open connections to the public port.", listener.Open),
		gauge("realmkeeper_http_connections_limit", "Maximum number of connections to the public port.", func() int { return memory.Connections }),
		gauge("realmkeeper_http_requests_in_flight", "Requests to the public port that are in progress.", limiter.InFlight),
		gauge("realmkeeper_http_requests_in_flight_limit", "Maximum number of requests to the public port in progress.", func() int { return memory.InFlight }),
	)
}
