package access_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/portal/access"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

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
