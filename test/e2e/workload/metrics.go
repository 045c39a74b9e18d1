package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

// serveMetrics serves the same metrics twice. Both require a token from the issuer with the scope orders.read. For
// /metrics, this program verifies it with the realm's keys. For /verified/metrics, the verify endpoint must also accept it.
func serveMetrics(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", ":8080", "`Address` to serve plain HTTP on")
	issuer := flags.String("issuer", "", "Issuer `URL` of the realm, which is the required audience")
	realm := flags.String("realm-url", "", "`URL` at which the realm is reached")
	ca := flags.String("ca-file", "", "CA `file` for realm-url")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := trusting(*ca)
	if err != nil {
		return err
	}
	verifier, err := verify.New(ctx, *issuer, verify.Options{Audience: *issuer, RealmURL: *realm, Client: client})
	if err != nil {
		return err
	}
	defer verifier.Close()
	offline := verifier.Require("orders.read")(http.HandlerFunc(metrics))
	endpoint := *realm + "/oauth2/verify?scope=orders.read"
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", offline)
	mux.HandleFunc("GET /verified/metrics", func(w http.ResponseWriter, r *http.Request) {
		status, err := verified(r, client, endpoint)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		offline.ServeHTTP(w, r)
	})
	return serve(ctx, *listen, mux)
}

// verified returns the status with which the verify endpoint responds to the token of a request, as a gateway does.
func verified(r *http.Request, client *http.Client, endpoint string) (status int, err error) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, endpoint, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", r.Header.Get("Authorization"))
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// metrics describe the token of the request: when it was issued, and which key signed it.
func metrics(w http.ResponseWriter, r *http.Request) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	encoded, _, _ := strings.Cut(token, ".")
	var header struct {
		KeyID string `json:"kid"`
	}
	content, err := base64.RawURLEncoding.DecodeString(encoded)
	if err := errors.Join(err, json.Unmarshal(content, &header)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "orders_token_issued_timestamp_seconds{kid=%q} %d\n", header.KeyID, verify.FromContext(r.Context()).IssuedAt.Unix())
}
