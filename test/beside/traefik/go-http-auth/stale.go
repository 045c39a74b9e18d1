// Package auth adds to go-http-auth what Traefik's fork has and its middleware digestAuth calls.
package auth

import "net/http"

// RequireAuthStale is RequireAuth, because digestAuth isn't used here.
func (da *DigestAuth) RequireAuthStale(w http.ResponseWriter, r *http.Request) { da.RequireAuth(w, r) }
