// Command orders-api is an API that accepts a realm's access tokens. GET /orders requires the scope
// orders.read, and POST /orders requires orders.write.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "Listen `address`")
	issuer := flag.String("issuer", "", "Issuer `URL` of the realm")
	realm := flag.String("realm-url", "", "`URL` at which the realm is reached (default the issuer)")
	audience := flag.String("audience", "", "Audience `name` of this API in access tokens")
	authority := flag.String("ca-file", "", "`File` with the CA of the issuer (default the system's CAs)")
	flag.Parse()
	if err := run(context.Background(), *listen, *issuer, *realm, *audience, *authority); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, issuer, realm, audience, authority string) error {
	client, err := newClient(authority)
	if err != nil {
		return err
	}
	verifier, err := verify.New(ctx, issuer, verify.Options{Audience: audience, RealmURL: realm, Client: client})
	if err != nil {
		return err
	}
	defer verifier.Close()
	orders := http.NewServeMux()
	orders.Handle("GET /orders", verifier.Require("orders.read")(http.HandlerFunc(list)))
	orders.Handle("POST /orders", verifier.Require("orders.write")(http.HandlerFunc(create)))
	server := &http.Server{Addr: listen, Handler: orders, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func list(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "the orders of %s\n", verify.FromContext(r.Context()).ClientID)
}

func create(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

var errNoCertificate = errors.New("no certificate found")

// newClient returns an HTTP client for the issuer. It trusts only the CA in the file, or the
// system's CAs if file is empty.
func newClient(file string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w in %s", errNoCertificate, file)
		}
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}, nil
}
