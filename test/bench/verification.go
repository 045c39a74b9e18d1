package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
)

// verifiedTokens is how many different tokens are asked about.
const verifiedTokens = 1000

// verifications measures answers about tokens, to gateways and to APIs that introspect. The
// limit is what a server would reach that did nothing but speak HTTP and verify a signature.
func verifications() []experiment {
	questions := map[string]func(realm, authorization, token string) []byte{
		"verify": func(realm, _, token string) []byte {
			return fmt.Appendf(nil, "GET /%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer %s\r\n\r\n",
				realm, oauth.VerificationPath, host, token)
		},
		"introspect": func(realm, authorization, token string) []byte {
			body := "token=" + token
			return fmt.Appendf(nil, "POST /%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
				realm, oauth.IntrospectionPath, host, authorization, oauth.ContentTypeForm, len(body), body)
		},
	}
	var all []experiment
	for _, name := range []string{"verify", "introspect"} {
		for _, algorithm := range []signingkey.Algorithm{signingkey.ES256, signingkey.EdDSA, signingkey.RS256} {
			all = append(all, experiment{
				rows: []row{{
					name: name + "/" + string(algorithm), unit: perSecond, judge: ratio, target: atLeast(0.75),
					limit: "1/(1/plain + 1/verify), where plain is a net/http server without time limits whose handler only answers the same bytes, and verify the verification of crypto/* on all cores",
					parts: []string{"plain", "verify"},
				}},
				prepare: func(part time.Duration) (func(int) ([]sample, error), func(), error) {
					return prepareVerification(algorithm, questions[name], part)
				},
			})
		}
	}
	return all
}

func prepareVerification(algorithm signingkey.Algorithm, question func(realm, authorization, token string) []byte, part time.Duration) (round func(int) ([]sample, error), teardown func(), err error) {
	people, err := newPopulation(algorithm)
	if err != nil {
		return nil, nil, err
	}
	requests := make([][]byte, 0, verifiedTokens)
	var input []byte
	for i := range verifiedTokens {
		answer, err := answerTo(people.server.Handler, people.requests[i])
		if err != nil {
			return nil, nil, err
		}
		var issued struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &issued); err != nil {
			return nil, nil, fmt.Errorf("reading an answer of the token endpoint: %w", err)
		}
		input = signingInput(answer)
		requests = append(requests, question(fmt.Sprintf("realm-%d", i%realmCount), people.authorizations[i], issued.AccessToken))
	}
	verify, err := rawVerification(algorithm, input)
	if err != nil {
		return nil, nil, err
	}
	return prepareRates(people, requests, verify, part)
}
