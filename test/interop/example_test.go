package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/realmkeeper/realmkeeper/docs/examples/orders-api/bearer"
)

// testExampleAcrossRotation checks that the example API accepts tokens from a token server only for
// the scopes that they have, before and after a signing key rotation.
func testExampleAcrossRotation(t *testing.T, i *installation) {
	ctx := oidc.ClientContext(t.Context(), i.server.Client(t))
	verifier, err := bearer.NewVerifier(ctx, i.issuer, audience)
	if err != nil {
		t.Fatal(err)
	}
	client := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, bearer.CallerOf(r.Context()).ClientID) })
	call := func(token, scope string, wantStatus int) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		verifier.Require(scope, client).ServeHTTP(w, r)
		if w.Code != wantStatus || wantStatus == http.StatusOK && w.Body.String() != i.clientID {
			t.Errorf("scope %s: response is %d %s, want status %d", scope, w.Code, w.Body, wantStatus)
		}
	}
	before := i.token(t)
	call(before, scope, http.StatusOK)
	call(before, "orders.write", http.StatusForbidden)
	i.rotate(t)
	call(before, scope, http.StatusOK)
	call(i.token(t), scope, http.StatusOK)
	call(before[:len(before)-8], scope, http.StatusUnauthorized)
}
