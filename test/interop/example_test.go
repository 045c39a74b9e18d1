package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/realmkeeper/realmkeeper/docs/examples/orders-api/bearer"
)

// exampleAPI checks that the example API accepts tokens from a token server only for the scopes that
// they have.
func exampleAPI(t *testing.T, i *installation) func(*testing.T, string) {
	ctx := oidc.ClientContext(t.Context(), i.server.Client(t))
	verifier, err := bearer.NewVerifier(ctx, i.issuer, audience)
	if err != nil {
		t.Fatal(err)
	}
	client := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, bearer.CallerOf(r.Context()).ClientID) })
	return func(t *testing.T, token string) {
		for _, call := range []struct {
			token, scope string
			wantStatus   int
		}{{token, scope, http.StatusOK}, {token, "orders.write", http.StatusForbidden}, {token[:len(token)-8], scope, http.StatusUnauthorized}} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+call.token)
			w := httptest.NewRecorder()
			verifier.Require(call.scope, client).ServeHTTP(w, r)
			if w.Code != call.wantStatus || w.Code == http.StatusOK && w.Body.String() != i.clientID {
				t.Errorf("scope %s: response is %d %s, want status %d", call.scope, w.Code, w.Body, call.wantStatus)
			}
		}
	}
}
