package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// serveAPI serves GET /orders, which returns the caller's client ID. It requires a token from the
// issuer with the scope orders.read.
func serveAPI(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", ":8080", "`Address` to serve plain HTTP on")
	issuer := flags.String("issuer", "", "Issuer `URL` of the realm")
	audience := flags.String("audience", "", "Required audience of tokens; defaults to the issuer")
	jwks := flags.String("jwks-url", "", "`URL` of the realm's public keys")
	ca := flags.String("ca-file", "", "CA `file` for jwks-url")
	if err := flags.Parse(args); err != nil {
		return err
	}
	httpClient, err := trusting(*ca)
	if err != nil {
		return err
	}
	ctx = oidc.ClientContext(ctx, httpClient)
	verifier := oidc.NewVerifier(*issuer, oidc.NewRemoteKeySet(ctx, *jwks), &oidc.Config{
		ClientID:             cmp.Or(*audience, *issuer), // the default audience in a realm is its issuer
		SupportedSigningAlgs: []string{oidc.ES256, oidc.ES384, oidc.EdDSA, oidc.RS256, oidc.PS256},
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) { orders(w, r, verifier) })
	return serve(ctx, *listen, mux)
}

// serve serves an API until ctx is done. Its mux also gets GET /healthz.
func serve(ctx context.Context, listen string, mux *http.ServeMux) error {
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// orders responds to invalid tokens as described in RFC 6750 §3.
func orders(w http.ResponseWriter, r *http.Request, verifier *oidc.IDTokenVerifier) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is required", http.StatusUnauthorized)
		return
	}
	verified, err := verifier.Verify(r.Context(), token)
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var claims struct {
		ClientID string `json:"client_id"`
		Scope    string `json:"scope"`
	}
	if err := verified.Claims(&claims); err != nil || !hasScope(claims.Scope, "orders.read") {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		http.Error(w, "the scope orders.read is required", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"client": claims.ClientID})
}

func hasScope(all, wanted string) bool {
	for scope := range strings.FieldsSeq(all) {
		if scope == wanted {
			return true
		}
	}
	return false
}

// describe returns the status and body of a response in one line.
func describe(response *http.Response, body []byte) string {
	return fmt.Sprintf("%s %s", response.Status, strings.TrimSpace(string(body)))
}
