// Package issuer is a small OpenID Connect issuer for tests. It supports discovery, the JWK Set,
// the authorization code flow with PKCE, and ID-JAGs. Users sign in with any name and without a
// password.
package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ClientID is the client ID of the application that users sign in to.
const ClientID = "realmkeeper-portal"

// Issuer is a running issuer.
type Issuer struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey

	mu       sync.Mutex
	grants   map[string]grant  // by code
	agents   map[string]string // client IDs of the agent, by authorization server
	lifetime time.Duration
}

// grant is a completed sign-in, which can be exchanged once for tokens with an authorization code.
type grant struct {
	user, nonce, challenge, redirect string
}

// Start starts an issuer on a free port of https://127.0.0.1.
func Start() (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("starting an issuer: %w", err)
	}
	i := &Issuer{key: key, grants: map[string]grant{}, agents: map[string]string{}, lifetime: time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discover)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.signIn)
	mux.HandleFunc("POST /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	i.server = httptest.NewTLSServer(mux)
	return i, nil
}

// Close stops the issuer.
func (i *Issuer) Close() { i.server.Close() }

// URL returns the issuer identifier that its tokens contain.
func (i *Issuer) URL() string { return i.server.URL }

// Authority returns, in PEM, the certificate that clients of the issuer must trust.
func (i *Issuer) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
}

// AuthenticationConfiguration returns an AuthenticationConfiguration that makes an API server trust
// the issuer. The Kubernetes user name is the sub claim with the prefix "oidc:".
func (i *Issuer) AuthenticationConfiguration() ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "AuthenticationConfiguration",
		"jwt": []any{map[string]any{
			"issuer":        map[string]any{"url": i.URL(), "certificateAuthority": string(i.Authority()), "audiences": []string{ClientID}},
			"claimMappings": map[string]any{"username": map[string]any{"claim": "sub", "prefix": "oidc:"}},
		}},
	})
}

// SetTokenLifetime sets the lifetime of tokens that are issued from now on.
func (i *Issuer) SetTokenLifetime(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lifetime = d
}

func (i *Issuer) discover(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"issuer":                                i.URL(),
		"authorization_endpoint":                i.URL() + "/authorize",
		"token_endpoint":                        i.URL() + "/token",
		"jwks_uri":                              i.URL() + "/keys",
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
		"code_challenge_methods_supported":      []string{"S256"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, i.keySet())
}

func (i *Issuer) keySet() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
}

var signInPage = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><title>Issuer</title>
<form method="post" action="/authorize?{{.}}"><label>User name <input name="user" id="user"></label> <button>Continue</button></form></html>`))

func (i *Issuer) signIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = signInPage.Execute(w, template.URL(r.URL.RawQuery)) //nolint:gosec // it is the query of the same request
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	if err != nil || query.Get("client_id") != ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "the request must use the authorization code flow with PKCE", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.grants[code] = grant{user: r.PostFormValue("user"), nonce: query.Get("nonce"), challenge: query.Get("code_challenge"), redirect: redirect.String()}
	i.mu.Unlock()
	redirect.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")}}.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusSeeOther) //nolint:gosec // The test chooses the target.
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("grant_type") == grantTypeTokenExchange {
		i.exchange(w, r)
		return
	}
	i.mu.Lock()
	g, ok := i.grants[r.PostFormValue("code")]
	delete(i.grants, r.PostFormValue("code"))
	lifetime := i.lifetime
	i.mu.Unlock()
	verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || g.redirect != r.PostFormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(verifier[:]) {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]string{"error": "invalid_grant"})
		return
	}
	token, err := i.sign("JWT", map[string]any{"aud": ClientID, "sub": g.user, "nonce": g.nonce}, lifetime)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": int(lifetime.Seconds()), "id_token": token})
}

// sign returns a token of the given type. It adds the issuer and the times to the claims.
func (i *Issuer) sign(kind string, claims map[string]any, lifetime time.Duration) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	if err != nil {
		return "", err
	}
	now := time.Now()
	claims["iss"], claims["iat"], claims["exp"] = i.URL(), now.Unix(), now.Add(lifetime).Unix()
	return jwt.Signed(signer).Claims(claims).Serialize()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
