package bench_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/protocol/oauth"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

// BenchmarkAssertions measures tokens per second for clients that authenticate with an assertion
// (private_key_jwt). The baseline is a server that only handles HTTP, verifies a signature, and
// signs.
func BenchmarkAssertions(b *testing.B) {
	w := assertions(b)
	compareRates(b, w.server, w.load, w.name, w.compute)
}

// assertions returns a token server whose clients have a public key instead of a secret, and a load
// of assertions.
func assertions(b *testing.B) workload {
	b.Helper()
	key := benchKey(b, signingkey.ES256)
	p := newPopulation(b, signingkey.ES256, func(*tokenserver.Options) {}, func(c *registry.Client) {
		c.Secrets, c.PublicKeys = []clientsecret.Stored{}, []signingkey.PublicKey{key.Public()}
	})
	var made atomic.Int64
	requests := signedAhead(func() []byte {
		n := int(made.Add(1))
		now, i := time.Now(), n%benchClients
		realm := fmt.Sprintf("realm-%d", i%benchRealms)
		assertion := signedJWT(b, key, object{"alg": "ES256", "kid": key.ID, "typ": "JWT"}, object{
			"iss": clientID(i), "sub": clientID(i), "aud": benchAudience(realm), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
			"jti": fmt.Sprintf("0b8c6d0a-4d3f-4a0c-9d3b-%012d", n),
		})
		body := "grant_type=" + oauth.GrantTypeClientCredentials + "&" + assertionType + "&client_assertion=" + assertion
		return fmt.Appendf(nil, "POST /%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			realm, oauth.TokenPath, host, oauth.ContentTypeForm, len(body), body)
	})
	sign := rawSignature(b, signingkey.ES256, signingInput(responseTo(b, p.handler, requests.next()).Body.String()))
	verify := rawVerification(b, signingkey.ES256, requests.next())
	return workload{p, requests, "sign-and-verify", func() error {
		if err := verify(); err != nil {
			return err
		}
		return sign()
	}}
}

// object is a JSON object.
type object map[string]any

// signedJWT returns a JWT that is signed with a key.
func signedJWT(b *testing.B, key signingkey.Key, header, claims object) string {
	b.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	input := encode(testkit.Value(json.Marshal(header))(b)) + "." + encode(testkit.Value(json.Marshal(claims))(b))
	return input + "." + encode(testkit.Value(key.Signer().Sign(nil, []byte(input)))(b))
}

// signedAhead returns a load of requests that can be sent only once. It makes them before each
// measurement, because the signatures of clients aren't part of it.
func signedAhead(request func() []byte) load {
	// The channel contains enough for a window. If they are used up, clients make their own.
	ready := make(chan []byte, 1024*runtime.GOMAXPROCS(0))
	l := load{
		next: func() []byte {
			select {
			case r := <-ready:
				return r
			default:
				return request()
			}
		},
		prepare: func() {
			var running sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				running.Go(func() {
					for {
						select {
						case ready <- request():
						default:
							return
						}
					}
				})
			}
			running.Wait()
		},
	}
	l.prepare() // before connections are open, which the server closes if they are idle
	return l
}
