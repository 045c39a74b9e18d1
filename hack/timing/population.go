package main

import (
	cryptorand "crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/httpserver"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
	"github.com/realmkeeper/realmkeeper/internal/registry"
	"github.com/realmkeeper/realmkeeper/internal/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// kindSize is how many client ids of a kind there are: so many that where a few of them happen
// to lie in memory tells nothing about the rest.
const kindSize = 20_000

// kind is a number of client ids of one realm that are asked for at random. The ids are made
// when they are asked for: in memory they could lie beside what the server reads.
type kind struct {
	realm   string
	numbers []int

	times int // each in a row, so that what it needs is in the CPU's caches; 0 is once
	asked int
	last  int
}

// each returns the kind with each id that was chosen asked for so many times.
func (k kind) each(times int) kind {
	k.times = times
	return k
}

// next chooses the id of a request.
func (k *kind) next(random *rand.Rand) string {
	if k.asked%max(1, k.times) == 0 {
		k.last = k.numbers[random.IntN(len(k.numbers))]
	}
	k.asked++
	return clientID(k.last)
}

// halves splits the ids at random.
func (k kind) halves(random *rand.Rand) (kind, kind) {
	shuffled, half := slices.Clone(k.numbers), len(k.numbers)/2
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return kind{realm: k.realm, numbers: shuffled[:half]}, kind{realm: k.realm, numbers: shuffled[half:]}
}

// population is a token server with a realm whose clients have one secret each, and one
// whose clients are all in the overlap of a rotation; and ids of the same form in both that no client has.
type population struct {
	server                                    *http.Server
	known, unknown, rotating, unknownRotating kind
}

func newPopulation() (*population, error) {
	reg := registry.New()
	p := &population{}
	for _, r := range []struct {
		name           string
		verifiers      int
		known, unknown *kind
	}{{"steady", 1, &p.known, &p.unknown}, {"rotate", 2, &p.rotating, &p.unknownRotating}} {
		realm, err := newRealm(r.name)
		if err != nil {
			return nil, err
		}
		reg.SetRealm(realm)
		r.known.realm, r.unknown.realm = r.name, r.name
		for i := range kindSize {
			client, err := newClient(realm, i, r.verifiers)
			if err != nil {
				return nil, err
			}
			reg.SetClient(client)
			r.known.numbers = append(r.known.numbers, i)
			r.unknown.numbers = append(r.unknown.numbers, kindSize+i)
		}
	}
	reg.Replace(nil, nil, func(string) bool { return true }) // marks it loaded
	logger := slog.New(slog.DiscardHandler)
	p.server = httpserver.New(tokenserver.New(tokenserver.Options{
		Registry: reg, Metrics: tokenserver.NewMetrics(prometheus.NewRegistry(), reg), Logger: logger,
		Now: time.Now, Random: cryptorand.Reader, TrustedProxies: []netip.Prefix{proxy},
	}), tokenserver.ServerLimits(), nil, logger)
	return p, nil
}

func newRealm(name string) (*registry.Realm, error) {
	const lifetime = 15 * time.Minute
	keys, _, err := signingkey.Plan(time.Now(), nil, signingkey.Policy{Algorithm: signingkey.ES256, TokenLifetime: lifetime}, cryptorand.Reader)
	if err != nil {
		return nil, err
	}
	return registry.NewRealm(registry.RealmSettings{
		UID: "uid-of-" + name, Name: name, Issuer: "https://" + host + "/" + name, TokenLifetime: lifetime,
		KeyCache: oauth.MaxKeyCache, Keys: keys,
	})
}

func newClient(realm *registry.Realm, i, verifiers int) (*registry.Client, error) {
	client := &registry.Client{UID: fmt.Sprintf("%s-%d", realm.UID, i), RealmUID: realm.UID, ID: clientID(i), CreatedAt: time.Now()}
	for range verifiers {
		verifier, err := clientsecret.Hash("nobody asks with it", cryptorand.Reader)
		if err != nil {
			return nil, err
		}
		client.Secrets = append(client.Secrets, clientsecret.Credential{Verifier: verifier})
	}
	return client, nil
}

// clientID returns a client id, of the same length for every number.
func clientID(i int) string { return fmt.Sprintf("team-%03d.service-%07d", i%1000, i) }

// wrongSecret returns a secret of the form of generated ones that nobody has.
func wrongSecret() (string, error) { return clientsecret.Generate(cryptorand.Reader) }

func authorization(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
}
