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
	// The prefix __Host- restricts a cookie to HTTPS, this host and the path /, so other hosts
	// can't set it (RFC 6265bis, section 4.1.3.2). Browsers treat localhost as secure.
	sessionCookie = "__Host-realmkeeper-session"
	signInCookie  = "__Host-realmkeeper-sign-in"

	// Browsers limit a cookie to 4096 bytes, including its name and attributes. Larger
	// sessions are split into several cookies.
	cookieBytes = 3800
	maxCookies  = 4

	// MaxSessionDuration is the maximum session duration, even if the token expires later or has no
	// known expiration.
	MaxSessionDuration = 12 * time.Hour
	// DefaultIdleTimeout is the default time after which an unused session expires.
	DefaultIdleTimeout = 30 * time.Minute
	// MinIdleTimeout is the minimum idle timeout. The maximum is MaxSessionDuration.
	MinIdleTimeout = 5 * time.Minute
	// renewInterval is how often the time of last use is written to the cookies. A session can
	// therefore expire this much earlier than its idle timeout.
	renewInterval = time.Minute
	// signInTimeout is the time that users have to sign in at the identity provider.
	signInTimeout = 10 * time.Minute

	// MinSessionKey is the minimum length of a session key in bytes.
	MinSessionKey = 32
)

var (
	// ErrNoSession means that the request has no valid session.
	ErrNoSession = errors.New("no session")
	// ErrIdle means that the session was not used for longer than the idle timeout.
	ErrIdle = errors.New("session was idle for too long")
	// ErrIdleTimeout means that an idle timeout is too short or too long.
	ErrIdleTimeout = fmt.Errorf("idle timeout must be at least %s and at most %s", MinIdleTimeout, MaxSessionDuration)
	// ErrSessionKey means that a session key is too short.
	ErrSessionKey = fmt.Errorf("session key must have at least %d bytes", MinSessionKey)
)

// Session is the session of a signed-in user.
type Session struct {
	User      User      `json:"person"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"ends"`
	UsedAt    time.Time `json:"used"`
}

// Sessions stores sessions in encrypted cookies. Nothing is stored on the server, so all
// replicas with the same key accept the same sessions.
type Sessions struct {
	session, signIn, browser *securecookie.SecureCookie
	idleTimeout              time.Duration
	now                      func() time.Time
}

// NewSessions returns Sessions that use the given encryption key and end after the given time
// without use. All replicas must share the key. It returns ErrSessionKey if the key is too short, and
// ErrIdleTimeout if the idle timeout is out of bounds.
func NewSessions(key []byte, idleTimeout time.Duration, now func() time.Time) (*Sessions, error) {
	if len(key) < MinSessionKey {
		return nil, ErrSessionKey
	}
	if idleTimeout < MinIdleTimeout || idleTimeout > MaxSessionDuration {
		return nil, ErrIdleTimeout
	}
	session, err := newCodec(key, sessionCookie, MaxSessionDuration)
	if err != nil {
		return nil, err
	}
	signIn, err := newCodec(key, signInCookie, signInTimeout)
	if err != nil {
		return nil, err
	}
	browser, err := newCodec(key, browserCookie, browserLifetime)
	if err != nil {
		return nil, err
	}
	return &Sessions{session: session, signIn: signIn, browser: browser, idleTimeout: idleTimeout, now: now}, nil
}

// newCodec returns a codec with keys derived for the given use, so that a cookie of one kind isn't
// accepted as another kind.
func newCodec(key []byte, use string, lifetime time.Duration) (*securecookie.SecureCookie, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, use, 96)
	if err != nil {
		return nil, fmt.Errorf("deriving session keys: %w", err)
	}
	s := securecookie.New(derived[:64], derived[64:]) // HMAC-SHA-256 over AES-256-CTR
	s.SetSerializer(securecookie.JSONEncoder{})
	s.MaxAge(int(lifetime.Seconds()))
	s.MaxLength(maxCookies * cookieBytes)
	return s, nil
}

// New returns a session for the user. The session expires with the token, or after
// MaxSessionDuration if that is earlier.
func (s *Sessions) New(user User, token string) Session {
	now := s.now()
	expiresAt := now.Add(MaxSessionDuration)
	if exp := tokenExpiry(token); !exp.IsZero() && exp.Before(expiresAt) {
		expiresAt = exp
	}
	return Session{User: user, Token: token, ExpiresAt: expiresAt, UsedAt: now}
}

// Write sets the cookies of a session.
func (s *Sessions) Write(w http.ResponseWriter, session Session) error {
	encrypted, err := s.session.Encode(sessionCookie, session)
	if err != nil {
		return fmt.Errorf("encrypting the session: %w", err)
	}
	maxAge := int(session.ExpiresAt.Sub(s.now()).Seconds())
	for i := range maxCookies {
		part := encrypted[min(i*cookieBytes, len(encrypted)):min((i+1)*cookieBytes, len(encrypted))]
		if part == "" {
			expire(w, partName(i)) // may remain from a longer session
			continue
		}
		http.SetCookie(w, cookie(partName(i), part, max(1, maxAge)))
	}
	return nil
}

// Renew records that the session was used. It writes the cookies at most once a minute.
func (s *Sessions) Renew(w http.ResponseWriter, session Session) error {
	now := s.now()
	if now.Sub(session.UsedAt) < renewInterval {
		return nil
	}
	session.UsedAt = now
	return s.Write(w, session)
}

// Read returns the session from the request's cookies. It returns ErrNoSession if they contain no
// valid session, and ErrIdle if the session was not used for too long.
func (s *Sessions) Read(r *http.Request) (Session, error) {
	var encrypted strings.Builder
	for i := range maxCookies {
		c, err := r.Cookie(partName(i))
		if err != nil {
			break
		}
		encrypted.WriteString(c.Value)
	}
	var session Session
	if err := s.session.Decode(sessionCookie, encrypted.String(), &session); err != nil {
		return Session{}, ErrNoSession
	}
	if !s.now().Before(session.ExpiresAt) {
		return Session{}, ErrNoSession
	}
	if s.now().Sub(session.UsedAt) >= s.idleTimeout {
		return Session{}, ErrIdle
	}
	return session, nil
}

// End deletes the cookies of a session.
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

// cookie returns a cookie for all paths of the host. SameSite=Lax keeps users signed in when they
// follow a link from another site or the redirect from the identity provider. The portal also
// checks the origin of requests that make changes.
func cookie(name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

func expire(w http.ResponseWriter, name string) { http.SetCookie(w, cookie(name, "", -1)) }
