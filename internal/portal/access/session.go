package access

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/securecookie"
)

const (
	// The prefix __Host- binds a cookie to this host and to HTTPS, and to the whole of it: nobody
	// beside us can set it (RFC 6265bis, section 4.1.3.2). Browsers take localhost for safe.
	sessionCookie = "__Host-realmkeeper-session"
	signInCookie  = "__Host-realmkeeper-sign-in"

	// A cookie holds at most 4096 bytes with its name and attributes; a session has several.
	cookieBytes = 3800
	maxCookies  = 4

	// LongestSession bounds a session whose token says no end, or a later one.
	LongestSession = 12 * time.Hour
	// signInTime is how long a sign-in at the identity provider may take.
	signInTime = 10 * time.Minute

	// MinSessionKey is the shortest session key, in bytes.
	MinSessionKey = 32
)

var (
	// ErrNoSession says that nobody is signed in, or no longer.
	ErrNoSession = errors.New("there is no session")
	// ErrSessionKey says that a session key is too short.
	ErrSessionKey = fmt.Errorf("a session key needs at least %d bytes", MinSessionKey)
)

// Session is a signed-in person.
type Session struct {
	Person Person    `json:"person"`
	Token  string    `json:"token"`
	Ends   time.Time `json:"ends"`
}

// Sessions seals sessions into cookies and opens them. Nothing is stored: whoever has the key can
// open them, so that all replicas serve everybody.
type Sessions struct {
	session, signIn *securecookie.SecureCookie
	now             func() time.Time
}

// NewSessions returns sessions sealed with a key that all replicas have.
// Its error is ErrSessionKey.
func NewSessions(key []byte, now func() time.Time) (*Sessions, error) {
	if len(key) < MinSessionKey {
		return nil, ErrSessionKey
	}
	session, err := sealer(key, sessionCookie, LongestSession)
	if err != nil {
		return nil, err
	}
	signIn, err := sealer(key, signInCookie, signInTime)
	if err != nil {
		return nil, err
	}
	return &Sessions{session: session, signIn: signIn, now: now}, nil
}

// sealer derives a pair of keys for each use, so that one cookie can't stand in for another.
func sealer(key []byte, use string, lasts time.Duration) (*securecookie.SecureCookie, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, use, 96)
	if err != nil {
		return nil, fmt.Errorf("deriving the keys of sessions: %w", err)
	}
	s := securecookie.New(derived[:64], derived[64:]) // HMAC-SHA-256 over AES-256-CTR
	s.SetSerializer(securecookie.JSONEncoder{})
	s.MaxAge(int(lasts.Seconds()))
	s.MaxLength(maxCookies * cookieBytes)
	return s, nil
}

// New returns the session of a person: it ends with the token.
func (s *Sessions) New(person Person, token string) Session {
	ends := s.now().Add(LongestSession)
	if by := expiry(token); !by.IsZero() && by.Before(ends) {
		ends = by
	}
	return Session{Person: person, Token: token, Ends: ends}
}

// Write sets the cookies of a session.
func (s *Sessions) Write(w http.ResponseWriter, session Session) error {
	sealed, err := s.session.Encode(sessionCookie, session)
	if err != nil {
		return fmt.Errorf("sealing a session: %w", err)
	}
	lasts := int(session.Ends.Sub(s.now()).Seconds())
	for i := range maxCookies {
		part := sealed[min(i*cookieBytes, len(sealed)):min((i+1)*cookieBytes, len(sealed))]
		if part == "" {
			expire(w, partName(i)) // a longer session may have stood here
			continue
		}
		http.SetCookie(w, cookie(partName(i), part, max(1, lasts)))
	}
	return nil
}

// Read returns the session of a request. Its error is ErrNoSession.
func (s *Sessions) Read(r *http.Request) (Session, error) {
	var sealed strings.Builder
	for i := range maxCookies {
		c, err := r.Cookie(partName(i))
		if err != nil {
			break
		}
		sealed.WriteString(c.Value)
	}
	var session Session
	if err := s.session.Decode(sessionCookie, sealed.String(), &session); err != nil {
		return Session{}, ErrNoSession
	}
	if !s.now().Before(session.Ends) {
		return Session{}, ErrNoSession
	}
	return session, nil
}

// End removes the cookies of a session.
func (s *Sessions) End(w http.ResponseWriter) {
	for i := range maxCookies {
		expire(w, partName(i))
	}
}

func partName(i int) string {
	if i == 0 {
		return sessionCookie
	}
	return sessionCookie + "-" + strconv.Itoa(i)
}

// cookie returns one for the whole host. Lax lets a person come from a link elsewhere, or from the
// identity provider; requests that change something are held to their origin besides.
func cookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

func expire(w http.ResponseWriter, name string) { http.SetCookie(w, cookie(name, "", -1)) }
