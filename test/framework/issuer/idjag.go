package issuer

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
)

// AgentID is the client ID of an agent, a public client, that exchanges ID tokens for ID-JAGs.
const AgentID = "agent"

const (
	grantTypeTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDToken            = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG              = "urn:ietf:params:oauth:token-type:id-jag"
)

// Trusted returns the entry for a Realm that accepts the ID-JAGs of the issuer.
func (i *Issuer) Trusted(t testing.TB, name string) v1beta1.TrustedIssuer {
	t.Helper()
	keys, err := json.Marshal(i.keySet())
	if err != nil {
		t.Fatal(err)
	}
	return v1beta1.TrustedIssuer{
		Name: name, Issuer: v1beta1.IssuerURL(i.URL()), Uses: []v1beta1.IssuerUse{v1beta1.IssuerUseIDJAG},
		Keys: v1beta1.IssuerKeys{JWKS: v1beta1.IssuerJWKS(keys)},
	}
}

// RegisterAgent sets the client ID that the agent has at another authorization server.
func (i *Issuer) RegisterAgent(server, clientID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.agents[server] = clientID
}

// IDToken returns an ID token for the agent, as if the user had signed in to it.
func (i *Issuer) IDToken(t testing.TB, user string) string {
	t.Helper()
	token, err := i.sign("JWT", map[string]any{"aud": AgentID, "sub": user}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// exchange exchanges an ID token of the agent for an ID-JAG
// (draft-ietf-oauth-identity-assertion-authz-grant, section 4.3).
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	server := r.PostFormValue("audience")
	i.mu.Lock()
	agent := i.agents[server]
	i.mu.Unlock()
	user, err := i.user(r.PostFormValue("subject_token"))
	if err != nil || agent == "" || r.PostFormValue("client_id") != AgentID ||
		r.PostFormValue("subject_token_type") != typeIDToken || r.PostFormValue("requested_token_type") != typeIDJAG {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]string{"error": "invalid_request"})
		return
	}
	const lifetime = 5 * time.Minute
	grant, err := i.sign("oauth-id-jag+jwt", map[string]any{
		"aud": server, "sub": user, "client_id": agent, "jti": rand.Text(),
		"resource": r.PostFormValue("resource"), "scope": r.PostFormValue("scope"),
	}, lifetime)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, map[string]any{"issued_token_type": typeIDJAG, "access_token": grant, "token_type": "N_A", "expires_in": int(lifetime.Seconds())})
}

// user returns the user of an ID token of the agent.
func (i *Issuer) user(token string) (string, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return "", err
	}
	var claims jwt.Claims
	if err := parsed.Claims(i.key.Public(), &claims); err != nil {
		return "", err
	}
	return claims.Subject, claims.Validate(jwt.Expected{Issuer: i.URL(), AnyAudience: jwt.Audience{AgentID}, Time: time.Now()})
}
