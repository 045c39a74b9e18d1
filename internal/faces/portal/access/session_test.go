package access_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/hack/testkit/hostile"
	"github.com/realmkeeper/realmkeeper/internal/faces/portal/access"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// key returns a session key of the minimum length.
func key(b byte) []byte { return []byte(strings.Repeat(string(b), access.MinSessionKey)) }

func sessions(t *testing.T, key []byte, at time.Time) *access.Sessions {
	t.Helper()
	return testkit.Value(access.NewSessions(key, access.DefaultIdleTimeout, func() time.Time { return at }))(t)
}

// token returns a JWT with the given exp claim and length.
func token(exp time.Time, length int) string {
	payload := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix()))
	start := "e30." + payload + "."
	return start + strings.Repeat("x", length-len(start))
}

// request returns a request that sends back the cookies from the given response, like a browser.
func request(w *httptest.ResponseRecorder) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge >= 0 {
			r.AddCookie(c)
		}
	}
	return r
}

func TestSessionRoundTrip(t *testing.T) {
	user := access.User{Name: "grace", UID: "1"}
	for _, length := range []int{100, 1500, 4000, access.MaxTokenLength} {
		s := sessions(t, key('a'), now)
		session := s.New(user, token(now.Add(time.Hour), length))
		w := httptest.NewRecorder()
		if err := s.Write(w, session); err != nil {
			t.Fatalf("Write() with a token of %d bytes: %v", length, err)
		}
		for _, c := range w.Result().Cookies() {
			if len(c.String()) > 4096 {
				t.Errorf("Cookie has %d bytes, which exceeds the browser limit", len(c.String()))
			}
			if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-") {
				t.Errorf("Cookie %s isn't restricted to this host", c.Name)
			}
			if strings.Contains(c.Value, "grace") || strings.Contains(c.Value, strings.Repeat("x", 20)) {
				t.Error("Cookie isn't encrypted")
			}
		}
		got, err := sessions(t, key('a'), now).Read(request(w)) // as another replica
		if diff := cmp.Diff(session, got); diff != "" || err != nil {
			t.Errorf("Read(): %v (-want +got):\n%s", err, diff)
		}
		if _, err := sessions(t, key('b'), now).Read(request(w)); !errors.Is(err, access.ErrNoSession) {
			t.Errorf("Read() with a different key: %v, want ErrNoSession", err)
		}
	}
}

func TestSessionExpires(t *testing.T) {
	tests := map[string]struct {
		token string
		want  time.Time
	}{
		"with the token":            {token(now.Add(time.Hour), 100), now.Add(time.Hour)},
		"before a long-lived token": {token(now.Add(100*time.Hour), 100), now.Add(access.MaxSessionDuration)},
		"with an opaque token":      {"opaque", now.Add(access.MaxSessionDuration)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := sessions(t, key('a'), now)
			session := s.New(access.User{Name: "grace"}, tc.token)
			if !session.ExpiresAt.Equal(tc.want) {
				t.Errorf("Session expires at %s, want %s", session.ExpiresAt, tc.want)
			}
			session.UsedAt = tc.want.Add(-time.Minute)
			w := httptest.NewRecorder()
			testkit.Do(t, s.Write(w, session))
			if _, err := sessions(t, key('a'), tc.want.Add(-time.Second)).Read(request(w)); err != nil {
				t.Errorf("Read() before the expiration: %v", err)
			}
			if _, err := sessions(t, key('a'), tc.want).Read(request(w)); !errors.Is(err, access.ErrNoSession) {
				t.Errorf("Read() at the expiration: %v, want ErrNoSession", err)
			}
		})
	}
}

// A session with a changed character or a missing part is rejected.
func TestForgedSessionRejected(t *testing.T) {
	s := sessions(t, key('a'), now)
	w := httptest.NewRecorder()
	testkit.Do(t, s.Write(w, s.New(access.User{Name: "grace"}, token(now.Add(time.Hour), 3000))))
	good := request(w).Cookies()
	if len(good) < 2 {
		t.Fatalf("Session has %d cookies, want several", len(good))
	}
	for at := 0; at < len(good[0].Value); at += 97 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		changed := []byte(good[0].Value)
		changed[at] ^= 1
		r.AddCookie(&http.Cookie{Name: good[0].Name, Value: string(changed)})
		r.AddCookie(good[1])
		if _, err := s.Read(r); !errors.Is(err, access.ErrNoSession) {
			t.Fatalf("Read() with a changed character at %d: %v, want ErrNoSession", at, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(good[0])
	if _, err := s.Read(r); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("Read() without the second cookie: %v, want ErrNoSession", err)
	}
}

func TestShortSessionKeyRejected(t *testing.T) {
	if _, err := access.NewSessions(key('a')[1:], access.DefaultIdleTimeout, time.Now); !errors.Is(err, access.ErrSessionKey) {
		t.Errorf("NewSessions(): %v, want ErrSessionKey", err)
	}
}

func TestCheckToken(t *testing.T) {
	tests := map[string]struct {
		token string
		want  error
	}{
		"JWT":        {"eyJh.eyJz.c2ln_-", nil},
		"empty":      {"", access.ErrNoToken},
		"too long":   {strings.Repeat("x", access.MaxTokenLength+1), access.ErrTokenTooLong},
		"line break": {"abc\ndef", access.ErrTokenForm},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := access.CheckToken(tc.token); !errors.Is(err, tc.want) {
				t.Errorf("CheckToken(): %v, want %v", err, tc.want)
			}
		})
	}
}

// An administrator pastes the command into a shell. User names come from an identity provider.
func TestGrantCommandPassesExactUser(t *testing.T) {
	var commands strings.Builder
	var want [][]string
	for _, text := range hostile.Texts {
		text = hostile.Argument(text)
		commands.WriteString(access.User{Name: text}.GrantCommand(text) + "\n" + access.User{Name: "system:serviceaccount:ns:" + text}.GrantCommand("") + "\n")
		want = append(want,
			[]string{"kubectl", "create", "rolebinding", "NAME", "--namespace=" + text, "--clusterrole=manage-api-credentials", "--user=" + text},
			[]string{"kubectl", "create", "clusterrolebinding", "NAME", "--clusterrole=manage-api-credentials", "--serviceaccount=ns:" + text})
	}
	testkit.Diff(t, "Arguments", want, hostile.Run(t, commands.String(), "kubectl"))
}

// FuzzToken checks that the session duration is limited for every token.
func FuzzToken(f *testing.F) {
	for _, token := range []string{token(now, 100), token(now.Add(time.Hour), 100), "a.b.c", "opaque", "e30.eyJleHAiOi0xfQ.x", "e30.eyJleHAiOjFlMzA4fQ.x"} {
		f.Add(token)
	}
	s := testkit.Value(access.NewSessions(key('a'), access.DefaultIdleTimeout, func() time.Time { return now }))(f)
	f.Fuzz(func(t *testing.T, token string) {
		if access.CheckToken(token) != nil {
			return
		}
		session := s.New(access.User{}, token)
		if session.ExpiresAt.After(now.Add(access.MaxSessionDuration)) {
			t.Errorf("Session expires at %s, after the maximum", session.ExpiresAt)
		}
		w := httptest.NewRecorder()
		if err := s.Write(w, session); err != nil {
			t.Errorf("Write(): %v", err)
		}
		if got, err := s.Read(request(w)); session.ExpiresAt.After(now) && (err != nil || got.Token != token) {
			t.Errorf("Read() = token %q, %v", got.Token, err)
		}
	})
}
