package issuer

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// Canary is part of everything that a hostile issuer sends. It must not appear anywhere else.
const Canary = "c4n4ry"

// Discovered is an issuer whose keys are discovered over HTTPS. Tests replace its responses.
type Discovered struct {
	*Static

	server   *httptest.Server
	requests atomic.Int64
	metadata atomic.Pointer[http.HandlerFunc]
	keys     atomic.Pointer[http.HandlerFunc]
}

// StartDiscovered starts an issuer with a new key on a free port of https://127.0.0.1. It stops at the
// end of the test.
func StartDiscovered(t testing.TB, name string) *Discovered {
	t.Helper()
	d := &Discovered{}
	d.server = httptest.NewUnstartedServer(http.HandlerFunc(d.serve))
	d.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients hang up on hostile responses
	d.server.StartTLS()
	t.Cleanup(d.server.Close)
	d.Static = NewStatic(t, name, d.server.URL)
	d.Behave()
	return d
}

// Trusted returns the entry for a Realm.
func (d *Discovered) Trusted() v1beta1.TrustedIssuer {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	return v1beta1.TrustedIssuer{Name: d.name, Issuer: v1beta1.IssuerURL(d.url), Keys: v1beta1.IssuerKeys{CABundle: v1beta1.IssuerCABundle(authority)}}
}

// Requests returns the number of requests that the issuer has got.
func (d *Discovered) Requests() int { return int(d.requests.Load()) }

// Stop makes the issuer refuse connections.
func (d *Discovered) Stop() { d.server.Close() }

// Behave restores the responses that were replaced.
func (d *Discovered) Behave() {
	d.ServeMetadata(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, d.url, d.url+"/keys")
	})
	d.ServeKeys(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{d.key.Public()}})
	})
}

// ServeMetadata replaces the metadata.
func (d *Discovered) ServeMetadata(handler http.HandlerFunc) { d.metadata.Store(&handler) }

// ServeKeys replaces the key set.
func (d *Discovered) ServeKeys(handler http.HandlerFunc) { d.keys.Store(&handler) }

func (d *Discovered) serve(w http.ResponseWriter, r *http.Request) {
	d.requests.Add(1)
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		(*d.metadata.Load())(w, r)
	case "/keys":
		(*d.keys.Load())(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Respond returns a handler that sends a body with a status.
func Respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Canary", Canary)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Redirect returns a handler that redirects.
func Redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// Trickle is a handler that sends a byte of an endless body ten times a second.
func Trickle(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, " "); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ServePrivateKey makes the issuer publish its private key.
func (d *Discovered) ServePrivateKey() {
	d.ServeKeys(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{d.key}})
	})
}
