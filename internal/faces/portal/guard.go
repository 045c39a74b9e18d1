package portal

import (
	"net/http"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/serve/httpserver"
)

const (
	// maxBody is the maximum size of a submitted form in bytes.
	maxBody = 64 << 10

	// contentPolicy restricts pages to the portal's own resources. Pico CSS uses data: URLs for
	// icons.
	contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// guard wraps all routes. It rejects cross-origin requests and sets the security headers.
func guard(routes http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Cross-site request rejected.", http.StatusForbidden)
	}))
	protected := crossOrigin.Handler(routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Strict-Transport-Security", "max-age=31536000") // browsers ignore this header without HTTPS
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		protected.ServeHTTP(w, r)
	})
}

// ServerLimits returns the limits for the public port. The write timeout is long because rendering
// a page can require several API server requests.
func ServerLimits() httpserver.Limits {
	return httpserver.Limits{
		Header: 3 * time.Second, Body: 3 * time.Second, Write: time.Minute, Idle: httpserver.DefaultIdle,
		HeaderBytes: 32 << 10, // the cookies of a session have up to 16 KiB
		BodyBytes:   maxBody,
	}
}

// Reject responds to a request that a limit of the server rejects, with status 408, 431, or 503.
func Reject(w http.ResponseWriter, status int) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, "The portal is too busy, or your request arrived too slowly. Try again.", status)
}
