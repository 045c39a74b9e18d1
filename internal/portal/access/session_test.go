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

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// key is long enough, and a second one differs.
func key(b byte) []byte { return []byte(strings.Repeat(string(b), access.MinSessionKey)) }

func sessions(t *testing.T, key []byte, at time.Time) *access.Sessions {
	t.Helper()
	s, err := access.NewSessions(key, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// token returns a JWT with such an exp claim and so many characters.
func token(exp time.Time, length int) string {
	payload := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix()))
	start := "e30." + payload + "."
	return start + strings.Repeat("x", length-len(start))
}

// request returns one that carries the cookies of an answer, as a browser sends them.
func request(w *httptest.ResponseRecorder) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge >= 0 {
			r.AddCookie(c)
		}
	}
	return r
}

func TestSessionsAreSealed(t *testing.T) {
	person := access.Person{Name: "grace", UID: "1"}
	for _, length := range []int{100, 1500, 4000, access.MaxTokenLength} {
		s := sessions(t, key('a'), now)
		session := s.New(person, token(now.Add(time.Hour), length))
		w := httptest.NewRecorder()
		if err := s.Write(w, session); err != nil {
			t.Fatalf("A token of %d characters: %v", length, err)
		}
		for _, c := range w.Result().Cookies() {
			if len(c.String()) > 4096 {
				t.Errorf("A cookie has %d characters, more than browsers keep", len(c.String()))
			}
			if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-") {
				t.Errorf("The cookie %s isn't bound to this host", c.Name)
			}
			if strings.Contains(c.Value, "grace") || strings.Contains(c.Value, strings.Repeat("x", 20)) {
				t.Error("A cookie shows what it holds")
			}
		}
		got, err := sessions(t, key('a'), now).Read(request(w)) // by another replica
		if diff := cmp.Diff(session, got); diff != "" || err != nil {
			t.Errorf("Read gives %v (-want +got):\n%s", err, diff)
		}
		if _, err := sessions(t, key('b'), now).Read(request(w)); !errors.Is(err, access.ErrNoSession) {
			t.Errorf("Read with another key gives %v", err)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	tests := map[string]struct {
		token string
		want  time.Time
	}{
		"with the token":                       {token(now.Add(time.Hour), 100), now.Add(time.Hour)},
		"at last, where the token lasts long":  {token(now.Add(100*time.Hour), 100), now.Add(access.LongestSession)},
		"at last, where the token doesn't say": {"opaque", now.Add(access.LongestSession)},
		"at last, where it isn't JSON":         {"a.b.c", now.Add(access.LongestSession)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := sessions(t, key('a'), now)
			session := s.New(access.Person{Name: "grace"}, tc.token)
			if !session.Ends.Equal(tc.want) {
				t.Errorf("It ends %s, want %s", session.Ends, tc.want)
			}
			w := httptest.NewRecorder()
			if err := s.Write(w, session); err != nil {
				t.Fatal(err)
			}
			if _, err := sessions(t, key('a'), tc.want.Add(-time.Second)).Read(request(w)); err != nil {
				t.Errorf("Read before gives %v", err)
			}
			if _, err := sessions(t, key('a'), tc.want).Read(request(w)); !errors.Is(err, access.ErrNoSession) {
				t.Errorf("Read at the end gives %v", err)
			}
		})
	}
}

// A changed character anywhere, a missing part, and parts of another session are no session.
func TestForgedSessions(t *testing.T) {
	s := sessions(t, key('a'), now)
	w := httptest.NewRecorder()
	if err := s.Write(w, s.New(access.Person{Name: "grace"}, token(now.Add(time.Hour), 3000))); err != nil {
		t.Fatal(err)
	}
	good := request(w).Cookies()
	if len(good) < 2 {
		t.Fatalf("%d cookies, want a session that has several", len(good))
	}
	for at := 0; at < len(good[0].Value); at += 97 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		changed := []byte(good[0].Value)
		changed[at] ^= 1
		r.AddCookie(&http.Cookie{Name: good[0].Name, Value: string(changed)})
		r.AddCookie(good[1])
		if _, err := s.Read(r); !errors.Is(err, access.ErrNoSession) {
			t.Fatalf("With another character at %d Read gives %v", at, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(good[0])
	if _, err := s.Read(r); !errors.Is(err, access.ErrNoSession) {
		t.Errorf("Without its second part Read gives %v", err)
	}
}

func TestShortKeysAreRefused(t *testing.T) {
	if _, err := access.NewSessions(key('a')[1:], time.Now); !errors.Is(err, access.ErrSessionKey) {
		t.Errorf("NewSessions gives %v", err)
	}
}

func TestCheckToken(t *testing.T) {
	tests := map[string]struct {
		token string
		want  error
	}{
		"a JWT":      {"eyJh.eyJz.c2ln_-", nil},
		"opaque":     {"abc/def+ghi=", nil},
		"none":       {"", access.ErrNoToken},
		"too long":   {strings.Repeat("x", access.MaxTokenLength+1), access.ErrTokenTooLong},
		"a line":     {"abc\ndef", access.ErrTokenForm},
		"two tokens": {"abc def", access.ErrTokenForm},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := access.CheckToken(tc.token); !errors.Is(err, tc.want) {
				t.Errorf("CheckToken gives %v, want %v", err, tc.want)
			}
		})
	}
}

func TestGrantCommand(t *testing.T) {
	tests := map[string]struct {
		person, namespace, want string
	}{
		"a user": {"grace@example.com", "", "kubectl create clusterrolebinding NAME --clusterrole=manage-api-credentials --user=grace@example.com"},
		"a service account": {
			"system:serviceaccount:system:initial-admin", "team",
			"kubectl create rolebinding NAME --namespace=team --clusterrole=manage-api-credentials --serviceaccount=system:initial-admin",
		},
		"one with a name for shells": {
			"$(reboot)'; x", "",
			`kubectl create clusterrolebinding NAME --clusterrole=manage-api-credentials --user='$(reboot)'\''; x'`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (access.Person{Name: tc.person}).GrantCommand(tc.namespace); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
