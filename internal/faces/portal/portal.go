// Package portal implements the web portal for managing API credentials. It uses the
// signed-in user's token, so the API server authorizes every request. It stores no sessions,
// objects or secrets.
package portal

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/serve/audit"
	"github.com/realmkeeper/realmkeeper/internal/serve/ratelimit"
	"github.com/realmkeeper/realmkeeper/internal/tools/gitops"
)

// FieldOwner is the portal's field manager name, regardless of the user.
const FieldOwner = gitops.FieldOwnerPortal

// DefaultTimeout is shorter than the write timeout, so that users get a response.
const DefaultTimeout = 20 * time.Second

// DefaultStaleAfter is the default of usage.staleAfter in the instance configuration.
const DefaultStaleAfter = 90 * day

// Options configures the portal.
type Options struct {
	Cluster  *access.Cluster
	Sessions *access.Sessions
	// Provider is the identity provider. If it is nil, users sign in with a Kubernetes token only.
	Provider *access.Provider
	// InitialAdmin is the service account, as namespace/name, in the command on the sign-in page.
	// If it is empty, the command contains placeholders.
	InitialAdmin string
	// TrustedProxies are the proxies whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	Logger         *slog.Logger
	// Audit receives an event for each sign-in and each change.
	Audit *audit.Log
	// Metrics registers the portal's metrics.
	Metrics prometheus.Registerer
	// Timeout limits how long a request waits for the API server and the issuer. The default is
	// DefaultTimeout.
	Timeout time.Duration
	// StaleAfter is how long a credential must have been unused to need attention. The default is
	// DefaultStaleAfter.
	StaleAfter time.Duration
	// Now returns the current time. Random is the random source for secrets and salts.
	Now    func() time.Time
	Random io.Reader
}

type portal struct {
	Options

	pages    pages
	failures *ratelimit.Failures
	metrics  metrics
	late     chan struct{} // contains a value while a late page of a sorted list is read
}

// request is a signed-in user's request.
type request struct {
	session access.Session
	api     *access.Client // acts as the user
	r       *http.Request
}

func (req *request) ctx() context.Context { return req.r.Context() }
