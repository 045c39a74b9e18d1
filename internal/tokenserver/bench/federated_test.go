package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const benchIssuer = "https://issuer.example.com"

// BenchmarkFederated measures tokens per second for tokens of a trusted issuer, without a client ID.
// The baseline is a server that only handles HTTP, verifies a signature, and signs.
func BenchmarkFederated(b *testing.B) {
	key := benchKey(b, signingkey.ES256)
	p := federatedPopulation(b, key)
	response := responseTo(b, p.handler, p.requests[0]).Body.String()
	sign := rawSignature(b, signingkey.ES256, signingInput(response))
	verify := rawVerification(b, signingkey.ES256, []byte(benchAssertion(b, key, "realm-0", 0)))
	compareRates(b, p, anyOf(p.requests), "sign-and-verify", func() error {
		if err := verify(); err != nil {
			return err
		}
		return sign()
	})
}

// federatedPopulation returns a token server whose clients are workloads of a trusted issuer.
func federatedPopulation(b *testing.B, key signingkey.Key) *population {
	b.Helper()
	p := &population{}
	var realms []*registry.Realm
	for i := range benchRealms {
		realms = append(realms, benchRealm(b, fmt.Sprintf("realm-%d", i), signingkey.ES256, func(r *registry.RealmSettings) {
			r.Issuers = []registry.Issuer{{
				Name: "issuer", Issuer: benchIssuer, Audience: benchAudience(r.Name), Authenticates: true, Keys: []signingkey.PublicKey{key.Public()},
			}}
		}))
	}
	var clients []*registry.Client
	var subjects []*registry.Subject
	for i := range benchClients {
		realm := realms[i%benchRealms]
		uid := fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i)
		subject := benchSubject(i)
		clients = append(clients, &registry.Client{
			Record: fmt.Sprintf("client-%064x", i), UID: uid, Identity: uid, RealmUID: realm.UID, ID: clientID(i), Audiences: []string{orders},
			Scopes: []string{"orders:read", "orders:write"}, Identities: []registry.Identity{{ID: "issuer", IssuerName: "issuer", Issuer: benchIssuer, Subject: subject}},
		})
		subjects = append(subjects, &registry.Subject{
			Record: fmt.Sprintf("subject-%064x", i), RealmUID: realm.UID, IssuerName: "issuer", Issuer: benchIssuer, Subject: subject, ClientID: clientID(i), ClientUID: uid,
		})
		if i < 1000 {
			p.requests = append(p.requests, grantRequest(realm.Name, benchAssertion(b, key, realm.Name, i)))
		}
	}
	reg := registry.New()
	reg.Replace(realms, clients, subjects, nil, func(string) bool { return false })
	p.handler = benchHandler(reg, func(*tokenserver.Options) {})
	return p
}

func benchAudience(realm string) string { return "https://" + host + "/" + realm }

func benchSubject(i int) string {
	return fmt.Sprintf("system:serviceaccount:team-%03d:service-%07d", i%1000, i)
}

// benchAssertion returns a token of about the size of a service account token.
func benchAssertion(b *testing.B, key signingkey.Key, realm string, i int) string {
	b.Helper()
	now := time.Now()
	return signedJWT(b, key, object{"alg": "ES256", "kid": key.ID}, object{
		"iss": benchIssuer, "aud": []string{benchAudience(realm)}, "sub": benchSubject(i), "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"jti": "0b8c6d0a-4d3f-4a0c-9d3b-0c1f6f1b2a3c", "kubernetes.io": object{
			"namespace": "team", "node": object{"name": "node-1", "uid": "5c9e2c5e-0000-4000-8000-000000000001"},
			"pod":            object{"name": "service-7d4b9c-x2x7k", "uid": "5c9e2c5e-0000-4000-8000-000000000002"},
			"serviceaccount": object{"name": "service", "uid": "5c9e2c5e-0000-4000-8000-000000000003"},
		},
	})
}

func grantRequest(realm, assertion string) []byte {
	body := "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" + assertion
	return fmt.Appendf(nil, "POST /%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		realm, oauth.TokenPath, host, oauth.ContentTypeForm, len(body), body)
}
