package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/realmkeeper/realmkeeper/docs/examples/orders-api/bearer"
)

// The example of an API takes tokens of the real token server, for what they are good for.
func testExampleAcrossRotation(t *testing.T, p *place) {
	ctx := oidc.ClientContext(t.Context(), p.server.Client(t))
	verifier, err := bearer.NewVerifier(ctx, p.issuer, audience)
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
		if w.Code != wantStatus || wantStatus == http.StatusOK && w.Body.String() != p.clientID {
			t.Errorf("scope %s: answers %d %s, want %d", scope, w.Code, w.Body, wantStatus)
		}
	}
	before := p.token(t)
	call(before, scope, http.StatusOK)
	call(before, "orders.write", http.StatusForbidden)
	p.rotate(t)
	call(before, scope, http.StatusOK)
	call(p.token(t), scope, http.StatusOK)
	call(before[:len(before)-8], scope, http.StatusUnauthorized)
}
