package bench_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/contract/record"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkExchange measures token exchanges per second, of tokens of 1000 clients by 1000 others. The
// baseline is a server that only handles HTTP, verifies a signature, and signs.
func BenchmarkExchange(b *testing.B) {
	everyone := record.ClientSelector{All: true}
	p := newPopulation(b, signingkey.ES256, func(o *tokenserver.Options) {
		for i := range benchRealms {
			o.Registry.SetRealm(benchRealm(b, fmt.Sprintf("realm-%d", i), signingkey.ES256, func(r *registry.RealmSettings) {
				r.Exchanges = []record.Exchange{{
					Name: "agents", Actors: everyone, Subjects: &everyone, SubjectAudiences: []string{orders},
					Audiences: []string{orders}, Scopes: []string{"orders:read"}, MaxDepth: 1,
				}}
			}))
		}
	})
	var requests [][]byte
	var input []byte
	for i := range 1000 {
		response := responseTo(b, p.handler, p.requests[i]).Body
		input = signingInput(response.String())
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(response.Bytes(), &issued); err != nil {
			b.Fatal(err)
		}
		body := "grant_type=" + oauth.GrantTypeTokenExchange + "&subject_token_type=" + oauth.TypeAccessToken + "&audience=" + orders + "&subject_token=" + issued.AccessToken
		requests = append(requests, fmt.Appendf(nil, "POST /realm-%d%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			i%benchRealms, oauth.TokenPath, host, p.authorizations[i+1000], oauth.ContentTypeForm, len(body), body))
	}
	sign := rawSignature(b, signingkey.ES256, signingInput(responseTo(b, p.handler, requests[0]).Body.String()))
	verify := rawVerification(b, signingkey.ES256, input)
	compareRates(b, p, anyOf(requests), "sign-and-verify", func() error {
		if err := verify(); err != nil {
			return err
		}
		return sign()
	})
}
