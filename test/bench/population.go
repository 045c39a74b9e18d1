package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver/registry"
)

const (
	realmCount  = 10
	clientCount = 10_000

	host = "api.bench.example"
)

// population is a token server with realms and clients, and a request of each client.
type population struct {
	server         *http.Server
	requests       [][]byte // POST for a token as documented: Basic, and the grant type in the query
	authorizations []string // the Authorization header of each
}

// newPopulation spreads the clients over the realms, all of which sign with the algorithm.
func newPopulation(algorithm signingkey.Algorithm, options ...func(*tokenserver.Options)) (*population, error) {
	reg := registry.New()
	realms := make([]*registry.Realm, 0, realmCount)
	for i := range realmCount {
		realm, err := newRealm(fmt.Sprintf("realm-%d", i), algorithm)
		if err != nil {
			return nil, err
		}
		realms = append(realms, realm)
	}
	p := &population{}
	clients := make([]*registry.Client, 0, clientCount)
	for i := range clientCount {
		secret, err := clientsecret.Generate(rand.Reader)
		if err != nil {
			return nil, err
		}
		realm := realms[i%realmCount]
		client, err := newClient(realm.UID, i, secret)
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
		authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte(client.ID+":"+secret))
		p.authorizations = append(p.authorizations, authorization)
		p.requests = append(p.requests, tokenRequest(realm.Name, authorization))
	}
	reg.Replace(realms, clients, func(string) bool { return false })

	logger := slog.New(slog.DiscardHandler)
	o := tokenserver.Options{
		Registry: reg, Metrics: tokenserver.NewMetrics(prometheus.NewRegistry(), reg), Logger: logger,
		Now: time.Now, Random: rand.Reader,
	}
	for _, option := range options {
		option(&o)
	}
	p.server = httpserver.New(tokenserver.New(o), tokenserver.ServerLimits(), nil, logger)
	return p, nil
}

func newRealm(name string, algorithm signingkey.Algorithm) (*registry.Realm, error) {
	const lifetime = 15 * time.Minute
	keys, _, err := signingkey.Plan(time.Now(), nil, signingkey.Policy{Algorithm: algorithm, TokenLifetime: lifetime}, rand.Reader)
	if err != nil {
		return nil, err
	}
	return registry.NewRealm(registry.RealmSettings{
		UID: "uid-of-" + name, Name: name, Issuer: "https://" + host + "/" + name, TokenLifetime: lifetime, KeyCache: oauth.MaxKeyCache,
		Audiences: []string{"https://orders.bench.example"}, Scopes: []string{"orders:read", "orders:write"}, Keys: keys,
	})
}

func newClient(realmUID string, i int, secret string) (*registry.Client, error) {
	verifier, err := clientsecret.Hash(secret, rand.Reader)
	if err != nil {
		return nil, err
	}
	return &registry.Client{
		UID: fmt.Sprintf("5c9e2c5e-0000-4000-8000-%012d", i), RealmUID: realmUID, ID: clientID(i), CreatedAt: time.Now().Truncate(time.Second),
		Scopes: []string{"orders:read", "orders:write"}, Secrets: []clientsecret.Credential{{Verifier: verifier}},
	}, nil
}

// clientID returns a client id of the length of a usual <namespace>.<name>.
func clientID(i int) string { return fmt.Sprintf("team-%03d.service-%07d", i%1000, i) }

func tokenRequest(realm, authorization string) []byte {
	return fmt.Appendf(nil, "POST /%s%s?grant_type=%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: %s\r\nContent-Length: 0\r\n\r\n",
		realm, oauth.TokenPath, oauth.GrantTypeClientCredentials, host, authorization)
}

func getRequest(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", path, host)
}

// parseRequest returns what net/http hands to a handler for the request.
func parseRequest(request []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return nil, fmt.Errorf("parsing a request: %w", err)
	}
	r.RemoteAddr = "127.0.0.1:40000"
	return r, nil
}

// answerTo returns the answer of the handler to the request, which must be 200.
func answerTo(handler http.Handler, request []byte) (*httptest.ResponseRecorder, error) {
	r, err := parseRequest(request)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("%w: %d %s", errAnswer, w.Code, w.Body)
	}
	return w, nil
}

// bare answers everything with the bytes of one answer, and does nothing else.
func bare(answer *httptest.ResponseRecorder) http.Handler {
	body := answer.Body.Bytes()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), answer.Header())
		_, _ = w.Write(body)
	})
}
