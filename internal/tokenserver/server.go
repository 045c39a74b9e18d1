// Package tokenserver answers the OAuth 2.0 requests of a realm's clients and
// verifiers over HTTP, from the registry alone.
package tokenserver

import (
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/realmkeeper/realmkeeper/internal/audit"
	"github.com/realmkeeper/realmkeeper/internal/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/limiter"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// Options are what a token server stands on. All are required but Cluster, Audit, Tracer and TrustedProxies.
type Options struct {
	Registry *registry.Registry
	// Cluster knows the keys of service account tokens; nil: none are taken.
	Cluster clientauth.ClusterKeys
	Metrics *Metrics
	Logger  *slog.Logger
	// Audit takes an event for each decision about credentials; nil: there is no audit.
	Audit *audit.Log
	// Tracer makes a span for each request; nil: none.
	Tracer trace.Tracer
	// Now is the clock; Random gives token ids.
	Now    func() time.Time
	Random io.Reader
	// TrustedProxies are the networks of the proxies that are believed what they say in
	// X-Forwarded-For.
	TrustedProxies []netip.Prefix
}

// New returns the handler of the public port.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	clients := clientEndpoint{
		Options: o,
		clients: clientauth.New(clientauth.Options{ClusterKeys: o.Cluster, Argon2idChecks: o.Metrics.slowChecks, Logger: o.Logger}),
		held:    make(chan struct{}, maxHeld),
	}
	(&tokenEndpoint{clients, limiter.NewPace()}).mount(mux)
	(&introspectionEndpoint{clients}).mount(mux)
	verification := &verificationEndpoint{o}
	verification.mount(mux)
	(&discovery{registry: o.Registry}).mount(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, oauth.ErrNotFound)
	})
	if o.Tracer != nil {
		return traced(guard(mux, verification), o.Tracer)
	}
	return guard(mux, verification)
}

var connectionClose = []string{"close"}

// guard stands before all routes, for what net/http allows and a credentials server can't.
func guard(routes http.Handler, verification *verificationEndpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Of Transfer-Encoding and Content-Length net/http believes the first and hides the
		// second. What follows on the connection may be a body to a proxy that believed the
		// other, and must not be read as a request (RFC 9112 §6.1).
		if len(r.TransferEncoding) > 0 {
			w.Header()["Connection"] = connectionClose
		}
		// What stands behind is the path of somebody else's API, of whatever form.
		if realm, ok := forwardedRealm(r.URL.Path); ok {
			r.Pattern = "/{realm}" + oauth.VerificationPath + "/"
			verification.serve(w, r, realm, "") // the query is the caller's, not the gateway's
			return
		}
		// The mux would redirect to the clean path, with the query repeated in the answer.
		if r.URL.Path != path.Clean(r.URL.Path) {
			writeError(w, oauth.ErrNotFound)
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// ServerLimits returns the limits of the public port. A request is a few hundred bytes and a response
// takes microseconds, so a client that needs longer is broken or hostile.
func ServerLimits() httpserver.Limits {
	return httpserver.Limits{
		ReadHeader: 5 * time.Second, Read: 10 * time.Second, Write: 10 * time.Second, Idle: 2 * time.Minute,
		// The handler rejects requests above oauth.MaxHeaderBytes with an OAuth error response. This
		// bound protects the memory before that.
		HeaderBytes: 2 * oauth.MaxHeaderBytes,
	}
}
