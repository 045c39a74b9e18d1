package access

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"time"
)

const (
	browserCookie = "__Host-realmkeeper-browser"
	// browserLifetime is how long a browser is known after a sign-in.
	browserLifetime = 90 * 24 * time.Hour
)

// RememberBrowser sets a cookie that identifies the browser as one in which a user has signed in. It
// contains a random ID and nothing about the user, and grants no access.
func (s *Sessions) RememberBrowser(w http.ResponseWriter, r *http.Request) error {
	id := s.KnownBrowser(r)
	if id == "" {
		id = rand.Text()
	}
	encrypted, err := s.browser.Encode(browserCookie, id)
	if err != nil {
		return fmt.Errorf("encrypting the browser cookie: %w", err)
	}
	http.SetCookie(w, cookie(browserCookie, encrypted, int(browserLifetime.Seconds())))
	return nil
}

// KnownBrowser returns the ID of the browser, or an empty string if no user has signed in there.
func (s *Sessions) KnownBrowser(r *http.Request) (id string) {
	c, err := r.Cookie(browserCookie)
	if err != nil || s.browser.Decode(browserCookie, c.Value, &id) != nil {
		return ""
	}
	return id
}
