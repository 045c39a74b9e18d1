package access_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
)

// No cookie that we haven't sealed is a session.
func FuzzSessionCookie(f *testing.F) {
	f.Add("")
	f.Add("MTc3MjM2NjQwMHxhYmN8ZGVm")
	s, err := access.NewSessions(key('a'), func() time.Time { return now })
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: "__Host-realmkeeper-session", Value: value})
		if _, err := s.Read(r); !errors.Is(err, access.ErrNoSession) {
			t.Errorf("Read gives %v", err)
		}
	})
}

// Whatever a token says of its end, a session has one within bounds.
func FuzzToken(f *testing.F) {
	for _, token := range []string{token(now, 100), token(now.Add(time.Hour), 100), "a.b.c", "opaque", "e30.eyJleHAiOi0xfQ.x", "e30.eyJleHAiOjFlMzA4fQ.x"} {
		f.Add(token)
	}
	s, err := access.NewSessions(key('a'), func() time.Time { return now })
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if access.CheckToken(token) != nil {
			return
		}
		session := s.New(access.Person{}, token)
		if session.Ends.After(now.Add(access.LongestSession)) {
			t.Errorf("It ends %s", session.Ends)
		}
		w := httptest.NewRecorder()
		if err := s.Write(w, session); err != nil {
			t.Errorf("Write gives %v", err)
		}
		if got, err := s.Read(request(w)); session.Ends.After(now) && (err != nil || got.Token != token) {
			t.Errorf("Read gives %q and %v", got.Token, err)
		}
	})
}
