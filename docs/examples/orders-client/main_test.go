package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRejectedTokenIsReplaced checks that the application replaces a token that the API rejects, but not a new
// one. An API that rejects all tokens would otherwise cause a token request for each call.
func TestRejectedTokenIsReplaced(t *testing.T) {
	requests, valid := 0, ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "bearer", "expires_in": 3600}`, requests)
	}))
	t.Cleanup(server.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+valid {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(api.Close)
	c := &caller{secret: t.TempDir()}
	for name, content := range map[string]string{
		"client_id": "acme-apps.billing", "client_secret": "secret", "cluster_token_url": server.URL,
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		if err := os.WriteFile(filepath.Join(c.secret, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call := func(wantRequests int) {
		t.Helper()
		if err := c.call(t.Context(), api.URL); err != nil {
			t.Fatal(err)
		}
		if requests != wantRequests {
			t.Errorf("%d token requests, want %d", requests, wantRequests)
		}
	}
	for range 5 {
		call(1)
	}
	valid = "token-2"
	c.issued = time.Now().Add(-time.Minute)
	call(1) // The token is replaced for the next call.
	call(2)
	call(2)
}
