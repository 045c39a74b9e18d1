package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/realmkeeper/realmkeeper/api/verify"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

// verifyLibrary checks that the library for APIs accepts tokens from a token server only for the scopes that
// they have.
func verifyLibrary(t *testing.T, i *installation) func(*testing.T, string) {
	verifier, err := verify.New(t.Context(), i.issuer, verify.Options{Audience: audience, Client: i.server.Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(verifier.Close)
	client := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, verify.FromContext(r.Context()).ClientID) })
	return func(t *testing.T, token string) {
		// The verifier loads keys at most every 5 seconds. In this test, a new key signs sooner than that.
		install.Eventually(t, "the verifier to know the key of the token", func() error {
			_, err := verifier.Verify(t.Context(), token)
			return err
		})
		for _, call := range []struct {
			token, scope string
			wantStatus   int
		}{{token, scope, http.StatusOK}, {token, "orders.write", http.StatusForbidden}, {token[:len(token)-8], scope, http.StatusUnauthorized}} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+call.token)
			w := httptest.NewRecorder()
			verifier.Require(call.scope)(client).ServeHTTP(w, r)
			if w.Code != call.wantStatus || w.Code == http.StatusOK && w.Body.String() != i.clientID {
				t.Errorf("scope %s: response is %d %s, want status %d", call.scope, w.Code, w.Body, call.wantStatus)
			}
		}
	}
}
