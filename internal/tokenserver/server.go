// Package tokenserver serves the OAuth 2.0 endpoints of realms over HTTP. To respond to clients and
// verifiers, it needs only the data in the registry.
package tokenserver

import (
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/realmkeeper/realmkeeper/internal/contract/usage"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/clientauth"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/replay"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/slowhash"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/token"
)

// Options contains the dependencies of a token server. All fields except Cluster, RefreshKeys, RecordUse,
// Audit, MaxStaleness, Tracer, TrustedProxies, InFlight, SlowHashMemory, and SignAndVerifyAlways are required.
type Options struct {
	Registry *registry.Registry
	// Cluster returns the keys that verify service account tokens. If nil, these tokens are
	// rejected.
	Cluster clientauth.ClusterKeys
	// RefreshKeys requests the keys of a realm's trusted issuer that signed a token with an unknown
	// key. It must not block. If nil, no keys are requested.
	RefreshKeys func(realm, issuer string)
	// RecordUse records that a credential has authenticated a client at the given time. It must not block.
	// If nil, nothing is recorded.
	RecordUse func(client *registry.Client, credential usage.Credential, now time.Time)
	Metrics   *Metrics
	Logger    *slog.Logger
	// Audit receives an event for each credential decision. If nil, there is no audit log.
	Audit *audit.Log
	// Tracer creates a span for each request. If nil, tracing is disabled.
	Tracer trace.Tracer
	// Confirmed returns the time of the state that the records are known to have, which is the "iat" of
	// status lists.
	Confirmed func() time.Time
	// MaxStaleness is how old that time can be before the server is not ready. If zero, it always is.
	MaxStaleness time.Duration
	// Now returns the current time. Random is the source of random token IDs.
	Now    func() time.Time
	Random io.Reader
	// TrustedProxies lists the networks of proxies whose X-Forwarded-For header is trusted.
	TrustedProxies []netip.Prefix
	// InFlight is the maximum number of requests in progress. At most a quarter of them wait after repeated
	// failures, and a quarter for slow hashes, so that neither keeps other clients out. If zero, it is
	// defaultInFlight.
	InFlight int
	// SlowHashMemory is the maximum number of bytes of all concurrent verifications of slowly hashed
	// secrets. If zero, it is slowhash.DefaultMemory.
	SlowHashMemory int64

	// SignAndVerifyAlways means that no token is issued again, and none is remembered, for benchmarks.
	SignAndVerifyAlways bool

	storedProofs int           // maxStoredProofs, except in tests
	memory       *token.Memory // set by New
}

// defaultInFlight is the number of requests in progress in the default memory of a token server. With more
// memory, no more of them wait.
const defaultInFlight = 256

// New returns the handler for the public port.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	reuse := token.NewReuse(token.MaxLast)
	o.memory = token.NewMemory(token.MemoryBytes)
	if o.SignAndVerifyAlways {
		reuse, o.memory = token.NewReuse(0), nil
	}
	waiting := max(1, min(cmp.Or(o.InFlight, defaultInFlight), defaultInFlight)/4)
	clients := clientEndpoint{
		Options: o,
		authenticator: clientauth.New(clientauth.Options{
			Realm: o.Registry.Realm, ClusterKeys: o.Cluster, RefreshKeys: o.RefreshKeys, Count: o.Metrics.asserted, RecordUse: o.RecordUse, Logger: o.Logger,
			SlowHashes: slowhash.New(slowhash.Options{Memory: o.SlowHashMemory, Waiters: waiting, Checks: o.Metrics.slowChecks}),
		}),
		delayed:          make(chan struct{}, waiting),
		exposureWarnings: ratelimit.NewRateLimiter(),
	}
	proofs := &proofs{used: replay.New(cmp.Or(o.storedProofs, maxStoredProofs)), metrics: o.Metrics, logger: o.Logger}
	(&introspectionEndpoint{clients}).mount(mux)
	(&tokenEndpoint{clientEndpoint: clients, tokenRates: ratelimit.NewRateLimiter(), proofs: proofs, reuse: reuse}).mount(mux)
	verifier := &verificationEndpoint{o, proofs}
	verifier.mount(mux)
	public := publicDocuments{mux}
	(&discovery{registry: o.Registry}).mount(public)
	(&statusLists{registry: o.Registry, confirmed: o.Confirmed, maxStaleness: o.MaxStaleness, now: o.Now, last: map[statusKey]*cachedList{}}).mount(public)
	(&authorizationEndpoint{registry: o.Registry}).mount(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, oauth.ErrNotFound)
	})
	if o.Tracer != nil {
		return traced(guard(mux, verifier), o.Tracer)
	}
	return guard(mux, verifier)
}

var connectionClose = []string{"close"}

// guard handles what must not get to the mux: paths that it would clean, and those below the verify endpoint. It
// also closes the connection after a request with Transfer-Encoding.
func guard(routes http.Handler, verifier *verificationEndpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// If a request has both Transfer-Encoding and Content-Length, net/http uses
		// Transfer-Encoding and hides Content-Length. A proxy that uses Content-Length may treat
		// the bytes that follow as part of the body. Close the connection, so that they are not
		// read as a request (RFC 9112 §6.1).
		if len(r.TransferEncoding) > 0 {
			w.Header()["Connection"] = connectionClose
		}
		// The end of the path comes from the API request and may have any form. Split the escaped path,
		// so that the API request can't affect the parts before it.
		if realm, rest, ok := belowVerification(r.URL.EscapedPath()); ok {
			r.Pattern = "/{realm}" + oauth.VerificationPath + "/"
			verifier.serveBelow(w, r, realm, rest)
			return
		}
		// The mux would redirect to the clean path, and the redirect would repeat the query.
		if r.URL.Path != path.Clean(r.URL.Path) {
			writeError(w, oauth.ErrNotFound)
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// ServerLimits returns the limits for the public port. A request has a few hundred bytes and a
// response takes microseconds, so a client that needs longer is broken or malicious. Idle connections cost no
// more than memory, and stay open for the given time.
func ServerLimits(idle time.Duration) httpserver.Limits {
	return httpserver.Limits{
		Header: 3 * time.Second, Body: 3 * time.Second, Write: 10 * time.Second, Idle: idle,
		HeaderBytes: oauth.MaxHeaderBytes,
		BodyBytes:   oauth.MaxBodyBytes,
	}
}

// Reject responds to a request that a limit of the server rejects, with status 408, 431, or 503.
func Reject(w http.ResponseWriter, status int) {
	switch status {
	case http.StatusRequestTimeout:
		writeError(w, oauth.ErrSlowBody)
	case http.StatusRequestHeaderFieldsTooLarge:
		writeError(w, oauth.ErrHeaders)
	default:
		writeError(w, oauth.ErrOverloaded)
	}
}
