package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/verify"
)

const (
	issuer   = "https://api.example.com/acme"
	audience = "https://orders.acme.example"
)

// BenchmarkVerifier measures tokens that api/verify verified before, on one core. The baseline is go-oidc, which also
// checks the signature, the issuer, the audience, and the times, and returns the client and the scopes.
func BenchmarkVerifier(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256} {
		b.Run(string(algorithm), func(b *testing.B) {
			i := newTokenIssuer(b, algorithm)
			library := next(i.tokens, i.verifyWithLibrary(b))
			others := next(i.tokens, i.verifyWithGoOIDC(b))
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for range i.tokens {
				spend(b, 1, library)
			}
			var seen, goOIDC time.Duration
			calls := 0
			for turn := 0; b.Loop(); turn++ {
				for i := range 2 {
					if (turn+i)%2 == 0 {
						seen += spend(b, batch, library)
					} else {
						goOIDC += spend(b, batch, others)
					}
				}
				calls += batch
			}
			b.ReportMetric(goOIDC.Seconds()/seen.Seconds(), "ratio")
			b.ReportMetric(seen.Seconds()*1e6/float64(calls), "µs-seen")
			b.ReportMetric(goOIDC.Seconds()*1e6/float64(calls), "µs-go-oidc")
		})
	}
}

// batch is the number of calls between two measurements.
const batch = 100

// spend returns the CPU time of a number of calls.
func spend(b *testing.B, calls int, call func() error) time.Duration {
	b.Helper()
	start := cpuTime(b)
	for range calls {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	return cpuTime(b) - start
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// next returns a function that calls verify with each of the tokens in turn.
func next(tokens []string, verify func(token string) error) func() error {
	i := 0
	return func() error {
		token := tokens[i%len(tokens)]
		i++
		return verify(token)
	}
}

// tokenIssuer is an issuer with one key, whose metadata and keys are served without a network.
type tokenIssuer struct {
	algorithm jose.SignatureAlgorithm
	keys      jose.JSONWebKeySet
	tokens    []string
}

func newTokenIssuer(b *testing.B, algorithm jose.SignatureAlgorithm) *tokenIssuer {
	b.Helper()
	var key crypto.Signer
	var err error
	switch algorithm {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		b.Fatal(err)
	}
	private := jose.JSONWebKey{Key: key, KeyID: "key", Algorithm: string(algorithm), Use: "sig"}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: private}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		b.Fatal(err)
	}
	i := &tokenIssuer{algorithm: algorithm, keys: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{private.Public()}}}
	now := time.Now()
	for range 500 {
		token, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": issuer, "sub": "acme-apps.billing", "client_id": "acme-apps.billing", "client_uid": "b242a1ba-8d0c-4b56-8f0e-0d3e0f8f4b6f",
			"aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(), "scope": "orders.read orders.write",
		}).Serialize()
		if err != nil {
			b.Fatal(err)
		}
		i.tokens = append(i.tokens, token)
	}
	return i
}

// RoundTrip responds to requests for metadata and keys.
func (i *tokenIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	var document any = i.keys
	if r.URL.Path != "/acme/oauth2/jwks" {
		document = map[string]string{"issuer": issuer, "jwks_uri": issuer + "/oauth2/jwks"}
	}
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(document)
	return w.Result(), err
}

func (i *tokenIssuer) verifyWithLibrary(b *testing.B) func(string) error {
	b.Helper()
	v, err := verify.New(b.Context(), issuer, verify.Options{Audience: audience, Client: &http.Client{Transport: i}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(v.Close)
	return func(token string) error {
		claims, err := v.Verify(b.Context(), token)
		if err == nil && (claims.ClientID == "" || len(claims.Scopes) != 2) {
			err = errors.New("claims are missing")
		}
		return err
	}
}

func (i *tokenIssuer) verifyWithGoOIDC(b *testing.B) func(string) error {
	b.Helper()
	ctx := oidc.ClientContext(context.Background(), &http.Client{Transport: i})
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		b.Fatal(err)
	}
	verifier := provider.VerifierContext(ctx, &oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{string(i.algorithm)}})
	return func(token string) error {
		verified, err := verifier.Verify(ctx, token)
		if err != nil {
			return err
		}
		var claims struct {
			ClientID string `json:"client_id"`
			Scope    string `json:"scope"`
		}
		if err := verified.Claims(&claims); err != nil || claims.ClientID == "" || claims.Scope == "" {
			return errors.Join(err, errors.New("claims are missing"))
		}
		return nil
	}
}
